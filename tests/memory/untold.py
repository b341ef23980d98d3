"""The state after a writer is killed between writing its transaction to the log and updating the wal-index."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path

from devmind.memory.stores.sqlite import FILE


def untold(folder: Path, write: Callable[[], object]) -> None:
    """Run `write`, then restore the wal-index: the log is on the disk, but no reader knows of it.

    Every process that has the store open goes by the wal-index; at least one must have it open, here or elsewhere.
    """
    index = os.open(folder / f"{FILE}-shm", os.O_RDWR)  # never closed: that would release SQLite's locks
    with mmap.mmap(index, os.fstat(index).st_size) as shared:
        before = bytes(shared)
        write()
        shared[:] = before
