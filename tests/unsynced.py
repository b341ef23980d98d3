"""What stands in the place of fsync in tests: nothing that they look at hangs on it.

A run of three small stages with a checkpoint at each step waited nine seconds for it, and computed for two. Without it
a machine that crashes loses what was written, and nobody else: who is killed, and who looks at the file behind, finds
it in the page cache. Whether writes come onto the disk, and in which order, is asked by `tests.faults`, in processes of
its own with a disk that forgets what was not synced; what is on the bare disk, by tests that wait for it (`synced`);
that a refused fsync is a sentence, by tests that refuse it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

REAL = os.fsync


def fsync(file: Any) -> None:
    """Wait for no disk; a descriptor that is not open is an error as with the real one.

    Raises:
        OSError: it is not open.
    """
    os.fstat(file if isinstance(file, int) else file.fileno())


def patched(patch: pytest.MonkeyPatch) -> None:
    """Neither what writes files waits nor SQLite."""
    patch.setattr(os, "fsync", fsync)
    patch.setattr("devmind.memory.stores.sqlite_file.SYNCHRONOUS", "OFF")


def synced(patch: pytest.MonkeyPatch) -> None:
    """Both wait, as they do for everybody."""
    patch.setattr(os, "fsync", REAL)
    patch.setattr("devmind.memory.stores.sqlite_file.SYNCHRONOUS", "FULL")
