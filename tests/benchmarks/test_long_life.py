"""`benchmarks/long_life.py`: a whole life on a virtual clock."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from devmind.sessions import open_session, parts

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def long_life(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("long_life")
    sys.modules.pop("long_life", None)


def test_a_short_life_is_recorded_whole_and_measured(long_life: ModuleType, tmp_path: Path) -> None:
    rows = long_life.live(tmp_path, ticks=24, every=8)
    assert [row["ticks"] for row in rows] == [8, 16, 24]
    assert all(row["MB"] > 10 for row in rows)
    (recorded,) = tmp_path.glob("life*.mcap")
    assert sum(len(open_session(part)) for part in parts(recorded)) == 24


def test_growth_counts_from_the_end_of_the_warm_up(long_life: ModuleType) -> None:
    rows = [{"MB": float(size)} for size in (50, 100, 101, 100, 102, 101, 100, 100)]
    assert long_life.growth(rows) == pytest.approx(0.02)
