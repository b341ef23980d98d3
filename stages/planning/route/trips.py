"""What the lesson learns from: trips of OGBench's oracle, whose commands are noisy, and plans cut out of them.

The oracle sees the maze and walks from cell to cell on a shortest way. It is the policy for points of OGBench's
`generate_locomaze.py`: the direction of the next cell, plus normal noise of 0.5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from devmind.acting import Policy, rollout
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.worlds import make as make_world
from devmind.worlds.pointmaze import MAZES, PACE, UNIT, maze, oracle_way
from stages.planning.parts import HORIZON, STRIDE

NOISE = 0.5
SIDE_BY_SIDE = 40
PIECES = (1, 1, 1, 1, 1, 2, 4, 16)
"""Lengths of pieces of trips, in ticks. An episode begins with each piece, so plans are learned after short and long
pasts."""
EARLY = 1.5
"""Exponent by which plans begin nearer to the beginnings of their trips."""
NODE_TICKS, NEAR, GOALS = 4, 0.04, 16
"""Of the graph of trips: ticks between nodes, distance within which two trips meet (in the senses' units), and ways
that are read from each search."""
COMMANDS = 4
"""Ticks whose mean command is learned for a place ahead: the oracle's noise is more than half of its command."""
PAIRS = (1, 4)
"""Numbers of pairs of places that may be drawn; the pair with the longest detour, with a wall between, is learned."""
AHEAD = (8, 20)
"""Range of ticks after which a place counts as where a command led."""
ASKED = ("body", "goal", "maze", "plan", "symbols", "ahead", "walk")
"""Numbers of a plan that is read without the trunk."""
MOVES = {(0, 1): 1, (1, 0): 2, (0, -1): 3, (-1, 0): 4}
"""Symbols of steps (row, column) to the next cell."""


Seeds = Callable[..., np.ndarray]
"""`(n, *names) -> int64 [n]`."""


@dataclass(frozen=True)
class Trips:
    """Trips, one after another.

    Attributes:
        maze: its name. at: places float32 [ticks, 2] in the senses' units; walk: commands given there, float32
            [ticks, 2]; the last tick of a trip has no command.
        begin: int64 [trips + 1], where each trip begins; goal: float32 [trips, 2].
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
def make_trips(name: str, seed: int, ticks: int, seeds_of: Seeds = lesson_seeds) -> Trips:
    """Trips between any two cells of the maze, of at most `ticks` ticks in all.

    Args:
        seeds_of: `devmind.seeding.exam_seeds` for trips that an exam shows.
    """
    places: list[np.ndarray] = []
    walks: list[np.ndarray] = []
    goals: list[np.ndarray] = []
    spent, turn = 0, 0
    while not places or spent + spent / turn <= ticks:
        seeds = seeds_of(SIDE_BY_SIDE, seed, "trips", name, turn)
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


def join_trips(trips: Trips, n: int, rng: np.random.Generator) -> Trips:
    """`n` ways from where trips began to where others ended, each the shortest that pieces of trips make up.

    500 trips leave out most pairs of far places. Where two trips came within 0.4 units of each other, a way can change
    from one to the other, as the place is the whole state here. So the trips form a graph with ways that no trip walked
    whole (as in Eysenbach et al. 2019, "Search on the replay buffer"). Only the trips are used; walls are not known.
    """
    node = np.concatenate([np.arange(a, b - 1, NODE_TICKS) for a, b in pairwise(trips.begin)])
    trip = np.searchsorted(trips.begin, node, "right")
    along = np.flatnonzero(trip[1:] == trip[:-1])
    first = np.searchsorted(trip, np.unique(trip))
    last = np.append(first[1:], len(node)) - 1
    near = cKDTree(trips.at[node]).query_pairs(NEAR, output_type="ndarray")
    ends = np.concatenate((np.stack((along, along + 1), 1), near, near[:, ::-1]))
    graph = csr_array((np.full(len(ends), float(NODE_TICKS)), (ends[:, 0], ends[:, 1])), (len(node), len(node)))
    places: list[np.ndarray] = []
    walks: list[np.ndarray] = []
    while len(places) < n:
        source = int(rng.choice(first))
        distance, before = dijkstra(graph, indices=source, return_predecessors=True)
        for goal in rng.choice(last[np.isfinite(distance[last])], GOALS):
            way = [int(goal)]
            while way[-1] != source:
                way.append(int(before[way[-1]]))
            if len(way) < 2:
                continue
            pieces = [
                np.arange(node[a], node[b]) if b == a + 1 and trip[a] == trip[b] else node[a : a + 1]
                for a, b in pairwise(way[::-1])
            ]
            ticks = np.append(np.concatenate(pieces), node[goal])
            at, walk = trips.at[ticks], trips.walk[ticks]
            jumps = np.flatnonzero(np.diff(ticks) != 1)
            walk[jumps] = np.clip((at[jumps + 1] - at[jumps]) * UNIT / PACE, -1, 1)
            places.append(at)
            walks.append(walk)
    begin = np.concatenate(([0], np.cumsum([len(one) for one in places])))
    goals = np.stack([one[-1] for one in places])
    return Trips(trips.maze, np.concatenate(places), np.concatenate(walks), begin, goals, trips.made)


def oracle(name: str, rng: np.random.Generator | None = None) -> Policy:
    """OGBench's oracle; with `rng` its commands are noisy."""

    def way(senses: Any, first: np.ndarray) -> dict[str, np.ndarray]:
        walk = oracle_way(name, senses["body"] * UNIT, senses["goal"] * UNIT)
        noise = 0.0 if rng is None else rng.normal(0.0, NOISE, walk.shape)
        return {"walk": np.clip(walk + noise, -1.0, 1.0).astype(np.float32)}

    return way


def moves(cells: np.ndarray, strides: int) -> np.ndarray:
    """The symbols int64 [strides] of the way through `cells` [ticks, 2], one for each tick, with loops left out.

    Each step of one row or column stands at the stride in which it is made, or at the next if that one has a step.
    """
    way: list[tuple[int, int]] = []
    entered: dict[tuple[int, int], int] = {}
    ticks = np.flatnonzero(np.append(True, (cells[1:] != cells[:-1]).any(1)))
    for tick, cell in zip(ticks.tolist(), map(tuple, cells[ticks].tolist()), strict=True):
        if cell in entered:
            for gone in way[way.index(cell) + 1 :]:
                del entered[gone]
            del way[way.index(cell) + 1 :]
        else:
            entered[cell] = tick
            way.append(cell)
    words, free = np.zeros(strides, np.int64), 0
    for (row, column), (next_row, next_column) in pairwise(way):
        stride = (entered[next_row, next_column] - 1) // STRIDE
        # Past a corner one tick may cross two borders.
        for step in ((0, next_column - column), (next_row - row, 0)):
            at = max(stride, free)
            if step in MOVES and at < strides:
                words[at], free = MOVES[step], at + 1
    return words


def batch(
    trips: list[Trips], ticks: int, rows: int, asked: int, rng: np.random.Generator, points: int = HORIZON
) -> dict[str, Any]:
    """Rows of consecutive Moments [rows, ticks] made of pieces of trips, with the plan to be learned in each.

    Under the name `asked` come as many single Moments [asked], each from a stretch of its own, without a past and
    without the trunk, as the planner asks itself (`PlannerHead.thinking`).

    A piece's goal is its trip's, or a place that its trip reaches later (hindsight: Andrychowicz et al. 2017). A plan's
    points are the trip's places after 0, 16, 32 ... ticks, and the goal once it is reached. `learned` bool [rows,
    ticks] marks the Moments to learn from, the first and the last of each piece. The others are the past of these, and
    have the plan of the Moment before.
    """
    cut = [_piece(trips[rng.integers(len(trips))], ticks, rng, points) for _ in range(rows)]
    stacked = {name: torch.from_numpy(np.stack([row[name] for row in cut])) for name in cut[0]}
    senses = {name: stacked.pop(name) for name in ("body", "goal", "maze")}
    first = stacked.pop("first")
    here = torch.ones_like(first)
    alone = [_piece(trips[rng.integers(len(trips))], 1, rng, points) for _ in range(asked)]
    thinking = {name: torch.from_numpy(np.concatenate([row[name] for row in alone])) for name in ASKED}
    present = dict.fromkeys(senses, here)
    return {"senses": senses, "present": present, "first": first, "valid": here, "asked": thinking, **stacked}


def stretch(trips: Trips, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """First and last tick of a trip, and two ticks between which to plan: from early on, to its end or before."""
    while True:
        trip = int(np.searchsorted(trips.begin, rng.integers(len(trips.at)), "right")) - 1
        begin, end = int(trips.begin[trip]), int(trips.begin[trip + 1]) - 1
        if end - begin >= 2:
            at = begin + int((end - begin) * rng.random() ** EARLY)
            return begin, end, at, end if rng.random() < 0.5 else int(rng.integers(at + 1, end + 1))


def goal_of(trips: Trips, end: int, there: int) -> np.ndarray:
    """The goal [2] of a plan to the tick `there` of the trip whose last tick is `end`."""
    return trips.goal[np.searchsorted(trips.begin, end, "right") - 1] if there == end else trips.at[there]


def plan_between(
    trips: Trips, at: int, there: int, goal: np.ndarray, points: int = HORIZON
) -> tuple[np.ndarray, np.ndarray]:
    """The plan from the tick `at` to the tick `there` of a trip: points float32 [H, 2] and symbols int64 [H]."""
    when = at + STRIDE * np.arange(points)
    plan = np.where((when < there)[:, None], trips.at[np.minimum(when, there)], goal).astype(np.float32)
    cells = maze(trips.maze).cells(np.concatenate((trips.at[at : there + 1], goal[None])) * UNIT)
    return plan, moves(cells, points)


def one_hot(name: str) -> np.ndarray:
    """The sense `maze`, float32 [mazes]."""
    return np.eye(len(MAZES), dtype=np.float32)[MAZES.index(name)]


def detour_ticks(trips: Trips, at: int, there: int) -> float:
    """Ticks that the way took beyond those of a straight line: what it teaches about the maze."""
    return there - at - float(np.linalg.norm(trips.at[there] - trips.at[at])) * UNIT / PACE


def _piece(trips: Trips, ticks: int, rng: np.random.Generator, points: int) -> dict[str, np.ndarray]:
    """One row of a batch."""
    row: dict[str, list[Any]] = {
        name: [] for name in ("body", "goal", "maze", "first", "learned", "plan", "symbols", "ahead", "walk")
    }
    maze_code = one_hot(trips.maze)
    while len(row["body"]) < ticks:
        pairs = [stretch(trips, rng) for _ in range(rng.choice(PAIRS))]
        _, end, at, there = max(pairs, key=lambda pair: detour_ticks(trips, *pair[2:]))
        goal = goal_of(trips, end, there)
        length = min(int(rng.choice(PIECES)), there - at, ticks - len(row["body"]))
        for tick in range(at, at + length):
            learned = tick in (at, at + length - 1)
            if learned:
                plan, symbols = plan_between(trips, tick, there, goal, points)
            later = min(tick + int(rng.integers(*AHEAD)), end)
            values = (
                trips.at[tick],
                goal,
                maze_code,
                tick == at,
                learned,
                plan,
                symbols,
                trips.at[later],
                trips.walk[tick : max(tick + 1, min(tick + COMMANDS, end))].mean(0),
            )
            for column, value in zip(row.values(), values, strict=True):
                column.append(value)
    return {name: np.stack(values) for name, values in row.items()}
