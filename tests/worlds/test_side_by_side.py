"""Worlds side by side form one world with all their rows."""

from __future__ import annotations

import numpy as np
import pytest

from devmind import worlds
from devmind.worlds.side_by_side import Joined


@pytest.mark.parametrize("kinds", [("reach", "startle"), ("startle", "reach")])
def test_words_of_one_world_are_kept_beside_worlds_without_words(kinds: tuple[str, str]) -> None:
    alone = {kind: worlds.make("nursery", kind, np.arange(2)).observe() for kind in kinds}
    joined = Joined([worlds.make("nursery", kind, np.arange(2)) for kind in kinds]).observe()
    assert joined["words"] == [word for kind in kinds for word in alone[kind].get("words", ["", ""])]
    assert sum(map(bool, joined["words"])) == 2
    assert np.array_equal(joined["sight"], np.concatenate([alone[kind]["sight"] for kind in kinds]))
