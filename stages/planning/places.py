"""Places in mazes, in the senses' units: the cells that they are in, and the numbers that networks read of them."""

from __future__ import annotations

import torch
from torch import Tensor

from devmind.worlds.pointmaze import CELL, MAZES, PACE, UNIT

CELL_SIDE = CELL / UNIT
"""Side of a cell."""
WALKED = PACE / UNIT
"""Distance walked in a tick."""
CELLS = 16
"""Cells along each axis of the largest maze."""
MIDDLE, SPREAD = 1.5, 1.0
"""Networks read places shifted by the first and divided by the second."""


def scale_places(places: Tensor) -> Tensor:
    """Places as numbers of networks."""
    return (places - MIDDLE) / SPREAD


def unscale_places(numbers: Tensor) -> Tensor:
    """The inverse of `scale_places`."""
    return numbers * SPREAD + MIDDLE


def square(place: Tensor) -> Tensor:
    """The number, within its maze, of the cell that places [..., 2] are in, int64 [...]."""
    across, down = ((place / CELL_SIDE).round().long() + 1).clamp(0, CELLS - 1).unbind(-1)
    return down * CELLS + across


def number_places(place: Tensor, maze: Tensor) -> Tensor:
    """The same among the cells of all mazes; `maze` [..., mazes or more] is one-hot."""
    return maze[..., : len(MAZES)].argmax(-1) * CELLS**2 + square(place)


def middles(device: torch.device) -> Tensor:
    """The middles of all cells of a maze, [CELLS^2, 2]."""
    number = torch.arange(CELLS**2, device=device)
    return (torch.stack((number % CELLS, number // CELLS), -1) - 1) * CELL_SIDE
