"""A map as lines of text."""

from __future__ import annotations

import numpy as np

from devmind.algorithms.grid import CLASSES, DOOR, FLOOR, GOAL, LAVA, THINGS, UNSEEN, WALL, Map

HEADINGS = ">v<^"


def _sign(one: int) -> str:
    if one < DOOR:
        return {UNSEEN: " ", FLOOR: ".", WALL: "#", GOAL: "G", LAVA: "~"}[one]
    return "/+L"[(one - DOOR) % 3] if one < THINGS else "kob"[(one - THINGS) // 6]


SIGNS = [_sign(one) for one in range(CLASSES)]
LEGEND = "# wall  . floor  G goal  ~ lava  / + L door open, closed, locked  k key  o ball  b box  > v < ^ the agent"


def draw_map(map: Map) -> list[str]:
    """The known part of the map, a line for each row; the agent's sign shows its heading."""
    known = np.argwhere(map.cells != UNSEEN)
    (top, left), (bottom, right) = known.min(0), known.max(0)
    lines = [[SIGNS[one] for one in row] for row in map.cells[top : bottom + 1, left : right + 1].tolist()]
    row, column, heading = map.pose
    lines[row - top][column - left] = HEADINGS[heading]
    return ["".join(line).rstrip() for line in lines]
