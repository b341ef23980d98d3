"""What the lesson learns from: trips of OGBench's oracle, whose hand slips, and plans cut out of them.

The oracle sees the maze and walks from cell to cell on a shortest way (OGBench's `generate_locomaze.py`, of which this
is the policy for points: the way to the next cell, plus normal noise of 0.5).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from devmind.acting import Policy, rollout
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.worlds import make as make_world
from devmind.worlds.pointmaze import MAZES, UNIT, maze, oracle_way
from stages.planning.parts import HORIZON, LENGTH, STRIDE

NOISE = 0.5
SIDE_BY_SIDE = 40
PIECES = (1, 1, 2, 4, 8, 16)
"""Ticks that are lived before one learns from the next trip: lives begin, so a plan is made of short pasts and long."""
AHEAD = (8, 20)
"""Ticks after which a place is where a command led to."""
MOVES = {(0, 1): 1, (1, 0): 2, (0, -1): 3, (-1, 0): 4}
"""Words of steps (row, column) to the next cell."""


@dataclass(frozen=True)
class Trips:
    """Trips one behind the other.

    Attributes:
        maze: its name. at: float32 [ticks, 2] in the senses' units; walk: float32 [ticks, 2], what was commanded there;
            of the last tick of a trip there is only the place.
        begin: int64 [trips + 1], where each begins; goal: float32 [trips, 2].
        made: ticks that the oracle walked for them.
    """

    maze: str
    at: np.ndarray
    walk: np.ndarray
    begin: np.ndarray
    goal: np.ndarray
    made: int

    def __len__(self) -> int:
        return len(self.goal)


@lru_cache(maxsize=4)
def made(name: str, seed: int, ticks: int) -> Trips:
    """Trips between any two cells of the maze, of `ticks` ticks at most, all together."""
    places: list[np.ndarray] = []
    walks: list[np.ndarray] = []
    goals: list[np.ndarray] = []
    spent, turn = 0, 0
    while not places or spent + spent / turn <= ticks:
        seeds = lesson_seeds(SIDE_BY_SIDE, seed, "trips", name, turn)
        world = make_world("pointmaze", name, seeds)
        goal = world.observe()["goal"]
        at, walk, ended = [world.observe()["body"]], [], []
        for tick in rollout(oracle(name, numpy_rng("slips", seed, name, turn)), world):
            at.append(tick.following["body"])
            walk.append(tick.actions["walk"])
            ended.append(tick.ended)
        length = 1 + np.argmax(np.stack(ended), 0)
        for row, n in enumerate(length):
            places.append(np.stack([one[row] for one in at[: n + 1]]))
            walks.append(np.stack([one[row] for one in walk[:n]] + [np.zeros(2)]).astype(np.float32))
            goals.append(goal[row])
        spent, turn = spent + int(length.sum()), turn + 1
    begin = np.concatenate(([0], np.cumsum([len(one) for one in places])))
    return Trips(name, np.concatenate(places), np.concatenate(walks), begin, np.stack(goals), spent)


def oracle(name: str, rng: np.random.Generator | None = None) -> Policy:
    """OGBench's oracle; with `rng` its hand slips."""

    def way(senses: Any, first: np.ndarray) -> dict[str, np.ndarray]:
        walk = oracle_way(name, senses["body"] * UNIT, senses["goal"] * UNIT)
        noise = 0.0 if rng is None else rng.normal(0.0, NOISE, walk.shape)
        return {"walk": np.clip(walk + noise, -1.0, 1.0).astype(np.float32)}

    return way


def moves(cells: np.ndarray) -> list[int]:
    """The words of the way through cells [n, 2], loops left out, each step of one row or column."""
    way: list[tuple[int, int]] = []
    places: dict[tuple[int, int], int] = {}
    for cell in map(tuple, cells.tolist()):
        if cell in places:
            for gone in way[places[cell] + 1 :]:
                del places[gone]
            del way[places[cell] + 1 :]
        else:
            places[cell] = len(way)
            way.append(cell)
    words = []
    for (row, column), (next_row, next_column) in pairwise(way):
        # Past a corner two borders may be crossed in one tick.
        words += [MOVES[step] for step in ((0, next_column - column), (next_row - row, 0)) if step in MOVES]
    return words


def batch(trips: list[Trips], ticks: int, rows: int, rng: np.random.Generator) -> dict[str, Any]:
    """Rows of consecutive Moments [rows, ticks], cut into pieces of trips, with what is to be planned in each.

    A piece's goal is its trip's, or a place that its trip comes through later (hindsight: Andrychowicz et al. 2017). A
    plan's points are where the trip was after 0, 16, 32 ... ticks, the goal once it was reached. `learned` bool [rows,
    ticks] names the Moments to learn from, the first and the last of each piece; the others only are the past of these,
    and have the plan of the one before.
    """
    cut = [_piece(trips[rng.integers(len(trips))], ticks, rng) for _ in range(rows)]
    stacked = {name: torch.from_numpy(np.stack([row[name] for row in cut])) for name in cut[0]}
    senses = {name: stacked.pop(name) for name in ("body", "goal", "maze")}
    first = stacked.pop("first")
    here = torch.ones_like(first)
    return {"senses": senses, "present": dict.fromkeys(senses, here), "first": first, "valid": here, **stacked}


def _piece(trips: Trips, ticks: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """One row of a batch."""
    row: dict[str, list[Any]] = {
        name: [] for name in ("body", "goal", "maze", "first", "learned", "plan", "symbols", "ahead", "walk")
    }
    where, which = maze(trips.maze), np.zeros(len(MAZES), np.float32)
    which[MAZES.index(trips.maze)] = 1.0
    while len(row["body"]) < ticks:
        trip = int(rng.integers(len(trips)))
        begin, end = int(trips.begin[trip]), int(trips.begin[trip + 1]) - 1
        if end - begin < 2:
            continue
        at = int(rng.integers(begin, end))
        there = end if rng.random() < 0.5 else int(rng.integers(at + 1, end + 1))
        goal = trips.goal[trip] if there == end else trips.at[there]
        length = min(int(rng.choice(PIECES)), there - at, ticks - len(row["body"]))
        for tick in range(at, at + length):
            learned = tick in (at, at + length - 1)
            if learned:
                when = tick + STRIDE * np.arange(HORIZON)
                plan = np.where((when < there)[:, None], trips.at[np.minimum(when, there)], goal).astype(np.float32)
                words = moves(where.cells(np.concatenate((trips.at[tick : there + 1], goal[None])) * UNIT))
                symbols = np.array((words + [0] * LENGTH)[:LENGTH])
            later = min(tick + int(rng.integers(*AHEAD)), end)
            values = (
                trips.at[tick],
                goal,
                which,
                tick == at,
                learned,
                plan,
                symbols,
                trips.at[later],
                trips.walk[tick],
            )
            for column, value in zip(row.values(), values, strict=True):
                column.append(value)
    return {name: np.stack(values) for name, values in row.items()}
