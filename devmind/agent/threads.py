"""How many threads torch and numba use inside one operation: one while stepping, all cores while training.

A cached step of a small agent is many tiny operations; on two cores it took 12 ms with one thread and 180 ms with two.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch


def cores() -> int:
    """How many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@contextmanager
def intra_op_threads(n: int) -> Iterator[None]:
    """Run the body with `n` intra-op threads, then put the former number back."""
    before = torch.get_num_threads()
    _set(n)
    try:
        yield
    finally:
        _set(before)


def _set(n: int) -> None:
    """Both pools alike, for the calling thread: idle workers of the one spin in the way of the other.

    numba first: when it starts its workers, it sets OpenMP's number. Both keep a number for each Python thread (numba's
    mask; OpenMP's and MKL's setting), so a helper thread leaves the main thread's as it is.
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
    """`n` threads, or one for each core this process may use: for optimizer steps on large batches."""
    with intra_op_threads(n or cores()):
        yield


def for_a_helper() -> Callable[[], None]:
    """What a thread that works beside this one runs first: it gets half of this one's threads, at least one."""
    half = max(1, torch.get_num_threads() // 2)
    return lambda: _set(half)
