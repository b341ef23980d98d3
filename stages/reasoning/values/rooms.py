"""MiniGrid's empty room of six by six, from all of its starts, and the shortest path from each.

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
"""Fifteen cells (all but the goal), four headings each."""
GOAL = 8
"""The board's plane for the goal."""
Place = tuple[int, int, int]
"""Column, row and heading (0 right, 1 down, 2 left, 3 up)."""
_HEADINGS = ((1, 0), (0, 1), (-1, 0), (0, -1))


def rooms(seeds: np.ndarray, name: str = ROOM) -> SideBySide:
    """One room for each seed, at its beginning. The next call uses the same environments, so use one at a time."""
    return SideBySide(_made(name, len(seeds)), seeds)


@lru_cache(maxsize=2)
def _made(name: str, n: int) -> list[GymWorld]:
    return [room(name) for _ in range(n)]


@lru_cache(maxsize=4)
def all_starts(seed: int) -> np.ndarray:
    """An exam seed for each start, int64 [STARTS]."""
    (world,), seed_of_start = _made(ROOM, 1), dict[Place, int]()
    for one in exam_seeds(100 * STARTS, seed, "values", "rooms").tolist():
        if len(seed_of_start) == STARTS:
            break
        world.reset(seed=one)
        seed_of_start.setdefault(standing(world), one)
    return np.array(list(seed_of_start.values()))


def shortest(seeds: np.ndarray) -> np.ndarray:
    """The return of the shortest path to the goal from each start, float64 [N].

    MiniGrid pays 1 - 0.9 steps / most steps.
    """
    (world,), earned = _made(ROOM, 1), []
    env: Any = world.env.unwrapped
    for seed in seeds.tolist():
        world.reset(seed=int(seed))
        earned.append(1 - 0.9 * steps_to_goal(env.grid, standing(world)) / env.max_steps)
    return np.array(earned)


def standing(world: GymWorld) -> Place:
    """The agent's place in a room, and its heading."""
    env: Any = world.env.unwrapped
    return int(env.agent_pos[0]), int(env.agent_pos[1]), int(env.agent_dir)


def after(grid: Any, place: Place, action: int) -> Place:
    """The place after a turn or a step; a step against a wall changes nothing."""
    x, y, heading = place
    if action != FORWARD:
        return x, y, (heading + (1 if action == RIGHT else -1)) % 4
    ahead = x + _HEADINGS[heading][0], y + _HEADINGS[heading][1]
    there = grid.get(*ahead)
    return (*ahead, heading) if there is None or there.can_overlap() else place


def steps_to_goal(grid: Any, start: Place) -> int:
    """Turns and steps to the goal, by breadth-first search.

    Raises:
        ValueError: the goal cannot be reached.
    """
    steps, waiting = {start: 0}, deque([start])
    while waiting:
        here = waiting.popleft()
        cell = grid.get(*here[:2])
        if cell is not None and cell.type == "goal":
            return steps[here]
        for action in (LEFT, RIGHT, FORWARD):
            if (place := after(grid, here, action)) not in steps:
                steps[place] = steps[here] + 1
                waiting.append(place)
    raise ValueError("Expected a goal that can be reached; there is none in this room.")


def goal_in_view(senses: Senses, first: np.ndarray) -> dict[str, np.ndarray]:
    """A rule on the view: turn right until the goal is in view, go on until it is level, turn to it, go."""
    goal = senses["board"][:, GOAL].astype(bool)  # [N, 7, 7], the agent below in the middle, looking up
    in_view = goal.any((1, 2))
    row, column = goal.any(2).argmax(1), goal.any(1).argmax(1)
    turn = np.where(column < 3, LEFT, RIGHT)
    return {"choose": np.where(in_view & (row < 6), FORWARD, np.where(in_view, turn, RIGHT))}
