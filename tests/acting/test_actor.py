"""The Actor steps as the agent does, row by row, and keeps state, counts and recalled entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from devmind import worlds
from devmind.acting import Actor, rollout
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.agent.encoders import Encoded
from devmind.agent.taps import Percepts
from devmind.moment import Moment
from devmind.testing import tiny_agent
from devmind.testing.laws import ATOL
from stages.reflex import parts

EFFECTORS = ("look", "move")


@pytest.fixture(scope="module")
def agent() -> Agent:
    """All weights are random: a trunk with zero output projections would ignore the state."""
    agent = tiny_agent()
    parts.admit(agent)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in agent.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return agent.eval()


def track(n: int) -> Any:
    return worlds.make("nursery", "track", np.arange(n))


def test_actor_rollout_equals_agent_steps(agent: Agent) -> None:
    world, state, actions = track(3), agent.new_state(3), []
    for tick in rollout(Actor(agent, effectors=EFFECTORS), world, 6):
        percepts = agent.encode(state, collate_tick(tick.senses, np.full(3, tick.tick == 0)))
        state, output = agent.step(state, percepts, effectors=EFFECTORS)
        for name, value in tick.actions.items():
            assert np.array_equal(value, output.action[name].numpy())
        actions.append(tick.actions["look"])
    assert np.ptp(np.stack(actions), axis=0).max() > 0  # the actions differ between ticks


def test_actor_makes_a_new_state_when_all_rows_begin(agent: Agent) -> None:
    actor = Actor(agent, effectors=EFFECTORS)
    groups = [[tick.actions["look"] for tick in rollout(actor, track(n), 3)] for n in (3, 2)]
    fresh = [tick.actions["look"] for tick in rollout(Actor(agent, effectors=EFFECTORS), track(2), 3)]
    assert all(np.array_equal(a, b) for a, b in zip(groups[1], fresh, strict=True))
    assert sum(actor.answered["look"].values()) == 3 * (3 + 2)
    assert actor.counts["look"] == dict(actor.answered["look"])


def test_actor_ignores_the_senses_in_without(agent: Agent) -> None:
    senses = track(2).observe()
    other = senses | {"sight": 255 - senses["sight"]}
    opening = np.ones(2, bool)
    whole, blind = (Actor(agent, effectors=["look"], without=off, trunk=False) for off in ((), ("sight",)))
    assert not np.array_equal(whole(senses, opening)["look"], whole(other, opening)["look"])
    assert np.array_equal(blind(senses, opening)["look"], blind(other, opening)["look"])


def test_actor_without_short_term_memory_ignores_earlier_moments(agent: Agent) -> None:
    bodies = np.random.default_rng(0).normal(size=(4, 12)).astype(np.float32)

    def last(short_term: bool, since: int) -> torch.Tensor:
        actor = Actor(agent, heads=["look_trunk"], effectors=(), short_term=short_term)
        for tick in range(since, 4):
            actor.act(Moment(tick / 10, {"body": bodies[tick]}, first=tick == since))
        assert actor.output is not None
        return actor.output.outputs["look_trunk"].mode()

    assert torch.allclose(last(False, 0), last(False, 3), atol=ATOL)
    assert not torch.allclose(last(True, 0), last(True, 3), atol=1e-4)


def test_actor_asks_recall_unless_entries_are_given(agent: Agent) -> None:
    asked: list[Percepts] = []
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randn(1, 2, agent.config.width, generator=generator)
    mind = Encoded(tokens, torch.ones(1, 2, dtype=torch.bool))

    def recall(percepts: Percepts) -> Encoded:
        asked.append(percepts)
        return mind

    moment = Moment(0.0, {"body": np.ones(12, np.float32)}, first=True)
    actors = {
        name: Actor(agent, heads=["look_trunk"], effectors=(), recall=own)
        for name, own in (("recalls", recall), ("told", None), ("nothing", None))
    }
    said = {}
    for name, actor in actors.items():
        percepts = actor.encode(moment)
        said[name] = actor.step(percepts, mind if name == "told" else None).outputs["look_trunk"].mode()
    assert len(asked) == 1
    assert torch.equal(said["recalls"], said["told"])
    assert not torch.allclose(said["recalls"], said["nothing"], atol=1e-4)


def test_actor_keeps_its_state_when_its_agent_is_replaced(agent: Agent) -> None:
    actor = Actor(agent, effectors=EFFECTORS)
    moments = [Moment(t / 10, {"body": np.full(12, t, np.float32)}, first=t == 0) for t in range(2)]
    actor.act(moments[0])
    state = actor.state
    other = tiny_agent(seed=1)
    parts.admit(other)
    actor.agent = other.eval()
    actor.act(moments[1])
    assert actor.state is state
