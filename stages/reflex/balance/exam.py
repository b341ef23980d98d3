"""The exam of balance: the real CartPole-v1 of Gymnasium, through the agent's step path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from devmind.acting import Actor, Policy, returns
from devmind.agent.agent import Agent
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng
from devmind.worlds.gym_world import GymWorld
from devmind.worlds.side_by_side import SideBySide

EPISODES = 400
GATE = Gate([Threshold("balance", 475.0)])


def examine(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """Steps that the pole is kept up in each of 400 episodes of CartPole-v1."""
    n = context.episodes(EPISODES, level)
    seeds = exam_seeds(n, context.seed, "balance")
    actor = Actor(agent, effectors=["push"], trunk=False)
    values = play(seeds, actor)
    floors = {}
    if level == "full":
        rng = numpy_rng(context.seed, "balance", "random")
        floors = {"random": float(play(seeds, lambda senses, first: {"push": rng.integers(0, 2, n)}).mean())}
    return [
        Measure(
            "balance",
            "return of CartPole-v1",
            values,
            chance=floors.get("random", 22.0),
            ceiling=500.0,
            floors=floors,
            reference="CartPole-v1 counts as solved at 475",
            answered=actor.counts,
            episodes=_begun(carts(seeds)),
        )
    ]


def taught(context: Context, n: int) -> np.ndarray:
    """Carts as lessons begin them, int64 [n]."""
    return _begun(context.make_world("cartpole", "", lesson_seeds(n, context.seed, "balance", "episodes")))


def _begun(world: Any) -> np.ndarray:
    """Which episodes N carts begin: by where they stand, in float32 as they are sensed."""
    return identities({"body": world.observe()["body"]})


def carts(seeds: np.ndarray) -> SideBySide:
    """CartPole-v1 as Gymnasium has it, one for each seed."""
    return SideBySide([GymWorld(gymnasium.make("CartPole-v1")) for _ in seeds], seeds)


def play(seeds: np.ndarray, policy: Policy) -> np.ndarray:
    """Returns float64 [N] in CartPole-v1, one episode a seed; all run until the last one ends."""
    world = carts(seeds)
    try:
        return returns(policy, world)
    finally:
        world.close()
