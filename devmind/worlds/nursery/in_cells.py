"""Things in cells of a child's view, near enough to recognise their kinds.

Things that a caregiver names are near and fill much of the child's view (Yu and Smith, 2012, Cognition 125). At the
sizes and distances of the nursery's other levels many things are four to eight pixels wide.
"""

from __future__ import annotations

import numpy as np

from devmind.worlds.nursery.chance import uniform
from devmind.worlds.nursery.spawning import in_view, put_object, settle
from devmind.worlds.nursery.state import NurseryState

COLUMNS, HEIGHTS = 3, 2
CELLS = COLUMNS * HEIGHTS
"""Cells for things: left, middle and right, each above or below; cell c is in column c // 2."""
ASIDE_DEG, ABOVE_DEG, ASTRAY_DEG = 19.0, 9.0, 2.0
RADII_M, DISTANCES_M = (0.13, 0.2), (1.5, 1.8)
"""Things are some ten to fifteen pixels wide."""


def put_in_cells(
    state: NurseryState, seeds: np.ndarray, colours: np.ndarray, shapes: np.ndarray, cells: np.ndarray
) -> NurseryState:
    """The rooms of `seeds` int64 [N] with exactly these things in view; nothing is rendered yet.

    Args:
        colours, shapes: int64 [N, K], each thing's, in COLOUR_NAMES and SHAPES.
        cells: int64 [N, K], the cell of each, -1 for an absent one.
    """
    many = cells.shape[1]
    state.present[:] = False
    state.colour[:, :many], state.shape[:, :many] = colours, shapes
    state.size[:, :many] = uniform(seeds, "radius shown", *RADII_M, (many,))
    left = ASIDE_DEG * (1 - cells // HEIGHTS) + uniform(seeds, "aside", -ASTRAY_DEG, ASTRAY_DEG, (many,))
    up = ABOVE_DEG * (1 - 2 * (cells % HEIGHTS)) + uniform(seeds, "above", -ASTRAY_DEG, ASTRAY_DEG, (many,))
    far = uniform(seeds, "distance shown", *DISTANCES_M, (many,))
    for thing in range(many):
        put_object(state, thing, in_view(state, left[:, thing], up[:, thing], far[:, thing]), cells[:, thing] >= 0)
    return settle(state)
