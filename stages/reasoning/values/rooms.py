"""MiniGrid's empty room of six by six, from all of its starts, and the shortest way out of each.

The environment is MiniGrid's own (`devmind.worlds.minigrid`, extra `worlds`). A row acts by its effector `choose`.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import Any

import numpy as np

from devmind.acting import Senses
from devmind.seeding import exam_seeds
from devmind.worlds.gym_world import GymWorld
from devmind.worlds.minigrid import FORWARD, LEFT, RIGHT, room
from devmind.worlds.side_by_side import SideBySide

ROOM = "MiniGrid-Empty-Random-6x6-v0"
STARTS = 60
"""Fifteen cells beside the goal's, four headings each."""
EMPTY, GOAL = 1, 8
"""Planes of the board: MiniGrid's kinds of cells."""
_HEADINGS = ((1, 0), (0, 1), (-1, 0), (0, -1))


def rooms(seeds: np.ndarray, name: str = ROOM) -> SideBySide:
    """One room for each seed, all beginning. What was made by the last call is used again, so only one is in use."""
    return SideBySide(_made(name, len(seeds)), seeds)


@lru_cache(maxsize=2)
def _made(name: str, n: int) -> list[GymWorld]:
    return [room(name) for _ in range(n)]


@lru_cache(maxsize=4)
def all_starts(seed: int) -> np.ndarray:
    """A seed of exams for each start that there is, int64 [STARTS]."""
    (world,), found = _made(ROOM, 1), dict[tuple[int, ...], int]()
    for one in exam_seeds(100 * STARTS, seed, "values", "rooms").tolist():
        if len(found) == STARTS:
            break
        world.reset(seed=one)
        found.setdefault(_stands(world), one)
    return np.array(list(found.values()))


def shortest(seeds: np.ndarray) -> np.ndarray:
    """What the shortest way to the goal earns from each start, float64 [N], by breadth first over cells and headings.

    MiniGrid pays 1 - 0.9 steps / most steps.
    """
    (world,), earned = _made(ROOM, 1), []
    for seed in seeds.tolist():
        world.reset(seed=int(seed))
        earned.append(1 - 0.9 * _steps(world) / world.env.unwrapped.max_steps)  # type: ignore[attr-defined]
    return np.array(earned)


def _stands(world: GymWorld) -> tuple[int, int, int]:
    env: Any = world.env.unwrapped
    return int(env.agent_pos[0]), int(env.agent_pos[1]), int(env.agent_dir)


def _steps(world: GymWorld) -> int:
    """Turns and steps to the goal from where the agent stands."""
    grid: Any = world.env.unwrapped.grid  # type: ignore[attr-defined]
    start = _stands(world)
    steps, waiting = {start: 0}, deque([start])
    while waiting:
        x, y, heading = here = waiting.popleft()
        cell = grid.get(x, y)
        if cell is not None and cell.type == "goal":
            return steps[here]
        ahead = x + _HEADINGS[heading][0], y + _HEADINGS[heading][1]
        places = [(x, y, (heading + 1) % 4), (x, y, (heading - 1) % 4)]
        there = grid.get(*ahead)
        if there is None or there.can_overlap():
            places.append((*ahead, heading))
        for place in places:
            if place not in steps:
                steps[place] = steps[here] + 1
                waiting.append(place)
    raise ValueError("Expected a goal that can be reached; there is none in this room.")


def goal_in_view(senses: Senses, first: np.ndarray) -> dict[str, np.ndarray]:
    """A rule on what is seen: turn right until the goal is in view, go on until it is level, turn to it, go."""
    goal = senses["board"][:, GOAL].astype(bool)  # [N, 7, 7], the agent below in the middle, looking up
    seen = goal.any((1, 2))
    row, column = goal.any(2).argmax(1), goal.any(1).argmax(1)
    turn = np.where(column < 3, LEFT, RIGHT)
    return {"choose": np.where(seen & (row < 6), FORWARD, np.where(seen, turn, RIGHT))}
