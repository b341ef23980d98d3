"""MiniGrid's Memory rooms: which are taught and which examined, and a teacher that walks them.

A key or a ball lies at the start of a hallway, and one of each at its end. The agent has to go to the one that equals
the first. It starts anywhere in the hallway with its back to the first thing, so it has to go and look first.
The environment is MiniGrid's own (`devmind.worlds.minigrid`, extra `worlds`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from devmind.acting import Senses, rollout
from devmind.acting.rollout import Actions
from devmind.algorithms import grid
from devmind.algorithms.grid import Cell, Pose
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng
from devmind.worlds.minigrid import FORWARD, LEFT, RIGHT, env_of, pose_in, room, true_costs
from devmind.worlds.side_by_side import SideBySide

KEY, BALL = 5, 6
LONGEST = {7: 24, 13: 40}
"""Steps after which an episode counts as failed: three times the teacher's longest."""
POOL = 96
"""Episodes of each size that lessons draw from. There are 16 different rooms of size 7, and 40 of size 13: half of them
are for lessons, and half for the exam."""
ROOMS = {7: 8, 13: 20}
"""How many rooms of each size are kept for the exam, which asks all of them."""
UNSEEN_SIZES = {9: 27, 11: 33}
"""Sizes in no lesson, and steps after which an episode counts as failed; exams have all their rooms, four for every
start cell."""
STRAY = 0.1
"""Share of the teacher's actions in lessons that are random, so that the agent sees the results of its own mistakes
(DART: Laskey et al., 2017); the target is what the teacher would have done."""

Episode = dict[str, np.ndarray]
Layout = tuple[int, int, int]
"""What differs between rooms of one size: the start cell in the hallway, from 1; the thing at its start (0 a key, 1 a
ball); whether its equal lies at the left (0) or the right (1) of the end."""


def for_exams(layout: Layout) -> bool:
    """Whether a room is kept for exams: every second one, so that lessons have each start, thing and side, but not
    every combination of them.
    """
    return sum(layout) % 2 == 1


def room_name(size: int) -> str:
    """MiniGrid's name of the room of that size."""
    return f"MiniGrid-MemoryS{size}-v0"


class Hallway:
    """One such room with a teacher that sees the whole grid."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.world = room(room_name(size))
        self.env = env_of(self.world)

    def begin(self, seed: int) -> SideBySide:
        """The episode of `seed` as a world of one row, for a rollout; the teacher looks at it anew."""
        world = SideBySide([self.world], [seed])
        middle = self.env.height // 2
        self.start = int(self.env.agent_pos[0])
        self.looked = False
        self.costs = true_costs(self.env)
        self.to_look, self.to_goal = (middle, 1), tuple(self.env.success_pos)[::-1]
        self.costs[tuple(self.env.failure_pos)[::-1]] = 0
        return world

    def teach(self) -> int:
        """The teacher's action: go and look until the first thing was in view, then go to its equal."""
        self.looked = self.looked or self.in_view
        goal = self.to_goal if self.looked else self.to_look
        here = pose_in(self.env)
        return min((LEFT, RIGHT, FORWARD), key=lambda action: self._steps(self._after(here, action), goal))

    @property
    def in_view(self) -> bool:
        """Whether the agent sees the first thing now."""
        return bool(self.env.agent_sees(1, self.env.height // 2 - 1))

    @property
    def first_thing(self) -> int:
        """What lies at the start: 0 a key, 1 a ball."""
        return int(self.env.grid.get(1, self.env.height // 2 - 1).type == "ball")

    @property
    def layout(self) -> Layout:
        """The room of the latest episode."""
        right = self.env.success_pos[1] > self.env.height // 2
        return self.start, self.first_thing, int(right)

    @property
    def at_the_fork(self) -> bool:
        """Whether the agent has looked, stands at the hallway's end and has not turned: it must remember now."""
        fork = self.env.success_pos[0], self.env.height // 2
        return self.looked and tuple(self.env.agent_pos) == fork and self.env.agent_dir == 0

    def _after(self, here: Pose, action: int) -> Pose:
        there = grid.move_pose(here, action)
        return there if self.costs[there[:2]] else here

    def _steps(self, start: Pose, goal: Cell) -> int:
        moves = grid.shortest(self.costs, start, grid.on(goal))
        assert moves is not None, "a hallway has no wall between its ends"
        return len(moves)


@lru_cache(maxsize=8)
def lesson_rooms(seed: int, size: int) -> np.ndarray:
    """Seeds of the POOL rooms of lessons, int64 [POOL]: none is kept for exams."""
    seeds = lesson_seeds(4 * POOL, seed, "hallway", size)
    return np.array([one for one in seeds.tolist() if not for_exams(layout(size, one))][:POOL])


@lru_cache(maxsize=8)
def exam_rooms(seed: int, size: int) -> np.ndarray:
    """One seed for every room of a size that is kept for exams: half of them, or of UNSEEN_SIZES all. int64 [rooms]."""
    unseen = size in UNSEEN_SIZES
    many = 4 * (size - 3) if unseen else ROOMS[size]
    seed_of_room: dict[Layout, int] = {}
    for one in exam_seeds(100 * many, seed, "hallway", size).tolist():
        if len(seed_of_room) == many:
            break
        if for_exams(room := layout(size, one)) or unseen:
            seed_of_room.setdefault(room, one)
    return np.array(list(seed_of_room.values()))


def layout(size: int, seed: int) -> Layout:
    """The room that a seed begins."""
    hallway = _hallway(size)
    hallway.begin(seed)
    return hallway.layout


@lru_cache(maxsize=2)
def _hallway(size: int) -> Hallway:
    return Hallway(size)


@lru_cache(maxsize=4 * POOL)
def walk(size: int, seed: int) -> Episode:
    """One episode: `board` int8 [T, 13, 7, 7], and targets [T] as `short_term.whole_episodes` has them.

    `in_view` is the first thing at Moments that show it, else -1.
    """
    hallway, rng = _hallway(size), numpy_rng("hallway", size, seed)
    rows: list[dict[str, Any]] = []

    def teaching(senses: Senses, first: np.ndarray) -> Actions:
        choice = hallway.teach()
        thing, asked = hallway.first_thing, hallway.at_the_fork
        told_thing, in_view = thing if hallway.looked else -1, thing if hallway.in_view else -1
        rows.append(
            {"board": senses["board"][0], "choice": choice, "asked": asked, "told": told_thing, "in_view": in_view}
        )
        slips = rng.random() < STRAY and not hallway.at_the_fork
        return {"choose": np.array([int(rng.integers(LEFT, FORWARD + 1)) if slips else choice])}

    for tick in rollout(teaching, hallway.begin(seed), LONGEST[size]):
        if tick.ended.all():
            break
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}
