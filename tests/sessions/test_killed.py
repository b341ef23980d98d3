"""A recorder killed with SIGKILL loses at most the last second."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from devmind.sessions import open_session, repair

CHILD = """
import sys, time
import numpy as np
from devmind.moment import Action, Moment
from devmind.sessions import BackgroundRecorder, Recorder
assert "torch" not in sys.modules, "recording must not load torch"
rng = np.random.default_rng(0)
kind = {"here": Recorder, "thread": BackgroundRecorder}[sys.argv[2]]
with kind(sys.argv[1], source="test", tick_hz=100) as recorder:
    for k in range(10**6):
        senses = {"body": np.full(4, k, np.float32), "sight": rng.integers(0, 256, (64, 64, 3), np.uint8)}
        recorder.write(Moment(k / 100, senses), Action({"look": np.full(2, k)}))
        print(k, time.monotonic(), flush=True)
        time.sleep(0.01)
"""


@pytest.mark.parametrize("kind", ["here", "thread"])
def test_kill_9_loses_at_most_the_last_second(tmp_path: Path, kind: str) -> None:
    """Judged by the child's own clock and log, so that a slow machine makes the test slow instead of wrong."""
    path = tmp_path / "killed.mcap"
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(path), kind], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    first = child.stdout.readline()
    time.sleep(float(np.random.default_rng().uniform(1.2, 2.2)))
    child.kill()
    written = [first, *child.stdout.read().splitlines()]
    child.wait()
    ticks = [(int(k), float(at_s)) for k, at_s in (line.split() for line in written if len(line.split()) == 2)]
    must_be_there = sum(at_s <= ticks[-1][1] - 1.0 for _, at_s in ticks)
    session = open_session(path)
    assert session.truncated
    assert len(session) >= must_be_there > 0
    for k, (moment, action) in enumerate(session):
        assert moment.time_s == k / 100
        assert moment.senses["body"].tolist() == [k] * 4
        assert action is not None
        assert action.effectors["look"].tolist() == [k, k]
    assert repair(path, tmp_path / "mended.mcap").ticks == len(session)
    assert list(open_session(tmp_path / "mended.mcap")) == list(session)
