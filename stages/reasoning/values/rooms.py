"""MiniGrid's empty room of six by six, from all of its starts, and the shortest path from each.

The environment is MiniGrid's own (`devmind.worlds.minigrid`, extra `worlds`). A row acts by its effector `choose`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from devmind.acting import Senses
from devmind.algorithms import grid
from devmind.algorithms.grid import Cell, Pose
from devmind.seeding import exam_seeds
from devmind.worlds.minigrid import FORWARD, LEFT, RIGHT, env_of, pose_in, rooms_in_turn, true_costs
from devmind.worlds.side_by_side import SideBySide

ROOM = "MiniGrid-Empty-Random-6x6-v0"
STARTS = 60
"""Fifteen cells (all but the goal), four headings each."""
GOAL = 8
"""The board's plane for the goal."""


def rooms(seeds: np.ndarray, name: str = ROOM) -> SideBySide:
    """One room for each seed, at its beginning. The next call uses the same environments, so use one at a time."""
    return SideBySide(rooms_in_turn((name,), len(seeds)), seeds)


@lru_cache(maxsize=4)
def all_starts(seed: int) -> np.ndarray:
    """An exam seed for each start, int64 [STARTS]."""
    (world,), seed_of_start = rooms_in_turn((ROOM,), 1), dict[Pose, int]()
    for one in exam_seeds(100 * STARTS, seed, "values", "rooms").tolist():
        if len(seed_of_start) == STARTS:
            break
        world.reset(seed=one)
        seed_of_start.setdefault(pose_in(env_of(world)), one)
    return np.array(list(seed_of_start.values()))


def shortest(seeds: np.ndarray) -> np.ndarray:
    """The return of the shortest path to the goal from each start, float64 [N].

    MiniGrid pays 1 - 0.9 steps / most steps.

    Raises:
        ValueError: a goal cannot be reached.
    """
    (world,), earned = rooms_in_turn((ROOM,), 1), []
    for seed in seeds.tolist():
        world.reset(seed=int(seed))
        env = env_of(world)
        moves = grid.shortest(true_costs(env), pose_in(env), grid.on(_goal(env)))
        if moves is None:
            raise ValueError(f"Expected a goal that can be reached; there is none in the room of seed {seed}.")
        earned.append(1 - 0.9 * len(moves) / env.max_steps)
    return np.array(earned)


def _goal(env: Any) -> Cell:
    kinds = env.grid.encode()[..., 0]
    (x, y) = np.argwhere(kinds == GOAL)[0].tolist()
    return y, x


def goal_in_view(senses: Senses, first: np.ndarray) -> dict[str, np.ndarray]:
    """A rule on the view: turn right until the goal is in view, go on until it is level, turn to it, go."""
    goal = senses["board"][:, GOAL].astype(bool)  # [N, 7, 7], the agent below in the middle, looking up
    in_view = goal.any((1, 2))
    row, column = goal.any(2).argmax(1), goal.any(1).argmax(1)
    turn = np.where(column < 3, LEFT, RIGHT)
    return {"choose": np.where(in_view & (row < 6), FORWARD, np.where(in_view, turn, RIGHT))}
