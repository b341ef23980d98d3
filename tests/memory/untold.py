"""What a writer leaves that is killed between writing its transaction to the log and telling of it in the wal-index."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path

from devmind.memory.stores.sqlite import FILE


def untold(folder: Path, write: Callable[[], object]) -> None:
    """Let `write` go through, and put the wal-index back: the log is on the disk by then, and nobody knows of it.

    By the wal-index go all who have the store open; one at least must have it open, in this process or another.
    """
    index = os.open(folder / f"{FILE}-shm", os.O_RDWR)  # not closed: that would take SQLite's locks from this process
    with mmap.mmap(index, os.fstat(index).st_size) as shared:
        before = bytes(shared)
        write()
        shared[:] = before
