"""Commands and configurations name a memory by a folder or by a URL."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from devmind.cli import app
from devmind.memory import folder_of, open_store
from devmind.testing.stores import example


def run(*words: str) -> str:
    """The output of a command, which must succeed."""
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output
    return result.output


def test_a_place_is_a_folder_or_a_url(tmp_path: Path) -> None:
    assert folder_of("memory") == Path("memory")
    assert folder_of(tmp_path) == tmp_path
    assert folder_of("postgresql:///memory") is None


def test_the_memory_commands_accept_a_url(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store(url) as store:
        store.add([example(number) for number in range(12)])
    secret = re.findall(r":([^:@]*)@", url)[0]
    told = [
        run("memory", "show", "--memory", url),
        run("memory", "recall", "entry 7", "--memory", url),
        run("memory", "export", "mind.zip", "--memory", url),
        run("memory", "import", "mind.zip", "--memory", url),
        run("memory", "check", "--memory", url),
    ]
    assert secret not in "".join(told)
    found = json.loads(run("memory", "show", "--memory", url, "--json"))
    assert (found["entries"], found["disk_bytes"]) == (12, None)
    assert not list(tmp_path.glob("postgresql*"))
    missing = CliRunner().invoke(app, ["memory", "show", "99", "--memory", url])
    assert missing.exit_code == 2
    assert secret not in missing.output
