"""Works that die or wait, in a module of its own that processes of a cluster can import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def pid_once_killed(folder: Path) -> int:
    """Leaves its process by SIGKILL the first time, and says which process it is the second."""
    first = folder / "first"
    if not first.exists():
        first.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def dies() -> None:
    os._exit(9)


def waits_once(marker: Path) -> str:
    if not marker.exists():
        marker.write_text(str(os.getpid()))
        time.sleep(600)
    return "done"
