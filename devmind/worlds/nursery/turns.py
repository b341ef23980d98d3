"""Parallel kernels take turns: one at a time in a process, whichever threads render or mix.

They release the interpreter's lock, so a thread can make batches beside the one that learns. But numba's threading
layer `workqueue`, the only one without OpenMP or TBB (as on many Macs), keeps its state in globals, also for one
thread, and aborts the process if a second thread enters.
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
