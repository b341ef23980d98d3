"""Small sessions that hold every kind of data a session must return."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from devmind.moment import Action, Moment
from devmind.sessions import Recorder

Steps = list[tuple[Moment, Action | None]]


@pytest.fixture
def steps() -> Steps:
    """40 ticks in two episodes: absent senses, text, own senses of unusual dtypes, sound on and off the 16-bit grid."""
    rng = np.random.default_rng(0)
    made: Steps = []
    for k in range(40):
        senses: dict[str, np.ndarray | str] = {"body": rng.standard_normal(5, np.float32)}
        if k % 2:
            senses["sight"] = rng.integers(0, 256, (8, 9, 3), np.uint8)
        if k % 3:
            on_grid = (rng.integers(-32768, 32768, (2, 160)) / 32768).astype(np.float32)
            senses["sound"] = on_grid if k % 4 else rng.uniform(-1, 1, (2, 160)).astype(np.float32)
        if k % 5 == 0:
            senses["words"] = f"tick {k}, grüß dich"
        senses["touch"] = rng.integers(0, 2, (3, 4)).astype(bool)
        senses["range_finder"] = rng.standard_normal(3).astype(">f8")
        action = [None, Action(), Action({"look": rng.standard_normal(2, np.float32), "say": np.array(k)})][k % 3]
        time_s = (k % 25) / 10
        made.append(
            (Moment(time_s, senses, reward=k / 7, first=k % 25 == 0, last=k in (24, 39), terminal=k == 24), action)
        )
    return made


@pytest.fixture
def path(tmp_path: Path, steps: Steps) -> Path:
    """A finished session of many small chunks: its clock advances half a second per tick."""
    path, now = tmp_path / "a.mcap", iter(range(10**6))
    with Recorder(path, source="test", clock=lambda: float(next(now))) as writing:
        writing.note("weights", "abc")
        for moment, action in steps:
            writing.write(moment, action)
    return path
