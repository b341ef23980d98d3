"""Parallel kernels take turns: one at a time in a process, whichever threads want to render or mix.

They let go of the interpreter's lock, so that a thread can make batches beside the one that learns. But numba's
threading layer `workqueue`, all there is without OpenMP or TBB (as on many a Mac), keeps its state in globals, also for
one thread, and aborts the process when a second thread enters.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

_ONE_AT_A_TIME = threading.Lock()


def in_turn(kernel: Callable[..., None], *arguments: Any) -> None:
    """Run a kernel compiled with `parallel=True` while no other one runs."""
    with _ONE_AT_A_TIME:
        kernel(*arguments)
