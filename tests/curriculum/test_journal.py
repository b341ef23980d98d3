"""The journal keeps every event, also after a crash in the middle of a line."""

import os
import subprocess
from pathlib import Path

import pytest

from devmind.config import RunConfig
from devmind.curriculum import results
from devmind.curriculum.finished import finished_run, identity
from devmind.curriculum.journal import Journal
from devmind.errors import CheckpointError


def test_events_are_read_in_order_and_by_kind(tmp_path):
    journal = Journal(tmp_path / "j.jsonl")
    assert journal.last() is None
    for step in range(3):
        journal.write("progress", step=step)
    journal.write("finished", passed=True)
    assert [e["step"] for e in journal.events("progress")] == [0, 1, 2]
    assert journal.last("progress")["step"] == 2
    assert journal.last()["event"] == "finished"


def test_line_cut_off_by_a_crash_loses_only_itself(tmp_path):
    journal = Journal(tmp_path / "j.jsonl")
    journal.write("progress", step=1)
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole + whole[: len(whole) // 2])
    journal.write("progress", step=2)
    assert [e["step"] for e in journal.events()] == [1, 2]


def test_journal_is_followed_without_reading_it_again(tmp_path):
    journal = Journal(tmp_path / "j.jsonl")
    assert journal.after(0) == ([], 0)
    journal.write("progress", step=1)
    found, offset = journal.after(0)
    assert ([e["step"] for e in found], journal.after(offset)) == ([1], ([], offset))
    with journal.path.open("ab") as file:
        file.write(b'{"event": "progress", "st')  # a line that is being written
    assert journal.after(offset) == ([], offset)
    with journal.path.open("ab") as file:
        file.write(b'ep": 2}\n')
    found, offset = journal.after(offset)
    assert [e["step"] for e in found] == [2]
    journal.path.write_bytes(b'{"event": "start"}\n')
    assert [e["event"] for e in journal.after(offset)[0]] == ["start"]


def test_run_knows_its_commit(tmp_path, monkeypatch):
    def git(*words):
        environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(
            ["git", *identity, *words], cwd=checkout, check=True, capture_output=True, text=True, env=environment
        )
        return done.stdout.strip()

    checkout = tmp_path / "checkout"
    package = checkout / "devmind" / "curriculum"
    package.mkdir(parents=True)
    monkeypatch.setattr(results, "__file__", str(package / "results.py"))
    assert results.commit() == f"devmind {results.versions()['devmind']}", "installed, no checkout"
    (checkout / "devmind" / "a.py").write_text("1")
    git("init", "-q")
    assert results.commit().startswith("devmind "), "no commit yet"
    git("add", ".")
    git("commit", "-qm", "a")
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # as in a hook
    assert results.commit() == git("rev-parse", "HEAD")
    (checkout / "devmind" / "a.py").write_text("2")
    assert results.commit() == git("rev-parse", "HEAD") + "+changes"


def test_run_is_recognised_by_a_path_that_looks_like_a_login(tmp_path):
    mine = identity("reflex", RunConfig(), None, Path("me:there@home/data"), [], tmp_path)
    Journal(tmp_path / "journal.jsonl").write("start", identity=mine)
    assert finished_run(tmp_path, mine) is None


def test_journal_refuses_any_flipped_bit(tmp_path):
    journal = Journal(tmp_path / "j.jsonl")
    for step in range(3):
        journal.write("plan", steps={"together": 4}, step=step)
    whole, last = journal.path.read_bytes(), journal.path.read_bytes()[:-1].rindex(b"\n") + 1
    # All bits of the last line and of its newline; in each byte of earlier lines, one bit.
    bits = [*range(0, 8 * last, 9), *range(8 * last, 8 * len(whole))]
    for bit in bits:
        content = bytearray(whole)
        content[bit // 8] ^= 1 << (bit % 8)
        journal.path.write_bytes(content)
        with pytest.raises(CheckpointError, match="damaged or was edited"):
            journal.last()
    with pytest.raises(CheckpointError, match="damaged or was edited"):
        Journal(journal.path).write("progress")


def test_removed_inserted_or_moved_line_is_refused(tmp_path):
    journal = Journal(tmp_path / "j.jsonl")
    for step in range(4):
        journal.write("progress", step=step)
    lines = journal.path.read_bytes().splitlines(keepends=True)
    for changed in (
        lines[1:], lines[:1] + lines[2:], [lines[1], lines[0], *lines[2:]], [*lines[:2], lines[1], *lines[2:]],
        [*lines, b'{"event": "finished"}\n'],
    ):  # fmt: skip
        journal.path.write_bytes(b"".join(changed))
        with pytest.raises(CheckpointError, match="damaged or was edited"):
            journal.last()


def test_line_cut_anywhere_keeps_the_other_lines(tmp_path):
    journal = Journal(tmp_path / "j.jsonl")
    for step in range(2):
        journal.write("progress", step=step)
    whole = journal.path.read_bytes()
    first = whole.index(b"\n") + 1
    for cut in range(first, len(whole)):
        journal.path.write_bytes(whole[:cut])
        there = [0, 1] if cut == len(whole) - 1 else [0]
        assert [e["step"] for e in Journal(journal.path).events()] == there
        Journal(journal.path).write("progress", step=7)
        assert [e["step"] for e in Journal(journal.path).events()] == [*there, 7]
