"""Readings of the 49 cells of a view: by the head that classifies each cell, or by a table without errors.

The agent sees MiniGrid's planes: one plane for each kind of object, colour and state as numbers. The head reads feature
maps of its own, so the class of a cell depends on the few cells around it and not on its place.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from devmind.acting import Senses
from devmind.agent.agent import Agent
from devmind.agent.encoders import BoardEncoder
from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Categorical
from devmind.agent.taps import Tapped
from devmind.algorithms.grid import SIDE, truth

Reading = Callable[[Senses], np.ndarray]
"""The class of each visible cell of N rows, int64 [N, 7, 7]."""


def by_planes(senses: Senses) -> np.ndarray:
    """The reading that never errs."""
    return truth(senses["board"])


def by_head(agent: Agent, head: str) -> Reading:
    """The reading by the agent's head."""

    def read(senses: Senses) -> np.ndarray:
        sense = {"board": torch.from_numpy(np.asarray(senses["board"]))}
        output = agent.evaluate(sense, [head])[head].mode()
        return np.asarray(output.cpu().numpy()).reshape(-1, SIDE, SIDE)

    return read


class LayoutEncoder(BoardEncoder):
    """The view of a room once more, for `CellsHead` alone; the trunk gets the encoder of earlier stages."""

    of = "board"
    enters = False


class CellsHead(Head):
    """Classifies each cell of a map into `classes`: `Categorical` [..., cells, classes].

    Args:
        of: the map's name.
        hidden: width of the hidden layer.
    """

    lighter = (("hidden", 0.5),)
    reads_senses = True

    def __init__(self, inlet: Inlet, classes: int, of: str = "cells", hidden: int = 256) -> None:
        super().__init__(inlet)
        self.of = of
        self.read = nn.Sequential(nn.Linear(inlet.map_channels[of], hidden), nn.ReLU(), nn.Linear(hidden, classes))

    def forward(self, tapped: Tapped) -> Categorical:
        return Categorical(self.read(tapped.maps[self.of].flatten(-2).mT))
