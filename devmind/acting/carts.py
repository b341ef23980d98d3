"""CartPole-v1 as Gymnasium has it, for exams: one cart for each seed, and how long a policy keeps the poles up."""

from __future__ import annotations

import gymnasium
import numpy as np

from devmind.acting.rollout import Policy, returns
from devmind.worlds.gym_world import GymWorld
from devmind.worlds.side_by_side import SideBySide

MOST = 500.0
"""What an episode returns at the most."""


def carts(seeds: np.ndarray) -> SideBySide:
    """CartPole-v1, once for each of `seeds` int64 [N]."""
    return SideBySide([GymWorld(gymnasium.make("CartPole-v1")) for _ in seeds], seeds)


def kept_up(seeds: np.ndarray, policy: Policy) -> np.ndarray:
    """Returns float64 [N] in CartPole-v1, one episode a seed; all run until the last one ends."""
    world = carts(seeds)
    try:
        return returns(policy, world)
    finally:
        world.close()
