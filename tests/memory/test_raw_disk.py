"""Forgotten data are not on the raw disk: a store on an image of its own (ext4, XFS) is searched byte by byte.

btrfs writes changes to another place, so the data are still there, and the command says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from devmind.cli import app
from devmind.erasing import where_traces_stay
from devmind.errors import StoreError
from devmind.memory import Entry, Key, open_store
from devmind.memory.stores.sqlite import SqliteStore
from devmind.moment import Moment
from devmind.sessions.pointed import blank
from devmind.sessions.recorder import Recorder
from tests import unsynced

IMAGE_MB = {"ext4": 24, "xfs": 320, "btrfs": 128}
"""The smallest that are made."""
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"], "btrfs": ["mkfs.btrfs", "-q", "-f"]}
GONE, STAYS = b"Zanzibar-forgotten", b"Zanzibar-stays"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests read the raw disk, which overwritten blocks only reach through a real fsync."""
    unsynced.synced(monkeypatch)


class Disk:
    """An image, mounted at `folder`."""

    def __init__(self, image: Path, folder: Path) -> None:
        self.image, self.folder = image, folder

    def holds(self, mark: bytes) -> int:
        """How often the bytes occur on the raw disk."""
        subprocess.run(["sync", "-f", str(self.folder)], check=True)
        return sum(data.count(mark) for data in self._written())

    def _written(self) -> Iterator[bytes]:
        """The image's data without the holes, which nothing was ever written to."""
        with self.image.open("rb") as file:
            at, size = 0, self.image.stat().st_size
            while at < size:
                with suppress(OSError):
                    at = os.lseek(file.fileno(), at, os.SEEK_DATA)
                    end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
                    yield os.pread(file.fileno(), end - at, at)
                    at = end
                    continue
                return  # only a hole is left


@pytest.fixture(params=["ext4"])
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Disk]:
    """Skips where nothing may be mounted."""
    kind = str(request.param)
    if os.geteuid():
        pytest.skip("no right to mount an image: that is root's")
    if not shutil.which(MAKE[kind][0]):
        pytest.skip(f"no {MAKE[kind][0]} to make an image: make test-system")
    image, folder = tmp_path / "disk.img", tmp_path / "mounted"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(IMAGE_MB[kind] << 20)
    subprocess.run([*MAKE[kind], str(image)], check=True)
    if subprocess.run(["mount", "-o", "loop", str(image), str(folder)], capture_output=True, check=False).returncode:
        pytest.skip(f"no right to mount an image: nothing, or no {kind}, may be mounted in here")
    try:
        yield Disk(image, folder)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def entry(number: int, name: str | None = None) -> Entry:
    rng = np.random.default_rng(number)
    vector = rng.normal(size=64)
    key = Key((vector / np.linalg.norm(vector)).astype(np.float32), "a", rng.normal(size=200).astype(np.float32))
    sight = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
    return Entry(float(number), 0.0, name, {"sight": key}, {"words": f"said {name}", "sight": sight})


def key_of(number: int) -> bytes:
    """The bytes of an entry's key in the database."""
    return entry(number).keys["sight"].vector.tobytes()


def live(folder: Path, first: int, count: int, name: bytes, every: int = 1) -> list[int]:
    """Open the store, write entries, every so many of them with the name, and close it."""
    with open_store(folder) as store:
        return store.add([entry(first + i, name.decode() if i % every == 0 else None) for i in range(count)])


@pytest.mark.parametrize("disk", ["ext4", "xfs"], indirect=True)
def test_forgotten_entries_leave_no_trace_on_the_raw_disk(disk: Disk) -> None:
    mind = disk.folder / "mind"
    stays = live(mind, 0, 40, STAYS)
    gone = live(mind, 100, 40, GONE, every=4)
    assert disk.holds(GONE)
    with open_store(mind) as store:
        assert store.delete(gone) == 40
        assert disk.holds(GONE) == 0  # also while the store is open
    assert disk.holds(GONE) == 0
    assert not any(disk.holds(key_of(number)) for number in range(100, 140))
    with open_store(mind) as store:
        assert [one.id for one in store.find()] == stays
        assert store.check() == []


@pytest.mark.parametrize("disk", ["ext4", "xfs"], indirect=True)
def test_packing_leaves_no_copy_behind_the_files_end(disk: Disk) -> None:
    """Packing moves what stays and used to cut off the file's end as it was, where a later forgetting did not reach."""
    mind = disk.folder / "mind"
    others = live(mind, 0, 150, STAYS)
    gone = live(mind, 200, 20, GONE)
    with open_store(mind) as store:
        size = (mind / "memory.sqlite3").stat().st_size
        store.delete(others)
        assert (mind / "memory.sqlite3").stat().st_size < size / 2
        assert store.get(gone)[0].name == GONE.decode()
        store.delete(gone)
    assert disk.holds(GONE) + disk.holds(STAYS) == 0
    assert not any(disk.holds(key_of(number)) for number in (*range(150), *range(200, 220)))


@pytest.mark.parametrize("disk", ["ext4", "xfs"], indirect=True)
def test_a_log_left_by_a_killed_process_is_overwritten(disk: Disk) -> None:
    mind = disk.folder / "mind"
    live(mind, 0, 3, STAYS)
    if os.fork() == 0:  # a child that dies without closing
        live_store = SqliteStore(mind)
        live_store.add([entry(number, GONE.decode()) for number in range(100, 110)])
        os._exit(9)
    os.wait()
    assert (mind / "memory.sqlite3-wal").stat().st_size
    with open_store(mind) as store:
        store.delete([one.id for one in store.find() if one.name == GONE.decode()])
    assert disk.holds(GONE) == 0


@pytest.mark.parametrize("disk", ["ext4", "xfs"], indirect=True)
def test_a_blanked_recording_leaves_no_trace(disk: Disk) -> None:
    path = disk.folder / "life.mcap"
    sights = [np.random.default_rng(number).integers(0, 256, (40, 40, 3), dtype=np.uint8) for number in range(6)]
    with Recorder(path, source="test", tick_hz=10) as recorder:
        for number, sight in enumerate(sights):
            recorder.write(Moment(number / 10, {"sight": sight}))
            recorder.flush()
    marks = [sight.tobytes()[2000:2040] for sight in sights]
    assert all(disk.holds(mark) for mark in marks)
    blank(path, [2, 3])
    assert [disk.holds(mark) > 0 for mark in marks] == [True, True, False, False, True, True]


@pytest.mark.parametrize("disk", ["btrfs"], indirect=True)
def test_the_command_warns_where_the_disk_copies_on_write(disk: Disk) -> None:
    """Overwriting does not reach what btrfs has written: the bytes stay on the raw disk, and the command says so."""
    mind = disk.folder / "mind"
    live(mind, 0, 40, STAYS)
    live(mind, 100, 40, GONE, every=4)
    forgotten = CliRunner().invoke(app, ["memory", "forget", "--name", GONE.decode(), "--memory", str(mind)])
    assert forgotten.exit_code == 0, forgotten.output
    assert "10 entries forgotten" in forgotten.output
    said = " ".join(forgotten.output.split())
    assert "lies on btrfs, which writes changes to another place" in said
    assert "Only an encrypted disk helps there" in said
    assert "btrfs" in where_traces_stay(disk.folder / "life.mcap")
    assert not any(GONE in path.read_bytes() for path in mind.iterdir())
    assert disk.holds(GONE), "it overwrites in place after all: then the sentence is wrong"


def test_deleting_on_a_full_disk_reports_that_nothing_was_deleted(disk: Disk) -> None:
    mind = disk.folder / "mind"
    ids = live(mind, 0, 300, STAYS)
    with open_store(mind) as store:
        full = disk.folder / "full"
        with suppress(OSError), full.open("wb", buffering=0) as file:
            while file.write(bytes(1 << 16)):
                pass
        with pytest.raises(StoreError, match=r"disk is full, and nothing was changed") as told:
            store.delete(ids)
        assert "transaction" not in str(told.value)
        assert store.sizes().entries == len(ids)
        full.unlink()
        assert store.delete(ids) == len(ids)
    assert disk.holds(STAYS) == 0
