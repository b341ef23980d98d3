"""What a cell of a view can be: free, a wall, a door of a colour and state, a thing of a kind and colour.

The vocabulary of maps that are carried along (`grid_map`), of heads that read views and of plans about things. A view
that is known without an error comes as MiniGrid's planes: kinds one by one, then colour and state as numbers.
"""

from __future__ import annotations

import numpy as np

SIDE = 7
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
UNSEEN, FLOOR, WALL, GOAL, LAVA, DOOR = range(6)
OPEN, CLOSED, LOCKED = range(3)
KINDS = ("key", "ball", "box")
"""Things that can be picked up; doors stand before them, of each colour and state."""
THINGS = DOOR + 3 * len(COLOURS)
"""The first of them."""
CLASSES = THINGS + len(KINDS) * len(COLOURS)
_KIND = {0: UNSEEN, 1: FLOOR, 2: WALL, 3: FLOOR, 8: GOAL, 9: LAVA, 10: FLOOR}
"""MiniGrid's numbers of what has neither colour nor state that matters."""


def door(colour: int, state: int) -> int:
    """The class of a door."""
    return DOOR + 3 * colour + state


def thing(kind: str, colour: int) -> int:
    """The class of a key, ball or box."""
    return THINGS + KINDS.index(kind) * len(COLOURS) + colour


def is_door(cells: np.ndarray, state: int | None = None) -> np.ndarray:
    """Which cells are doors, in this state if one is given, bool [...]."""
    doors = (cells >= DOOR) & (cells < THINGS)
    return np.asarray(doors if state is None else doors & ((cells - DOOR) % 3 == state))


def described(one: int) -> str:
    """A class in words: "locked red door"."""
    if one < DOOR:
        return ("unseen", "floor", "wall", "goal", "lava")[one]
    if one < THINGS:
        colour, state = divmod(one - DOOR, 3)
        return f"{('open', 'closed', 'locked')[state]} {COLOURS[colour]} door"
    kind, colour = divmod(one - THINGS, len(COLOURS))
    return f"{COLOURS[colour]} {KINDS[kind]}"


_OBJECTS = 11
"""Planes of kinds, from unseen to agent; colour and state come behind them."""


def _table() -> np.ndarray:
    found = np.zeros((_OBJECTS, len(COLOURS), 3), np.int64)
    for number, plain in _KIND.items():
        found[number] = plain
    for colour in range(len(COLOURS)):
        found[4, colour] = [door(colour, state) for state in range(3)]
        for number, kind in zip((5, 6, 7), KINDS, strict=True):
            found[number, colour] = thing(kind, colour)
    return found


_OF = _table()


def truth(board: np.ndarray) -> np.ndarray:
    """What stands in each cell, int64 [..., 7, 7], of planes int8 [..., 13, 7, 7] (`devmind.worlds.minigrid`)."""
    planes = np.asarray(board)
    kind = planes[..., :_OBJECTS, :, :].argmax(-3)
    return np.asarray(_OF[kind, planes[..., _OBJECTS, :, :], planes[..., _OBJECTS + 1, :, :]])
