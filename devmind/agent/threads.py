"""The number of threads of torch and numba inside one operation: one for stepping, all cores for training.

A step of a small agent is many tiny operations; on two cores it took 12 ms with one thread and 180 ms with two.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch


def cores() -> int:
    """The number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@contextmanager
def intra_op_threads(n: int) -> Iterator[None]:
    """Run the block with `n` intra-op threads, and restore the number afterwards."""
    before = torch.get_num_threads()
    _set(n)
    try:
        yield
    finally:
        _set(before)


def _set(n: int) -> None:
    """Set both pools for the calling thread, because idle workers of one pool slow down the other.

    numba comes first, since it sets OpenMP's number when it starts its workers. Both keep one number for each Python
    thread, so a helper thread does not change that of the main thread.
    """
    import numba

    most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    numba.set_num_threads(min(n, most))
    torch.set_num_threads(n)


@contextmanager
def stepping_threads() -> Iterator[None]:
    """One thread: for live rooms, rollouts and exams."""
    with intra_op_threads(1):
        yield


@contextmanager
def training_threads(n: int | None = None) -> Iterator[None]:
    """`n` threads, by default one for each core of this process: for optimizer steps on large batches."""
    with intra_op_threads(n or cores()):
        yield


def for_a_helper() -> Callable[[], None]:
    """A function for a helper thread to call first, which gives it half of this thread's threads, at least one."""
    half = max(1, torch.get_num_threads() // 2)
    return lambda: _set(half)
