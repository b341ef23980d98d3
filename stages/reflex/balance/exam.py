"""The exam of balance: the real CartPole-v1 of Gymnasium, through the agent's step path."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from devmind.acting import Actor
from devmind.acting.carts import MOST, balance_ticks, carts
from devmind.agent.agent import Agent
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng

EPISODES = 400
GATE = Gate([Threshold("balance", 475.0)])


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """Steps that the pole is kept up in each of 400 episodes of CartPole-v1."""
    n = context.episodes(EPISODES)
    seeds = exam_seeds(n, context.seed, "balance")
    actor = Actor(agent, effectors=["push"], trunk=False)
    values = balance_ticks(seeds, actor)
    measure = Measure(
        "balance",
        "return of CartPole-v1",
        values,
        chance=22.0,
        ceiling=MOST,
        reference="CartPole-v1 counts as solved at 475",
        answered=actor.counts,
        episodes=_episode_names(carts(seeds)),
    )
    yield [measure]
    rng = numpy_rng(context.seed, "balance", "random")
    by_chance = float(balance_ticks(seeds, lambda senses, first: {"push": rng.integers(0, 2, n)}).mean())
    yield [replace(measure, chance=by_chance, floors={"random": by_chance})]


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Episodes that lessons begin, int64 [n]."""
    return _episode_names(context.make_world("cartpole", "", lesson_seeds(n, context.seed, "balance", "episodes")))


def _episode_names(world: Any) -> np.ndarray:
    """The episodes that N carts begin, named by their state as sensed, in float32."""
    return identities({"body": world.observe()["body"]})
