"""Replaces fsync in tests; their results do not depend on it.

A run of three small stages with a checkpoint at each step waited nine seconds for fsync and computed for two. Without
fsync, only a crash of the machine loses data: a killed process and later readers find it in the page cache.
`tests.faults` checks the order of writes in processes of its own, with a model of a disk that forgets unsynced data.
Tests that look at the bare disk wait for it (`synced`), and tests of a failed fsync make it fail.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

REAL = os.fsync


def fsync(file: Any) -> None:
    """Do not wait for the disk; a closed descriptor is an error, as with the real fsync.

    Raises:
        OSError: the descriptor is closed.
    """
    os.fstat(file if isinstance(file, int) else file.fileno())


def patched(patch: pytest.MonkeyPatch) -> None:
    """Neither file writes nor SQLite wait for the disk."""
    patch.setattr(os, "fsync", fsync)
    patch.setattr("devmind.memory.stores.sqlite.SYNCHRONOUS", "OFF")


def synced(patch: pytest.MonkeyPatch) -> None:
    """Both wait for the disk, as outside of tests."""
    patch.setattr(os, "fsync", REAL)
    patch.setattr("devmind.memory.stores.sqlite.SYNCHRONOUS", "FULL")
