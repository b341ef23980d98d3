"""A crash of a private life leaves nothing on a disk: no core dump holds what was seen and said."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

_PR_SET_DUMPABLE = 4


def forbid_core_dumps() -> None:
    """From here on the system writes no memory of this process to a disk, and no other program of the user can read it.

    Started processes inherit the limit; Linux's flag also covers dumps that go to a program.
    """
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
