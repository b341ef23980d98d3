"""Worlds of somebody else's with usual mistakes: flags as whole numbers, and a class that takes no level."""

from __future__ import annotations

import numpy as np
import pytest

from devmind import make_world, plugins
from devmind.errors import WorldError
from devmind.testing import LampRules
from devmind.worlds.rules import Outcome


def test_flags_of_whole_numbers_are_flags():
    """Regression: the discount of an episode that went on was -1, as if the turn had passed to an opponent."""
    outcome = Outcome(np.zeros(2, np.float32), np.array([0, 1]), np.array([1, 0]))
    assert outcome.discount.tolist() == [1.0, 0.0]
    assert outcome.ended.tolist() == [True, True]
    assert outcome.terminal.dtype == outcome.truncated.dtype == bool


class WithoutLevel(LampRules):
    def __init__(self):
        super().__init__()


def test_world_whose_class_takes_no_level_is_refused(monkeypatch):
    found = type("Found", (), {"load": lambda self: WithoutLevel})()
    monkeypatch.setattr(plugins, "available", lambda group: {"lamps": found})
    with pytest.raises(WorldError, match="The world 'lamps' cannot be made: too many positional arguments"):
        make_world("lamps", "easy", [1])
    monkeypatch.setattr(found.__class__, "load", lambda self: LampRules)
    assert make_world("lamps", LampRules().level, [1]).num_envs == 1
