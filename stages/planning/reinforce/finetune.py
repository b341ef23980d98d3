"""Teaching the planner's denoiser by the returns of plans: advantage-weighted regression (AWR: Peng et al. 2019).

It learns plans as in the lesson, but more often those whose return was above the value expected at their beginning.
Plans are others' trips (offline) or the agent's own walks (online).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from devmind.acting import Actor, rollout
from devmind.agent.agent import Agent
from devmind.algorithms.implicit_q import advantage_weights
from devmind.errors import ConfigError
from devmind.worlds import make as make_world
from stages.planning.parts import STRIDE, WALK
from stages.planning.reinforce.plans import Plans
from stages.planning.reinforce.values import DISCOUNT, StrideValues
from stages.planning.route.trips import Trips

TEMPERATURE = 1.0
"""Temperature of advantages, in strides."""


def advantages(values: StrideValues, plans: Plans) -> Tensor:
    """By how many strides each way [N] was shorter than the value expected at its beginning."""
    gone = plans.ticks / STRIDE
    with torch.no_grad():
        expected = values.value(plans.place, plans.goal, plans.maze)
    return -(1 - DISCOUNT**gone) / (1 - DISCOUNT) - expected


def weights(values: StrideValues, plans: Plans) -> Tensor:
    """Relative frequency with which each plan [N] is to be learned."""
    return advantage_weights(advantages(values, plans), TEMPERATURE, 20.0)


def own_trips(agent: Agent, maze: str, seeds: np.ndarray, ticks: int) -> Trips:
    """Walks of the agent's Actor from any cell to any other, those that arrived.

    Raises:
        ConfigError: none arrived.
    """
    world = make_world("pointmaze", maze, seeds)
    goal = world.observe()["goal"]
    at, walk, there = [world.observe()["body"]], [], np.full(len(seeds), -1)
    with torch.inference_mode():
        for tick in rollout(Actor(agent, len(seeds), effectors=[WALK]), world, ticks):
            at.append(tick.following["body"])
            walk.append(tick.actions[WALK])
            there = np.where((tick.reward > 0) & (there < 0), len(walk), there)
    rows = np.flatnonzero(there > 0)
    if not len(rows):
        raise ConfigError(
            f"None of {len(seeds)} walks arrived within {ticks} ticks, so there is nothing to learn from."
        )
    places = [np.stack([one[row] for one in at[: there[row] + 1]]) for row in rows]
    walks = [np.stack([*(one[row] for one in walk[: there[row]]), np.zeros(2)]).astype(np.float32) for row in rows]
    begin = np.concatenate(([0], np.cumsum([len(one) for one in places])))
    return Trips(maze, np.concatenate(places), np.concatenate(walks), begin, goal[rows], int(len(seeds) * len(walk)))
