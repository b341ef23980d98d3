"""How the tests are played: many children with one agent's weights, by its own step path, most likely choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.curriculum.stage import Context
from devmind.seeding import numpy_rng

TOGETHER = 100
"""Children that step side by side; more take memory and no less time each."""

Senses = Mapping[str, Any]
Player = Callable[[Senses, np.ndarray], np.ndarray]
"""`(senses [N, ...], first bool [N]) -> choices int64 [N]`."""
Maker = Callable[[int], Player]
"""Gives a fresh player for n children."""


class Child:
    """N children that remember by the agent's own state.

    Args:
        short_term: False leaves them this Moment alone: a window of one Moment and no slots.
    """

    def __init__(self, agent: Agent, n: int, short_term: bool = True) -> None:
        self.agent, self.state = agent, agent.new_state(n, short_term=short_term)

    def __call__(self, senses: Senses, first: np.ndarray) -> np.ndarray:
        """The most likely choices of one tick."""
        percepts = self.agent.encode(self.state, collate_tick(senses, first))
        self.state, output = self.agent.step(self.state, percepts, effectors=["choose"])
        return output.action["choose"].cpu().numpy()


def child(agent: Agent, short_term: bool = True) -> Maker:
    """Children with this agent's weights."""
    return lambda n: Child(agent, n, short_term)


def at_random(choices: int, *names: int | str) -> Maker:
    """Players that choose one of the first `choices` by numbers named by `names`."""
    rng = numpy_rng(*names, "random")
    return lambda n: lambda senses, first: rng.integers(0, choices, n)


def always(choice: int) -> Maker:
    """Players that always choose `choice`."""
    return lambda n: lambda senses, first: np.full(n, choice)


def episodes(context: Context, level: str, n: int = 400) -> int:
    """How many episodes an exam runs: all of `n` in a full one, a fifth in a glimpse."""
    return context.episodes(n) if level == "full" else max(8, context.episodes(n) // 5)


def returns(context: Context, world: str, level: str, seeds: np.ndarray, make: Maker) -> np.ndarray:
    """Sum of rewards of every episode, float64 [N].

    The worlds' episodes are all equally long: a group ends together.
    """
    return in_groups(lambda group: _group(context.make_world(world, level, group), make(len(group))), seeds)


def in_groups(play: Callable[[np.ndarray], np.ndarray], seeds: np.ndarray) -> np.ndarray:
    """`play` on at most 100 seeds at a time, its answers [n] one behind the other."""
    return np.concatenate([play(group) for group in np.split(seeds, range(TOGETHER, len(seeds), TOGETHER))])


def _group(world: Any, player: Player) -> np.ndarray:
    senses, total = world.observe(), np.zeros(world.num_envs)
    first, going = np.ones(world.num_envs, bool), True
    while going:
        senses, reward, terminal, truncated, _ = world.step({"choose": player(senses, first)})
        first, total = np.zeros_like(first), total + reward
        going = not bool((terminal | truncated).all())
    return total
