"""`devmind say`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.cli.app import app
from devmind.cli.show import LOADING
from stages.language import parts


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    agent, folder = Agent(AgentConfig(size="tiny")), tmp_path_factory.mktemp("reader")
    parts.admit(agent)
    agent.save_pretrained(folder)
    return folder


def written(said: str) -> tuple[str, str]:
    """The note about what the agent has read, and what it wrote."""
    note = next(line for line in said.splitlines() if "has read" in line)
    return note, said.replace(f"{note}\n", "").replace(f"{LOADING}\n", "")


def test_a_text_is_continued(reader: Path) -> None:
    code, said = run("say", "look, a", "--agent", str(reader), "--length", "30")
    assert code == 0
    note, text = written(said)
    assert note.startswith("Note: it goes on in the manner of what it has read, and answers nothing.")
    assert note.endswith(" It has read the caregiver's sentences.")
    assert text.startswith("look, a")
    assert len(text) > len("look, a") + 5
    assert run("say", "look, a", "--agent", str(reader), "--length", "30") == (0, said)
    assert run("say", "look, a", "--agent", str(reader), "--length", "30", "--seed", "1")[1] != said


def test_a_long_text_is_no_error(reader: Path) -> None:
    code, said = run("say", "once upon a time " * 200, "--agent", str(reader), "--length", "5")
    assert code == 0
    assert written(said)[1].startswith("once upon a time once")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("say", " "), "There is no text to continue"),
        (("say", "caf\udce9"), "TEXT is not UTF-8"),
        (("say", "once", "--agent", "newborn"), "never taught to read and write"),
    ],
)
def test_impossible_requests_are_refused_in_a_sentence(
    reader: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    agent = () if "--agent" in words else ("--agent", str(reader))
    code, said = run(*words, *agent)
    assert code == 2
    assert says in said


def test_without_a_raised_agent_a_packaged_one_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, said = run("say", "once upon", "--length", "5")
    assert code == 0
    assert "has been through language, so this is 'after-" in said
    assert said.count("It has read tinyshakespeare.txt and the caregiver's sentences.") == 1
