"""What was forgotten is not on the bare disk: a store on an ext4 image of its own, searched byte by byte."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from devmind.errors import StoreError
from devmind.memory import Entry, Key, open_store
from devmind.memory.stores.sqlite import SqliteStore

IMAGE_MB = 24
GONE, STAYS = b"Zanzibar-forgotten", b"Zanzibar-stays"


class Disk:
    """An ext4 image, mounted at `folder`."""

    def __init__(self, image: Path, folder: Path) -> None:
        self.image, self.folder = image, folder

    def holds(self, mark: bytes) -> int:
        """How often the bytes are on the bare disk."""
        subprocess.run(["sync", "-f", str(self.folder)], check=True)
        return self.image.read_bytes().count(mark)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Skips where nothing may be mounted."""
    if os.geteuid():
        pytest.skip("no right to mount an image: that is root's")
    if not shutil.which("mkfs.ext4"):
        pytest.skip("no mkfs.ext4 to make an image: make test-system")
    image, folder = tmp_path / "disk.img", tmp_path / "mounted"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(IMAGE_MB << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    if subprocess.run(["mount", "-o", "loop", str(image), str(folder)], capture_output=True, check=False).returncode:
        pytest.skip("no right to mount an image: nothing may be mounted in here")
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
    """The bytes by which an entry's key stands in the database."""
    return entry(number).keys["sight"].vector.tobytes()


def live(folder: Path, first: int, count: int, name: bytes, every: int = 1) -> list[int]:
    """Open, write entries, some with the name, and close."""
    with open_store(folder) as store:
        return store.add([entry(first + i, name.decode() if i % every == 0 else None) for i in range(count)])


def test_nothing_of_what_was_forgotten_is_on_the_bare_disk(disk: Disk) -> None:
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


def test_what_an_earlier_packing_moved_is_not_left_behind(disk: Disk) -> None:
    """Packing moves what stays, and cut off the file's end as it was: a later forgetting did not reach that."""
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


def test_what_a_killed_process_left_in_its_log_is_overwritten(disk: Disk) -> None:
    mind = disk.folder / "mind"
    live(mind, 0, 3, STAYS)
    if os.fork() == 0:  # a child that dies without a word
        live_store = SqliteStore(mind)
        live_store.add([entry(number, GONE.decode()) for number in range(100, 110)])
        os._exit(9)
    os.wait()
    assert (mind / "memory.sqlite3-wal").stat().st_size
    with open_store(mind) as store:
        store.delete([one.id for one in store.find() if one.name == GONE.decode()])
    assert disk.holds(GONE) == 0


def test_a_full_disk_says_that_nothing_was_deleted(disk: Disk) -> None:
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
