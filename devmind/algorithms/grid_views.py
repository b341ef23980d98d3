"""What somebody on a grid sees who looks one way: a square of cells before them, less what stands in shadow.

The viewer stands in the middle of the lowest row and looks up the rows, as in MiniGrid, whose rule of shadows this is
(Chevalier-Boisvert et al. 2023): light goes from the viewer up and to the sides, from cell to cell, through all that is
not opaque. So it says which cells a view from elsewhere would show, unknown ones being taken for clear: what looking
from there is worth (next best view: Connolly 1985; frontiers: Yamauchi 1997).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from devmind.algorithms.grid_paths import STEPS


@lru_cache
def offsets(side: int) -> np.ndarray:
    """Where a view's cells are, seen from its viewer, by heading: int64 [4, 2, side, side] of rows and columns."""
    forward = side - 1 - np.arange(side)[:, None]
    aside = np.arange(side)[None, :] - side // 2
    found = []
    for heading, (down, along) in enumerate(STEPS):
        right = STEPS[(heading + 1) % 4]
        found.append((forward * down + aside * right[0], forward * along + aside * right[1]))
    return np.array(found)


def places(poses: np.ndarray, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns [P, side, side] of what is before poses int64 [P, 3]; they may lie off the grid."""
    of = offsets(side)[poses[:, 2]]
    return of[:, 0] + poses[:, 0, None, None], of[:, 1] + poses[:, 1, None, None]


def looked_at(grid: np.ndarray, poses: np.ndarray, side: int, beyond: int | bool = 0) -> np.ndarray:
    """The cells [P, side, side] of a grid [H, W] before poses int64 [P, 3]; `beyond` where there is no grid."""
    padded = np.pad(grid, side, constant_values=beyond)
    rows, columns = places(poses, side)
    return np.asarray(padded[rows + side, columns + side])


def lit(clear: np.ndarray) -> np.ndarray:
    """How likely each cell of views is seen, float [P, side, side].

    By the likeliest way that light takes; the viewer's own cell is clear: who stands in a door has opened it.

    Args:
        clear: float [P, side, side], how likely light goes on from each cell, 0 or 1 where it is known.
    """
    side = clear.shape[-1]
    seen, clear = np.zeros(clear.shape, np.float32), clear.astype(np.float32)
    seen[:, -1, side // 2] = clear[:, -1, side // 2] = 1.0
    for row in range(side - 1, -1, -1):
        for columns, step in ((range(side - 1), 1), (range(side - 1, 0, -1), -1)):
            for column in columns:
                through = seen[:, row, column] * clear[:, row, column]
                for up, aside in ((0, step), (1, step), (1, 0)):
                    if up <= row:
                        at = seen[:, row - up, column + aside]
                        np.maximum(at, through, out=at)
    return seen


def news(unknown: np.ndarray, clear: np.ndarray, poses: np.ndarray, side: int) -> np.ndarray:
    """How many unknown cells each view is likely to show, float [P].

    Args:
        unknown: bool [H, W]; clear: float [H, W], how likely light goes on from a cell; poses: int64 [P, 3].
    """
    seen = lit(looked_at(clear, poses, side, beyond=0))
    return np.asarray((seen * looked_at(unknown, poses, side, beyond=False)).sum((1, 2)))
