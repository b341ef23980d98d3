"""What a cell of a view can be, and the head that tells each of the 49 of them apart.

What is seen reaches the agent as MiniGrid's planes, kinds one by one and colour and state as numbers. The head reads
the board's own map of features, so what it says of a cell hangs on the few cells around it and not on where it is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from devmind.acting import Senses
from devmind.agent.agent import Agent
from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Categorical
from devmind.agent.taps import Tapped
from devmind.worlds.minigrid import OBJECTS

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


def _table() -> np.ndarray:
    found = np.zeros((OBJECTS, len(COLOURS), 3), np.int64)
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
    kind = planes[..., :OBJECTS, :, :].argmax(-3)
    return np.asarray(_OF[kind, planes[..., OBJECTS, :, :], planes[..., OBJECTS + 1, :, :]])


Reading = Callable[[Senses], np.ndarray]
"""What stands in each cell of what N rows see, int64 [N, 7, 7]."""


def by_planes(senses: Senses) -> np.ndarray:
    """The reading that is never wrong."""
    return truth(senses["board"])


def by_head(agent: Agent, head: str) -> Reading:
    """What the agent's head says."""

    def read(senses: Senses) -> np.ndarray:
        seen = {"board": torch.from_numpy(np.asarray(senses["board"]))}
        said = agent.evaluate(seen, [head])[head].mode()
        return np.asarray(said.cpu().numpy()).reshape(-1, SIDE, SIDE)

    return read


class CellsHead(Head):
    """One of `classes` for each cell of a map: `Categorical` [..., cells, classes].

    Args:
        of: the map's name; hidden: width of the layer between.
    """

    def __init__(self, inlet: Inlet, classes: int, of: str = "cells", hidden: int = 256) -> None:
        super().__init__(inlet)
        self.of = of
        self.read = nn.Sequential(nn.Linear(inlet.map_channels[of], hidden), nn.ReLU(), nn.Linear(hidden, classes))

    def forward(self, tapped: Tapped) -> Categorical:
        return Categorical(self.read(tapped.maps[self.of].flatten(-2).mT))
