"""Who reads what stands in the 49 cells of a view: the head that tells each of them apart, or a table without errors.

What is seen reaches the agent as MiniGrid's planes, kinds one by one and colour and state as numbers. The head reads
a map of features of its own, so what it says of a cell hangs on the few cells around it and not on where it is.
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
from devmind.agent.symbols import BoardEncoder
from devmind.agent.taps import Tapped
from devmind.algorithms.grid_cells import SIDE, truth

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


class LayoutEncoder(BoardEncoder):
    """What is seen of a room once more, for the head below; the trunk has what earlier stages make of it."""

    of = "board"
    enters = False


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
