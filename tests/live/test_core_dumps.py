"""A private life leaves no core file after a crash, and other programs of the user cannot read its memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CRASHES = """
import ctypes, os, resource, signal
resource.setrlimit(resource.RLIMIT_CORE, (-1, -1)) if {allowed} else None
from devmind.live.core_dumps import forbid_core_dumps
forbid_core_dumps()
print(resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), flush=True)
os.kill(os.getpid(), signal.SIGSEGV)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_crash_leaves_no_core_file(tmp_path: Path) -> None:
    import resource

    allowed = resource.getrlimit(resource.RLIMIT_CORE)[1] == resource.RLIM_INFINITY
    done = subprocess.run(
        [sys.executable, "-c", CRASHES.format(allowed=allowed)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "(0, 0) 0\n", done.stderr
    assert done.returncode == -11
    assert list(tmp_path.iterdir()) == []
