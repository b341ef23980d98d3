"""How the tests are played: policies that choose, whole episodes, a hundred side by side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from devmind.acting import Actor, Policy, Senses, returns
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context
from devmind.seeding import numpy_rng

TOGETHER = 100
"""Episodes that go on side by side; more take memory and no less time each."""


def child(agent: Agent, short_term: bool = True) -> Policy:
    """The agent's most likely choices, by its own state; without short-term memory by each Moment alone."""
    return Actor(agent, effectors=["choose"], short_term=short_term)


def choosing(rule: Callable[[Senses, np.ndarray], np.ndarray]) -> Policy:
    """A rule `(senses [N, ...], first bool [N]) -> choices int64 [N]` as a policy."""

    def act(senses: Senses, first: np.ndarray) -> Actions:
        return {"choose": rule(senses, first)}

    return act


def at_random(choices: int, *names: int | str) -> Policy:
    """Choose one of the first `choices` by numbers named by `names`."""
    rng = numpy_rng(*names, "random")
    return choosing(lambda senses, first: rng.integers(0, choices, len(first)))


def always(choice: int) -> Policy:
    """Always choose `choice`."""
    return choosing(lambda senses, first: np.full(len(first), choice))


def episodes(context: Context, level: str, n: int = 400) -> int:
    """How many episodes an exam runs: a fifth of `n` in a glimpse, else all."""
    return context.episodes(n) if level != "glimpse" else max(8, context.episodes(n) // 5)


def total_rewards(context: Context, world: str, level: str, seeds: np.ndarray, policy: Policy) -> np.ndarray:
    """Sum of rewards of every episode, float64 [N]."""
    return in_groups(lambda group: returns(policy, context.make_world(world, level, group)), seeds)


def in_groups(play: Callable[[np.ndarray], np.ndarray], seeds: np.ndarray) -> np.ndarray:
    """`play` on at most 100 seeds at a time, its answers [n] one behind the other."""
    return np.concatenate([play(group) for group in np.split(seeds, range(TOGETHER, len(seeds), TOGETHER))])
