"""`devmind memory sleep`: its output, an agent that loads, deletable memories, and clear refusals."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.saving import seal
from devmind.curriculum import sleep as sleeping
from devmind.curriculum.journal import Journal
from devmind.learners.replay import Replay
from devmind.live.remembering.show_and_tell import ShowAndTell
from devmind.memory import Memory, open_store
from devmind.moment import Moment
from devmind.testing import tiny_agent

WORDS = ("ba", "di", "gu")


class KilledError(Exception):
    """Like a kill: nothing handles it."""


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two saved agents with sight: `newborn`, and `sure`, whose head always answers the same word with certainty."""
    folder, born = tmp_path_factory.mktemp("agents"), tiny_agent()
    for sense in ("sight", "words"):
        born.add_encoder(sense)
    born.save_pretrained(folder / "newborn")
    born.add_head("called", "head.categorical", options={"classes": len(WORDS)}, recalls=True, labels=WORDS)
    *_, bias = born.head("called").parameters()
    with torch.no_grad():
        bias.copy_(torch.tensor([9.0, 0.0, 0.0]))
    born.save_pretrained(folder / "sure")
    return folder


@pytest.fixture
def night(devmind: Any, agents: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run the command for a few steps on ./memory: six things with words, and one example of a name."""
    monkeypatch.setitem(sleeping.STEPS, "tiny", 8)  # seven memories are few, so half of the steps
    with open_store("memory") as store:
        child = ShowAndTell(Agent.from_pretrained(agents / "sure"), memory := Memory(store))
        for number in range(6):
            senses = {"sight": np.full((64, 64, 3), 40 * number, np.uint8), "words": WORDS[number % 3]}
            memory.write(Moment(float(number), senses), child.describe(senses))
        child.teach("cup", Moment(9.0, {"sight": np.full((64, 64, 3), 99, np.uint8)}))
    return lambda *words, agent="sure": devmind("memory", "sleep", "--agent", agents / agent, *words)


def is_planned() -> bool:
    """Whether the night has been measured and is making its own steps."""
    return Journal(Path("night/journal.jsonl")).last("plan") is not None


def words(memory: str = "memory") -> list[object]:
    """The words of the entries of a memory."""
    with open_store(memory) as store:
        return [entry.senses.get("words") for entry in store.find()]


def left(memory: str = "memory") -> list[str | None]:
    """The names (or None) of the entries of a memory."""
    with open_store(memory) as store:
        return [entry.name for entry in store.find()]


def test_sleep_prints_its_result_and_saves_an_agent_that_loads(night: Any, agents: Path) -> None:
    done = night("--out", "night")
    assert done.exit_code == 0, done.output
    assert "slept on 7 memories: 4 steps in" in done.stdout
    assert "answered without the memory as with it: 100% before, 100% now" in done.stdout
    assert "known on every view as the memory has it: 2; deleted: 0" in done.stdout
    assert "agent: night/milestones/00-sleep" in done.stdout
    assert len(left()) == 7
    slept, awake = (Agent.from_pretrained(p) for p in ("night/milestones/00-sleep", agents / "sure"))
    assert slept.sha256() != awake.sha256()
    assert slept.sha256("encoders.") == awake.sha256("encoders.")
    again = night("--out", "night")
    assert (again.exit_code, "The night in 'night' has ended; give another --out" in again.stderr) == (2, True)
    next_night = night("--out", "second", agent=Path("night/milestones/00-sleep").absolute())
    assert "slept on 7 memories" in next_night.stdout


def test_known_memories_are_deleted_on_request(night: Any) -> None:
    """The head says "ba" to everything: two of seven memories say so, and no name is ever deleted."""
    done = night("--prune")
    assert "known on every view as the memory has it: 2; deleted: 2" in done.stdout, done.output
    assert words() == ["di", "gu", "di", "gu", None]
    consolidated = sleeping.load_state(Path("checkpoints/sleep/milestones/00-sleep"))
    assert consolidated is not None
    assert len(consolidated.items) == 5


def test_command_without_agent_continues_with_the_next_night(night: Any, agents: Path) -> None:
    assert "agent: checkpoints/sleep/milestones" in night().stdout
    assert "agent: checkpoints/sleep-2/milestones" in night().stdout


def test_night_keeps_the_results_of_its_agent(night: Any, agents: Path) -> None:
    sums = (agents / "sure" / "checksums.json").read_bytes()
    seal(agents / "sure", "results.json", b"{}")
    night("--out", "night")
    (agents / "sure" / "results.json").unlink()
    (agents / "sure" / "checksums.json").write_bytes(sums)
    assert Path("night/milestones/00-sleep/results.json").read_text() == "{}"


@pytest.mark.parametrize("where", ["slept", "pruned", "over"])
def test_night_killed_at_its_end_resumes_by_the_same_command(
    night: Any, devmind: Any, agents: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Also without --agent, although the unfinished night's own agent is then the newest milestone."""
    milestone = Path("checkpoints/run/milestones/00-sure")
    shutil.copytree(agents / "sure", milestone)
    write = Journal.write

    def killed(self: Journal, event: str, **fields: Any) -> None:
        if event == where:
            raise KilledError
        write(self, event, **fields)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "write", killed)
        assert isinstance(devmind("memory", "sleep", "--prune").exception, KilledError)
    done = devmind("memory", "sleep", "--prune")
    assert done.exit_code == 0, done.output
    assert words() == ["di", "gu", "di", "gu", None]
    assert "agent: checkpoints/sleep/milestones/01-sleep" in done.stdout or "00-sleep" in done.stdout
    assert "agent: checkpoints/sleep-2/milestones" in devmind("memory", "sleep").stdout


def test_stopped_night_goes_on_from_another_folder(
    night: Any, devmind: Any, agents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: its agent was looked for from the working folder."""
    shutil.copytree(agents / "sure", Path("checkpoints/run/milestones/00-sure"))
    write = Journal.write

    def killed(self: Journal, event: str, **fields: Any) -> None:
        if event == "slept":
            raise KilledError
        write(self, event, **fields)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "write", killed)
        assert isinstance(devmind("memory", "sleep").exception, KilledError)
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    done = devmind("memory", "sleep", "--out", "../checkpoints/sleep", "--memory", "../memory")
    assert done.exit_code == 0, done.output
    assert "slept on 7 memories" in done.stdout


def test_minutes_are_converted_to_steps_once(night: Any) -> None:
    done = night("--minutes", "0.005", "--out", "night")
    steps = Journal(Path("night/journal.jsonl")).last("plan")
    assert steps is not None
    assert f": {steps['steps']['sleep']} steps in" in done.stdout, done.output


def test_stopped_night_prints_how_to_resume_and_resumes(night: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = Replay.batch

    def interrupted(self: Replay, update: int, steps: int) -> Any:
        if update == 2 and is_planned():
            os.kill(os.getpid(), signal.SIGINT)
        return batch(self, update, steps)

    with monkeypatch.context() as patch:
        patch.setattr(Replay, "batch", interrupted)
        stopped = night("--out", "night")
    assert stopped.exit_code == 130
    assert "the same command continues from there: devmind memory sleep --agent" in stopped.stderr
    done = night("--out", "night")
    assert "slept on 7 memories: 4 steps in" in done.stdout, done.output


def test_stopped_night_can_be_cut(night: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = Replay.batch

    def interrupted(self: Replay, update: int, steps: int) -> Any:
        if update == 1 and is_planned():
            os.kill(os.getpid(), signal.SIGINT)
        return batch(self, update, steps)

    early = night("--out", "night", "--cut")
    assert (early.exit_code, early.stderr) == (
        2,
        "loading takes some seconds\n"
        "--cut ends a night that was stopped, and there is none in 'night'; leave --cut out.\n",
    )  # fmt: skip
    assert not Path("night").exists()
    with monkeypatch.context() as patch:
        patch.setattr(Replay, "batch", interrupted)
        stopped = night("--out", "night")
    assert "With --cut the night ends with what it has learned." in stopped.stderr
    done = night("--out", "night", "--cut")
    assert "slept on 7 memories: 2 steps in" in done.stdout, done.output
    assert "; it was cut" in done.stdout
    assert Agent.from_pretrained("night/milestones/00-sleep").heads


def test_night_killed_before_saving_its_agent_is_not_lost(night: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(self: Agent, folder: Path) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(Agent, "save_pretrained", killed)
        assert isinstance(night("--out", "night", "--prune").exception, KilledError)
    assert len(left()) == 7
    done = night("--out", "night", "--prune")
    assert "slept on 7 memories: 4 steps in" in done.stdout, done.output
    assert len(left()) == 5
    assert Agent.from_pretrained("night/milestones/00-sleep").heads


def test_refused_agent_leaves_the_memory_unchanged(night: Any) -> None:
    before = Path("memory/memory.sqlite3").read_bytes()
    refused = night(agent="newborn")
    assert (refused.exit_code, "No head of this agent was taught to answer" in refused.stderr) == (2, True)
    assert Path("memory/memory.sqlite3").read_bytes() == before
    assert not Path("checkpoints").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--memory", "nowhere"], "There is no memory in 'nowhere'; live or teach first"),
        (["--memory", "empty"], "There is nothing to sleep on: no memory has both words (or a name) and a sense"),
        (["--out", "file"], "The folder file cannot be made: File exists; give another --out."),
        (["--out", "file/night"], "The folder file/night cannot be made: Not a directory; give another --out."),
        (["--minutes", "0"], "--minutes expects a number above 0; got 0."),
        (["--minutes", "nan"], "--minutes expects a number above 0; got nan."),
        (["--minutes", "inf"], "--minutes expects a number above 0; got inf."),
        (["--seed", "-1"], "Invalid value for '--seed'"),
        (["--agent", "hurt"], "The file 'hurt/model.safetensors' is damaged"),
        (["--agent", "worn"], "'worn/sleep.json' is damaged"),
    ],
)
def test_impossible_sleep_gives_a_clear_error(night: Any, agents: Path, words: list[str], sentence: str) -> None:
    Path("file").write_text("no folder")
    with open_store("empty"):
        pass
    sure = Agent.from_pretrained(agents / "sure")
    for name in ("hurt", "worn"):
        sure.save_pretrained(name)
    Path("worn/sleep.json").write_text("[]")
    with Path("hurt/model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x7f")
    refused = night(*words)
    assert (refused.exit_code, sentence in refused.stderr) == (2, True), refused.output
    assert len(left()) == 7


@pytest.mark.parametrize("config", ["{half", "[]"])
def test_damaged_newest_milestone_gives_a_clear_error(devmind: Any, config: str) -> None:
    newest = Path("checkpoints/run/milestones/00-reflex")
    newest.mkdir(parents=True)
    (newest / "config.json").write_text(config)
    with open_store("memory"):
        pass
    refused = devmind("memory", "sleep")
    assert (refused.exit_code, f"The newest milestone '{newest}' is damaged" in refused.stderr) == (2, True)


def test_packaged_agent_sleeps_if_no_agent_was_raised_and_a_memory_exists(devmind: Any) -> None:
    refused = devmind("memory", "sleep")
    assert refused.stderr == "There is no memory in 'memory'; live or teach first, or give --memory DIR.\n"
    with open_store("memory"):
        pass
    refused = devmind("memory", "sleep")
    assert "has been through memory, so this is 'after-" in refused.stderr
    assert "There is nothing to sleep on" in refused.stderr, "the newborn would have been refused for its heads"
