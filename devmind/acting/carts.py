"""Gymnasium's CartPole-v1 for exams: one cart for each seed, and the return of a policy."""

from __future__ import annotations

import gymnasium
import numpy as np

from devmind.acting.rollout import Policy, returns
from devmind.worlds.gym_world import GymWorld
from devmind.worlds.side_by_side import SideBySide

MOST = 500.0
"""The highest return of an episode."""


def carts(seeds: np.ndarray) -> SideBySide:
    """CartPole-v1, once for each of `seeds` int64 [N]."""
    return SideBySide([GymWorld(gymnasium.make("CartPole-v1")) for _ in seeds], seeds)


def balance_ticks(seeds: np.ndarray, policy: Policy) -> np.ndarray:
    """Returns float64 [N] of `policy` in CartPole-v1, one episode for each seed; all run until the last one ends."""
    world = carts(seeds)
    try:
        return returns(policy, world)
    finally:
        world.close()
