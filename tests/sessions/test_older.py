"""Recordings of older formats are read exactly and repaired: wall-clock times, no credentials."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from mcap.reader import make_reader

from devmind.sessions import open_session, repair
from tests.sessions.old import CREATED, an_old_session

URL = "http://user:s3cret@10.0.0.1:8080/x.mjpg?token=s3cret"


@pytest.fixture
def old(tmp_path: Path, steps: list) -> Path:
    path = tmp_path / "old.mcap"
    an_old_session(path, steps, {"camera": URL, "microphone": "default"}, f"'{URL}' is gone.")
    assert b"s3cret" in path.read_bytes()
    return path


def test_an_old_recording_is_read_exactly_and_shows_no_password(old: Path, steps: list) -> None:
    session = open_session(old)
    assert list(session) == steps
    assert [session.elapsed_s(k) for k in (0, 1, 39)] == [0, 0.1, 3.9]
    assert session.metadata["camera"] == "http://10.0.0.1:8080/x.mjpg?token=***"


def test_repair_removes_credentials_and_keeps_everything_else(old: Path, steps: list, tmp_path: Path) -> None:
    out, before = tmp_path / "mended.mcap", old.read_bytes()
    done = repair(old, out)
    assert done.secrets == {"camera", "health"}
    was, mended = open_session(old), open_session(out)
    assert list(mended) == steps
    assert list(mended.frames()) == list(was.frames())
    assert [(h.time_s, h.data["sight"]["drops"]) for h in mended.health] == [(k / 10, k) for k in range(40)]
    assert mended.notes[:-1] == was.notes
    assert mended.notes[-1].kind == "repaired"
    changed = {"format", "started_ns"}
    assert {k: v for k, v in mended.metadata.items() if k not in changed and k in was.metadata} == {
        k: v for k, v in was.metadata.items() if k not in changed
    }
    with out.open("rb") as file:
        text = b"".join(message.data for _, _, message in make_reader(file).iter_messages())
    assert b"s3cret" not in text + out.read_bytes()
    assert old.read_bytes() == before, "the original stays"
    began_s = int(mended.metadata["started_ns"]) / 1e9
    assert began_s == datetime.fromisoformat(CREATED).timestamp(), "it began when it was made, not when it was mended"
    again = repair(out, tmp_path / "again.mcap")
    assert again.secrets == set()
    assert open_session(tmp_path / "again.mcap").metadata == mended.metadata


def test_the_command_reports_what_it_removed(old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from devmind.cli import app

    monkeypatch.chdir(tmp_path)

    def devmind(*words: Any) -> str:
        return CliRunner().invoke(app, list(map(str, words))).output

    assert "s3cret" not in devmind("session", "show", old)
    said = devmind("session", "repair", old)
    assert "credentials removed from: camera, health" in said
    assert re.search(r"old\.mcap' still holds them; delete it", said)
    assert "s3cret" not in said
    assert "credentials" not in devmind("session", "repair", "old-repaired.mcap", "c.mcap")
