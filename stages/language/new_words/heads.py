"""Heads that compare the picture with recalled memories: where a thing is that was shown once, and which memory shows
the thing looked at.

Both learn one comparison, of a memory (as the trunk has it) with the form and the colour that the eye finds in a cell.
The readout selects the memory that is sought, or the cell that is looked at. No class of either head stands for a word,
as in pointer networks (Vinyals, Fortunato and Jaitly, 2015).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Categorical
from devmind.agent.taps import Tapped
from stages.language.eye import COLOUR, FORM, MOST, SIDE, THINGS


class Compared(NamedTuple):
    """The comparison of R memories with 64 cells.

    Attributes:
        fits: scores [..., R, 64]; memories: [..., R, D]; here: which of them exist, bool [..., R].
        things: logits [..., 64] of each cell holding a thing; readout: [..., 1, D].
    """

    fits: Tensor
    memories: Tensor
    here: Tensor
    things: Tensor
    readout: Tensor


class ComparingHead(Head):
    """Taps (the sense of `DetailEncoder`, "trunk:recalled", "trunk"). The eye gets no gradient from it."""

    lighter = ()
    reads_senses = True

    def __init__(self, inlet: Inlet) -> None:
        super().__init__(inlet)
        self.looked = nn.Linear(inlet.width, inlet.map_channels[FORM] + inlet.map_channels[COLOUR])
        self.gain = nn.Parameter(torch.tensor(2.0))

    def codes(self, tapped: Tapped) -> Tensor:
        """Form and colour of each cell, [..., C, 64]."""
        return torch.cat((tapped.maps[FORM], tapped.maps[COLOUR]), -3).flatten(-2).detach()

    def compare(self, tapped: Tapped) -> Compared:
        """How well each memory fits each cell."""
        memories, readout = tapped.tokens[..., MOST:-1, :], tapped.tokens[..., -1:, :]
        codes = self.codes(tapped)
        things = tapped.maps[THINGS].flatten(-3).detach()
        fits = (self.looked(memories) @ codes) * codes.shape[-2] ** -0.5 * self.gain
        return Compared(fits, memories, tapped.present[..., MOST:-1], things, readout)


class SoughtHead(ComparingHead):
    """Which cell holds the thing of the memory that is sought: `Categorical` [..., 64]. Without any memory it is one of
    the cells that hold a thing.
    """

    def __init__(self, inlet: Inlet) -> None:
        super().__init__(inlet)
        self.asks, self.answers = nn.Linear(inlet.width, inlet.width), nn.Linear(inlet.width, inlet.width)

    def forward(self, tapped: Tapped) -> Categorical:
        compared = self.compare(tapped)
        weights = (self.asks(compared.readout) * self.answers(compared.memories)).sum(-1) * self.inlet.width**-0.5
        weights = weights.masked_fill(~compared.here, torch.finfo(weights.dtype).min).softmax(-1) * compared.here
        return Categorical((weights[..., None] * compared.fits).sum(-2) + compared.things)


class RecognisedHead(ComparingHead):
    """Which of R memories shows the thing looked at, or none: `Categorical` [..., R + 1], the last of which is none."""

    def __init__(self, inlet: Inlet) -> None:
        super().__init__(inlet)
        self.looks, self.none = nn.Linear(inlet.width, SIDE**2), nn.Linear(inlet.width, 1)
        # An untaught head looks at the centre, where the gaze is.
        away = torch.arange(SIDE) - (SIDE - 1) / 2
        with torch.no_grad():
            self.looks.bias.copy_(-(away[:, None] ** 2 + away**2).flatten() / 2)

    def forward(self, tapped: Tapped) -> Categorical:
        compared = self.compare(tapped)
        # The thing looked at lies where the central cells meet, so another thing's cell may have a higher logit.
        at = (self.looks(compared.readout)[..., 0, :] + F.logsigmoid(compared.things)).softmax(-1)
        fits = (compared.fits * at[..., None, :]).sum(-1)
        fits = fits.masked_fill(~compared.here, torch.finfo(fits.dtype).min)
        return Categorical(torch.cat((fits, self.none(compared.readout)[..., 0]), -1))
