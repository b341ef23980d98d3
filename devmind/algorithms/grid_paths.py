"""Shortest paths of an agent on a grid with four headings: A* to given poses, Dijkstra to all.

A turn costs 1. A step costs at least 1, as the entered cell says; a cell of cost 0 cannot be entered.

    A*        Hart, Nilsson and Raphael 1968, IEEE Trans. SSC 4
    Dijkstra  1959, Numer. Math. 1; with buckets (Dial 1969, CACM 12), because costs are small integers
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

Pose = tuple[int, int, int]
"""Row, column and heading: 0 along the columns, 1 down the rows, 2 and 3 the reverse of these; heading + 1 is a turn to
the right.
"""
Cell = tuple[int, int]
STEPS = ((0, 1), (1, 0), (0, -1), (-1, 0))
"""Change of row and column in a step, by heading."""
LEFT, RIGHT, FORWARD = range(3)
"""Moves."""


def ahead(pose: Pose) -> Cell:
    """The cell in front of a pose."""
    row, column, heading = pose
    return row + STEPS[heading][0], column + STEPS[heading][1]


def moved(pose: Pose, move: int) -> Pose:
    """The pose after a move, if every cell were free."""
    if move == FORWARD:
        return (*ahead(pose), pose[2])
    return (pose[0], pose[1], (pose[2] + (1 if move == RIGHT else -1)) % 4)


def on(cell: Cell) -> list[Pose]:
    """The four poses on a cell."""
    return [(*cell, heading) for heading in range(4)]


def before(cell: Cell) -> list[Pose]:
    """The four poses that look at a cell from a neighbouring one."""
    return [(cell[0] - step[0], cell[1] - step[1], heading) for heading, step in enumerate(STEPS)]


def _check(cost: np.ndarray, start: Pose) -> None:
    if cost.ndim != 2 or not (0 <= start[0] < cost.shape[0] and 0 <= start[1] < cost.shape[1]):
        raise ValueError(f"Expected costs [H, W] and a start on them; got {cost.shape} and {start}.")


def shortest(cost: np.ndarray, start: Pose, goals: Iterable[Pose]) -> list[int] | None:
    """The moves of a cheapest path to the nearest of some poses; None if none can be reached.

    Args:
        cost: int [H, W], 0 for cells that cannot be entered; cells outside cannot be entered. The start's own cost does
            not matter.

    Raises:
        ValueError: the costs are no grid, or the start is not on it.
    """
    _check(cost, start)
    height, width = cost.shape
    prices = cost.tolist()
    wanted = {goal for goal in goals if goal == start or _open(prices, goal[0], goal[1], height, width)}
    if not wanted:
        return None
    # No pose is nearer than the box around them all, so the heuristic never overestimates and is consistent.
    top, bottom = min(goal[0] for goal in wanted), max(goal[0] for goal in wanted)
    left, right = min(goal[1] for goal in wanted), max(goal[1] for goal in wanted)

    def least(row: int, column: int) -> int:
        return max(0, top - row, row - bottom) + max(0, left - column, column - right)

    paid, came = {start: 0}, dict[Pose, tuple[Pose, int]]()
    waiting: list[tuple[int, int, Pose]] = [(least(start[0], start[1]), 0, start)]
    while waiting:
        _, spent, here = heappop(waiting)
        if here in wanted:
            return _back(came, start, here)
        if spent > paid[here]:
            continue
        for move in (LEFT, RIGHT, FORWARD):
            there, price = moved(here, move), 1
            if move == FORWARD:
                if not _open(prices, there[0], there[1], height, width):
                    continue
                price = prices[there[0]][there[1]]
            if spent + price < paid.get(there, 1 << 30):
                paid[there], came[there] = spent + price, (here, move)
                heappush(waiting, (spent + price + least(there[0], there[1]), spent + price, there))
    return None


def _open(prices: list[list[int]], row: int, column: int, height: int, width: int) -> bool:
    return 0 <= row < height and 0 <= column < width and prices[row][column] > 0


def _back(came: dict[Pose, tuple[Pose, int]], start: Pose, end: Pose) -> list[int]:
    moves = []
    while end != start:
        end, move = came[end]
        moves.append(move)
    return moves[::-1]


@dataclass(frozen=True)
class Ways:
    """All poses that can be reached from a start.

    Attributes:
        poses: int64 [P, 3], rows of row, column, heading; the nearest first, so the start is the first.
        costs: int64 [P], of the cheapest path to each.
    """

    poses: np.ndarray
    costs: np.ndarray
    _codes: list[int]
    _came: list[int]

    def to(self, which: int) -> list[int]:
        """The moves of a cheapest path to one of the poses."""
        moves, here = [], self._codes[which]
        while (step := self._came[here]) >= 0:
            here, move = divmod(step, 3)
            moves.append(move)
        return moves[::-1]


def ways(cost: np.ndarray, start: Pose) -> Ways:
    """The cheapest paths to every pose that can be reached; arguments and errors as in `shortest`."""
    _check(cost, start)
    # A border that cannot be entered replaces the check whether a cell is on the grid.
    padded = np.pad(cost, 1)
    width = padded.shape[1]
    prices = padded.ravel().tolist()
    shift = [row * width + column for row, column in STEPS]
    begin = ((start[0] + 1) * width + start[1] + 1) * 4 + start[2]
    paid, came = [-1] * (4 * len(prices)), [-1] * (4 * len(prices))
    paid[begin] = 0
    found: list[int] = []
    buckets: dict[int, list[int]] = {0: [begin]}
    spent = 0
    while buckets:
        for here in buckets.pop(spent, ()):
            if paid[here] != spent:
                continue
            found.append(here)
            cell, heading = here >> 2, here & 3
            turned = cell << 2
            into = cell + shift[heading]
            for move, there, price in (
                (LEFT, turned | (heading - 1) & 3, 1),
                (RIGHT, turned | (heading + 1) & 3, 1),
                (FORWARD, into << 2 | heading, prices[into]),
            ):
                if price and not 0 <= paid[there] <= spent + price:
                    paid[there], came[there] = spent + price, here * 3 + move
                    buckets.setdefault(spent + price, []).append(there)
        spent += 1
    codes = np.array(found)
    rows, columns = np.divmod(codes >> 2, width)
    poses = np.stack((rows - 1, columns - 1, codes & 3), 1)
    return Ways(poses, np.array([paid[code] for code in found]), found, came)
