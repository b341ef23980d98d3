"""Writing a file is atomic, and a disk error gives a clear message."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from devmind.checkpointing.files import explain_os_errors, sha256, write_atomically
from devmind.checkpointing.milestones import newest_milestone
from devmind.errors import CheckpointError


def test_write_atomically_replaces_the_file_and_leaves_no_other(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.json"
    write_atomically(path, "grüß dich")
    write_atomically(path, b"\x00\x01")
    assert path.read_bytes() == b"\x00\x01"
    assert [p.name for p in path.parent.iterdir()] == ["results.json"]


@pytest.mark.parametrize(
    ("number", "word"), [(errno.ENOSPC, "full"), (errno.EROFS, "read-only"), (errno.EACCES, "permissions")]
)
def test_disk_error_keeps_the_old_content(tmp_path: Path, monkeypatch, number: int, word: str) -> None:
    path = tmp_path / "state.json"
    write_atomically(path, "old")

    def refuse(_descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(CheckpointError, match=word) as caught:
        write_atomically(path, "new")
    assert str(path) in str(caught.value)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["state.json"]


def test_error_names_a_file_that_stands_for_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match=r"is a file, not a folder|exists"):
        write_atomically(tmp_path / "file" / "inside.json", "x")


def test_explained_recognises_a_full_disk_in_a_safetensors_error(tmp_path: Path) -> None:
    text = "Error while serializing: I/O error: No space left on device (os error 28)"
    with pytest.raises(CheckpointError, match="disk is full"), explain_os_errors(tmp_path):
        raise SafetensorError(text)


@pytest.mark.skipif(os.name == "nt", reason="needs a limit on the size of files")
def test_explained_reports_a_file_over_the_size_limit(tmp_path: Path) -> None:
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(CheckpointError, match="too large"), explain_os_errors(tmp_path):
            save_file({"x": torch.zeros(1 << 16)}, tmp_path / "x.safetensors")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_sha256_of_a_known_text(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    assert sha256(tmp_path / "abc") == hashlib.sha256(b"abc").hexdigest()


def test_killed_writer_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "position"
    program = (
        "import sys; from pathlib import Path; from devmind.checkpointing.files import write_atomically\n"
        "for i in range(10**6): write_atomically(Path(sys.argv[1]), f'{i:09d}' * 1000); print(i, flush=True)"
    )
    writer = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    last = max(int(writer.stdout.readline()) for _ in range(20))
    os.kill(writer.pid, signal.SIGKILL)
    rest, _ = writer.communicate()
    last = max([last, *(int(line) for line in rest.split())])
    text = path.read_text()
    number = int(text[:9])
    assert text == f"{number:09d}" * 1000
    assert number in (last, last + 1)


def test_a_milestone_whose_writing_was_interrupted_is_not_the_newest(tmp_path: Path) -> None:
    for number, name in enumerate(("01-lamps", "02-lamps.incomplete")):
        folder = tmp_path / "run" / "milestones" / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text('{"stages": ["lamps"]}')
        os.utime(folder / "config.json", (number, number))
    assert newest_milestone(tmp_path, ["lamps"]) == tmp_path / "run" / "milestones" / "01-lamps"


def test_newest_milestone_can_be_asked_to_lack_a_stage_and_to_have_a_size(tmp_path: Path) -> None:
    """Regression: a stage's second seed began with the milestone of its first one, or with that of a trial size."""
    every = {
        "01-lamps": (["lamps"], "tiny"),
        "02-later": (["lamps", "later"], "tiny"),
        "03-lamps": (["lamps"], "child"),
    }
    for number, (name, (stages, size)) in enumerate(every.items()):
        folder = tmp_path / "run" / "milestones" / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({"stages": stages, "size": size}))
        os.utime(folder / "config.json", (number, number))
    found = [
        newest_milestone(tmp_path, ["lamps"]),
        newest_milestone(tmp_path, ["lamps"], size="tiny"),
        newest_milestone(tmp_path, ["lamps"], without="later", size="tiny"),
        newest_milestone(tmp_path, ["lamps"], size="adult"),
    ]
    assert [path and path.name for path in found] == ["03-lamps", "02-later", "01-lamps", None]
