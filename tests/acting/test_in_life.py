"""What `InLife` notes about an exam's rollouts; `noting` keeps policies that are replaced outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from devmind import worlds
from devmind.acting import Actor, rollout, still
from devmind.acting.in_life import SINGLE, InLife, noting
from devmind.acting.rollout import acting_through
from devmind.testing import LampRules, tiny_agent
from devmind.worlds.adapter import VectorWorld

HAND = "a camera's room has no effector 'press'"
OWN = "its agent acts under a condition of the exam's own"


def lamps() -> VectorWorld:
    world = VectorWorld(LampRules(), 2)
    world.reset(np.arange(2))
    return world


def said(world: Any, *actors: Actor) -> str:
    noted = InLife()
    for actor in actors:
        noted.note(actor, world)
    return noted.said


@pytest.fixture(scope="module")
def agent() -> Any:
    return tiny_agent()


def test_in_life_note_describes_each_kind_of_actor(agent: Any) -> None:
    free, pressing = Actor(agent, effectors=["look"]), Actor(agent, effectors=["press"])
    forgetful, drawn = Actor(agent, short_term=False), Actor(agent, generator=torch.Generator())
    room = worlds.make("nursery", "track", np.arange(2))
    assert said(room) == f"not examined in the live loop: {SINGLE}"
    assert said(room, forgetful, drawn) == f"not examined in the live loop: {OWN}"
    assert said(room, free) == "asked in life, through the mailbox and rendered"
    assert said(room, pressing) == f"asked in life, through the mailbox; not rendered: {HAND}"
    assert said(room, free, pressing).endswith(f"through the mailbox and rendered; in part not rendered: {HAND}")
    assert said(room, free, forgetful).endswith("through the mailbox and rendered"), "a row with memory off"
    assert said(lamps(), free).endswith("through the mailbox; not rendered: its world cannot be pictured by a camera")


def test_noting_skips_rules_and_keeps_replaced_policies(agent: Any) -> None:
    with noting() as noted:
        list(rollout(lambda senses, first: {"press": np.ones(2, int)}, lamps(), 2))
    assert not noted.mailbox
    assert noted.said == f"not examined in the live loop: {SINGLE}"
    asked: list[Any] = []
    with acting_through(lambda policy, world: asked.append(policy) or still), noting() as noted:
        list(rollout(actor := Actor(agent, effectors=["press"]), lamps(), 2))
    assert asked == [actor], "who replaces policies outside goes on doing so"
    assert noted.mailbox
