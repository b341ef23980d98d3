"""Classes of a cell in a view: free, a wall, a door of a colour and state, a thing of a kind and colour.

Maps that an agent carries along (`grid_map`), heads that read views, and plans about things use this vocabulary. A view
without errors comes as MiniGrid's planes: one plane for each kind of object, then colour and state as numbers.
"""

from __future__ import annotations

import numpy as np

SIDE = 7
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
UNSEEN, FLOOR, WALL, GOAL, LAVA, DOOR = range(6)
OPEN, CLOSED, LOCKED = range(3)
KINDS = ("key", "ball", "box")
"""Things that can be picked up. Their classes follow those of doors, which have one for each colour and state."""
THINGS = DOOR + 3 * len(COLOURS)
"""The class of the first thing."""
CLASSES = THINGS + len(KINDS) * len(COLOURS)
_KIND = {0: UNSEEN, 1: FLOOR, 2: WALL, 3: FLOOR, 8: GOAL, 9: LAVA, 10: FLOOR}
"""The classes of MiniGrid's object numbers whose colour and state do not matter."""


def door(colour: int, state: int) -> int:
    """The class of a door."""
    return DOOR + 3 * colour + state


def thing(kind: str, colour: int) -> int:
    """The class of a key, ball or box."""
    return THINGS + KINDS.index(kind) * len(COLOURS) + colour


def is_door(cells: np.ndarray, state: int | None = None) -> np.ndarray:
    """Which cells are doors (of this state, if one is given), bool [...]."""
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
"""Planes for kinds, from unseen to agent; colour and state come after them."""


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
    """The class of each cell, int64 [..., 7, 7], from planes int8 [..., 13, 7, 7] (`devmind.worlds.minigrid`)."""
    planes = np.asarray(board)
    kind = planes[..., :_OBJECTS, :, :].argmax(-3)
    return np.asarray(_OF[kind, planes[..., _OBJECTS, :, :], planes[..., _OBJECTS + 1, :, :]])
