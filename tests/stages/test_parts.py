"""What the stages add to one agent: a name means one part, whichever stage came first."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from devmind.curriculum.start import load_stage
from devmind.testing import tiny_agent

STAGES = ("memory", "language", "reasoning", "planning")
Parts = dict[tuple[str, str], dict[str, Any]]


def added(*stages: str) -> Parts:
    """What an agent of `reflex` and these stages has, by kind and name."""
    agent = tiny_agent()
    for name in ("reflex", *stages):
        load_stage(name).admit(agent)
    return {
        (kind, entry["name"]): {key: value for key, value in entry.items() if key not in ("stage", "seed")}
        for kind, entries in (("encoder", agent.config.encoders), ("head", agent.config.heads))
        for entry in entries
    }


@pytest.mark.parametrize(("one", "other"), combinations(STAGES, 2))
def test_a_name_that_two_stages_give_is_of_one_part(one: str, other: str) -> None:
    """The second stage takes over what stands there by its name: a head of another kind broke its lessons once."""
    here, there = added(one), added(other)
    for name in here.keys() & there.keys():
        assert here[name] == there[name], f"{name} of '{one}' and of '{other}'"


def test_all_stages_together_have_every_part_of_each() -> None:
    every = added(*STAGES)
    assert all(part in every for name in STAGES for part in added(name))
