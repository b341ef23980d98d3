"""The length of the shortest way through a maze, for SPL; for exams only."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.sparse.csgraph import dijkstra

from devmind.worlds.pointmaze import CELL, RADIUS, Maze, maze

STEP = 0.1
"""Distance between two checked points of a line, in OGBench's units."""


def shortest(name: str, start: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """The length [N] of the shortest way for a point of OGBench's radius from `start` to `goal` [N, 2].

    Shortest ways turn at the corners of walls only, so they are found in the graph of corners that see each other
    (Lozano-Pérez, Wesley 1979). The point is taken for a square, which has to swing out a little further than a round
    one, so lengths are too long by up to 0.3 units at each corner.
    """
    ends = zip(np.asarray(start, float).tolist(), np.asarray(goal, float).tolist(), strict=True)
    return np.array([_length(name, tuple(begin), tuple(end)) for begin, end in ends], float)


@lru_cache(maxsize=1024)
def _length(name: str, begin: tuple[float, float], end: tuple[float, float]) -> float:
    """The length of one way; each policy of an exam walks the same ones."""
    where, start, goal = maze(name), np.array(begin), np.array(end)
    corners, apart = _corners(name)
    if _seen(where, start[None], goal[None])[0]:
        return float(np.linalg.norm(goal - start))
    n = len(corners)
    graph = np.zeros((n + 2, n + 2))
    graph[:n, :n] = apart
    for place, point in ((n, start), (n + 1, goal)):
        sees = _seen(where, np.broadcast_to(point, corners.shape), corners)
        graph[place, :n] = graph[:n, place] = np.where(sees, np.linalg.norm(corners - point, axis=1), 0.0)
    return float(dijkstra(graph, indices=n)[n + 1])


@lru_cache(maxsize=4)
def _corners(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Places [n, 2] at which a way may turn, and the distances [n, n] between those that see each other, else 0."""
    where, convex = maze(name), []
    for row, column in np.argwhere(where.walls):
        middle = where.centres(np.array([row, column]))
        for x in (-1, 1):
            for y in (-1, 1):
                corner = middle + (CELL / 2 + RADIUS) * np.array([x, y])
                # A corner that sticks out: both cells beside it and the diagonal one are free.
                beside = middle + CELL * np.array([(x, 0), (0, y), (x, y)])
                if where.inside(beside).all():
                    convex.append(corner)
    corners = np.array(convex)
    one, other = (grid.ravel() for grid in np.meshgrid(np.arange(len(corners)), np.arange(len(corners))))
    sees = _seen(where, corners[one], corners[other]).reshape(len(corners), -1)
    distance = np.linalg.norm(corners[:, None] - corners[None], axis=-1)
    return corners, np.where(sees, distance, 0.0)


def _seen(where: Maze, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Whether a square of the point's size can go straight from `begin` to `end` [N, 2], bool [N]."""
    n = max(2, int(np.linalg.norm(end - begin, axis=1).max() / STEP) + 1)
    points = begin[:, None] + np.linspace(0, 1, n)[None, :, None] * (end - begin)[:, None]
    size = np.array([(-1, -1), (-1, 1), (1, -1), (1, 1)]) * (RADIUS - 1e-6)
    free = where.inside(points[:, :, None] + size).all(2)
    # Ends may lie nearer to a wall than the point's radius; only the way between them counts.
    near = (np.linalg.norm(points - begin[:, None], axis=-1) < RADIUS) | (
        np.linalg.norm(points - end[:, None], axis=-1) < RADIUS
    )
    return np.asarray((free | (near & where.inside(points))).all(1))
