"""Sixty points of `python -m tests.faults`; and the model of a disk forgets unsynced data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.__main__ import compiler
from tests.faults.disk import Call, Disk

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux" or compiler() is None, reason="the shim needs Linux and a C compiler")
def test_sixty_faults_lose_no_promised_data() -> None:
    tried = subprocess.run(
        [sys.executable, "-m", "tests.faults", "--points", "60"], cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert tried.returncode == 0, tried.stdout[-6000:]
    assert "60 of " in tried.stdout


def test_power_cut_keeps_only_synced_data(tmp_path: Path) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    (root / "old").write_bytes(b"old")
    disk = Disk(root)
    new, moved = f"{root}/new", f"{root}/old"

    def left(names: bool) -> dict[str, bytes]:
        folder = tmp_path / f"left-{len(list(tmp_path.iterdir()))}"
        disk.leave(folder, names=names)
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    disk.apply(Call("c", new, "", 0, b""))
    disk.apply(Call("w", new, "", 0, b"content"))
    assert (left(names=True), left(names=False)) == ({"old": b"old", "new": b""}, {"old": b"old"})
    disk.apply(Call("r", new, moved, 0, b""))
    assert left(names=True) == {"old": b""}, "renamed before it was synced: an empty file"
    assert left(names=False) == {"old": b"old"}
    disk.apply(Call("s", moved, "", 0, b"content"))
    disk.apply(Call("w", moved, "", 4, b"-- more"))
    assert left(names=True) == {"old": b"content"}
    disk.apply(Call("s", str(root), "folder", 0, b""))
    assert left(names=False) == {"old": b"content"}
    disk.apply(Call("u", moved, "", 0, b""))
    assert (left(names=True), left(names=False)) == ({}, {"old": b"content"})
