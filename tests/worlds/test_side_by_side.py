"""Worlds side by side form one world with all their rows."""

from __future__ import annotations

import numpy as np
import pytest

from devmind import worlds
from devmind.worlds.adapter import RulesWorld
from devmind.worlds.nursery import NurseryRules
from devmind.worlds.nursery.fetching import ASKS_FROM
from devmind.worlds.side_by_side import Joined, SideBySide


@pytest.mark.parametrize("kinds", [("reach", "startle"), ("startle", "reach")])
def test_words_of_one_world_are_kept_beside_worlds_without_words(kinds: tuple[str, str]) -> None:
    alone = {kind: worlds.make("nursery", kind, np.arange(2)).observe() for kind in kinds}
    joined = Joined([worlds.make("nursery", kind, np.arange(2)) for kind in kinds]).observe()
    assert joined["words"] == [word for kind in kinds for word in alone[kind].get("words", ["", ""])]
    assert sum(map(bool, joined["words"])) == 2
    assert np.array_equal(joined["sight"], np.concatenate([alone[kind]["sight"] for kind in kinds]))


def test_words_of_single_worlds_are_whole_and_come_when_they_are_said() -> None:
    kinds = ["reach", "fetch", "room"]
    apart = [RulesWorld(NurseryRules(kind)) for kind in kinds]
    beside = SideBySide([RulesWorld(NurseryRules(kind)) for kind in kinds], [7, 4, 4])
    felt = [world.reset(seed=seed)[0] for world, seed in zip(apart, [7, 4, 4], strict=True)]
    assert beside.observe()["words"] == [felt[0]["words"], "", ""]
    for _ in range(ASKS_FROM):
        senses, *_ = beside.step({"look": np.zeros((3, 2))})
        felt = [world.step({})[0] for world in apart]
    assert senses["words"] == [felt[0]["words"], felt[1]["words"], ""]
    assert len(set(map(len, senses["words"]))) == 3
    assert np.array_equal(senses["body"], np.stack([one["body"] for one in felt]))
