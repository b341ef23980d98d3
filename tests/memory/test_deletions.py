"""Some drawn lives in which nothing of what was forgotten is found; `make attack` draws a hundred."""

from __future__ import annotations

from pathlib import Path

import pytest

from devmind.sessions import pointed
from tests.memory.deletions import Life


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_forgotten_is_left_and_nothing_else_is_lost(seed: int, tmp_path: Path) -> None:
    assert Life(tmp_path, seed).live()["forget"] >= 1


@pytest.mark.slow
def test_the_scan_finds_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same lives with a forgetting that leaves recordings alone: the scan says so."""
    monkeypatch.setattr(pointed, "blank", lambda path, ticks, frames_at_s=(): False)
    with pytest.raises(AssertionError, match="marks are still there"):
        Life(tmp_path, 1).live()
