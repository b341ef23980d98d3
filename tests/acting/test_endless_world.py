"""A world whose episodes never end, although its horizon says that they do, ends a rollout with a sentence."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.acting import rollout
from devmind.acting.rollout import returns, still
from devmind.errors import WorldError
from devmind.testing import LampRules
from devmind.worlds.adapter import VectorWorld
from devmind.worlds.rules import Outcome


class Endless(LampRules):
    def outcome(self, state):
        of_lamps = super().outcome(state)
        goes_on = np.zeros(len(state), bool)
        return Outcome(of_lamps.reward, goes_on, goes_on.copy())


def begun(rules):
    world = VectorWorld(rules, 4)
    world.begin(np.arange(4))
    return world


def test_episodes_beyond_the_horizon_are_refused():
    """Regression: an exam in such a world ran for ever, without a word."""
    horizon = Endless().horizon
    with pytest.raises(WorldError, match=rf"4 of 4 episodes of the world go on after {horizon} steps"):
        returns(still, begun(Endless()))


def test_rollouts_of_so_many_ticks_and_of_worlds_that_end_are_not():
    horizon = LampRules().horizon
    assert len(list(rollout(still, begun(Endless()), horizon + 3))) == horizon + 3
    assert len(list(rollout(still, begun(LampRules())))) <= horizon
