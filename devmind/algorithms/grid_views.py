"""Views on a grid with four headings: a square of cells in front of the viewer, minus the cells in shadow.

The viewer stands in the middle of the lowest row and looks up the rows, as in MiniGrid (Chevalier-Boisvert et al.
2023), whose shadow rule this is. Light goes from the viewer up and to the sides, from cell to cell, through all that is
not opaque. With unknown cells taken as clear, this predicts what a view from elsewhere would show, and so the worth of
looking from there (next best view: Connolly 1985; frontiers: Yamauchi 1997).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from devmind.algorithms.grid_paths import STEPS


@lru_cache
def offsets(side: int) -> np.ndarray:
    """Offsets of a view's cells from its viewer, by heading: int64 [4, 2, side, side] of rows and columns."""
    forward = side - 1 - np.arange(side)[:, None]
    aside = np.arange(side)[None, :] - side // 2
    found = []
    for heading, (down, along) in enumerate(STEPS):
        right = STEPS[(heading + 1) % 4]
        found.append((forward * down + aside * right[0], forward * along + aside * right[1]))
    return np.array(found)


def places(poses: np.ndarray, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns [P, side, side] of the cells in front of poses int64 [P, 3]; they may lie off the grid."""
    of = offsets(side)[poses[:, 2]]
    return of[:, 0] + poses[:, 0, None, None], of[:, 1] + poses[:, 1, None, None]


def looked_at(grid: np.ndarray, poses: np.ndarray, side: int, beyond: int | bool = 0) -> np.ndarray:
    """The cells [P, side, side] of a grid [H, W] in front of poses int64 [P, 3]; `beyond` off the grid."""
    padded = np.pad(grid, side, constant_values=beyond)
    rows, columns = places(poses, side)
    return np.asarray(padded[rows + side, columns + side])


def lit(clear: np.ndarray) -> np.ndarray:
    """Probability that each cell of a view is seen, float [P, side, side], by the likeliest path of the light.

    The viewer's own cell counts as clear: a viewer in a door has opened it.

    Args:
        clear: float [P, side, side], the probability that light passes each cell; 0 or 1 for known cells.
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
    """Expected number of unknown cells that each view shows, float [P].

    Args:
        unknown: bool [H, W].
        clear: float [H, W], the probability that light passes a cell.
        poses: int64 [P, 3].
    """
    seen = lit(looked_at(clear, poses, side, beyond=0))
    return np.asarray((seen * looked_at(unknown, poses, side, beyond=False)).sum((1, 2)))
