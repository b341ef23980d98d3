"""In some random lives nothing is found of what was forgotten; `make attack` runs a hundred."""

from __future__ import annotations

from pathlib import Path

import pytest

from devmind.sessions import pointed
from tests.memory.deletions import Life


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_forgetting_leaves_no_trace_and_loses_nothing_else(seed: int, tmp_path: Path) -> None:
    assert Life(tmp_path, seed).live()["forget"] >= 1


@pytest.mark.slow
def test_the_scan_finds_traces_that_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same lives with a forgetting that leaves recordings untouched: the scan reports it."""
    monkeypatch.setattr(pointed, "blank", lambda path, ticks, frames_at_s=(): False)
    with pytest.raises(AssertionError, match="marks are still there"):
        Life(tmp_path, 1).live()
