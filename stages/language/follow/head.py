"""The head `follow`: the instruction is compared with each cell of the view, and scales and shifts its features.

A head on the readout alone does not bind words to things: in GoToLocal it learned to go to things, to any of them
(docs/log.md, 2026-11-24). Here learned questions attend to the trunk's features of the page. Their result is compared
with what is in each cell by dot products, and scales and shifts the features of each cell (Perez et al., 2018, "FiLM";
in these rooms Hui et al., 2020, "BabyAI 1.1"). Without the dot products the same head needs twice the steps.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.encoders import mlp
from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Categorical
from devmind.agent.taps import Tapped
from devmind.errors import MomentError
from devmind.worlds.minigrid import OBJECTS, PLANES
from stages.language.eye import CELLS, VIEW_TOKENS

SIDE = 7
"""Cells a side of MiniGrid's view."""
QUESTIONS, SOUGHT = 8, 8
"""Questions that attend to a page's tokens; and vectors that are compared with the cells, such as a kind."""
COLOURS, STATES = 6, 3
SQUEEZED, HIDDEN = 16, 256
"""Features of a cell that the action is computed from, and the width of the layer that computes it."""


class FollowHead(Head):
    """One of `classes` actions: `Categorical` [..., classes].

    Taps (the sense of `ViewEncoder`, "trunk", "trunk:text"): the cells, the readout, which carries what was seen
    before, and the page. A missing page or view counts as zeros.
    """

    def __init__(self, inlet: Inlet, classes: int) -> None:
        super().__init__(inlet)
        width, narrow = inlet.width, max(16, inlet.width // 2)
        self.kinds, self.colours, self.states = (nn.Embedding(n, narrow) for n in (OBJECTS, COLOURS, STATES))
        self.places = nn.Parameter(torch.randn(narrow, SIDE, SIDE) * 0.5)
        self.asks = nn.Parameter(torch.randn(QUESTIONS, width))
        self.told = mlp(QUESTIONS * width, width, width)
        self.seeks, self.found = nn.Linear(width, SOUGHT * narrow), nn.Conv2d(SOUGHT, narrow, 1)
        self.layers = nn.ModuleList(nn.Conv2d(narrow, narrow, size, padding=size // 2) for size in (1, 3, 3))
        self.binds = nn.ModuleList(nn.Linear(width, 2 * narrow) for _ in self.layers)
        self.squeeze = nn.Conv2d(narrow, SQUEEZED, 1)
        self.choose = mlp(SQUEEZED * SIDE**2 + 2 * width, HIDDEN, classes)

    def forward(self, tapped: Tapped) -> Categorical:
        (_, readout, page), (_, here, present) = (
            x.tensor_split((VIEW_TOKENS, VIEW_TOKENS + 1), at) for x, at in ((tapped.tokens, -2), (tapped.present, -1))
        )
        instruction = self.told(self.heard(page, present))
        planes = tapped.maps.get(CELLS)
        if planes is None:  # no row has a view
            planes = page.new_zeros(*instruction.shape[:-1], PLANES, SIDE, SIDE)
        flat, what = instruction.flatten(0, -2), self.cells(planes.flatten(0, -4))
        sought = self.seeks(flat).unflatten(-1, (SOUGHT, -1)) * what.shape[1] ** -0.5
        fits = (sought @ what.flatten(2)).unflatten(-1, (SIDE, SIDE))
        seen = what + self.places + self.found(F.relu(fits))
        for layer, binds in zip(self.layers, self.binds, strict=True):
            scale, shift = binds(flat)[..., None, None].chunk(2, 1)
            seen = seen + F.relu(layer(seen) * (1 + scale) + shift)
        decision = F.relu(self.squeeze(seen)).flatten(1).unflatten(0, instruction.shape[:-1])
        return Categorical(self.choose(torch.cat((decision, instruction, readout[..., 0, :] * here), -1)))

    def heard(self, page: Tensor, present: Tensor) -> Tensor:
        """What the questions find in features [..., K, D] of a page, present bool [..., K]: [..., QUESTIONS x D]."""
        fits = (self.asks @ page.mT) * self.inlet.width**-0.5
        here = present[..., None, :]
        attention = fits.masked_fill(~here, torch.finfo(fits.dtype).min).softmax(-1) * here
        return (attention @ page).flatten(-2)

    def cells(self, planes: Tensor) -> Tensor:
        """Embeds planes [N, 13 or more, 7, 7] of `devmind.worlds.minigrid.planes` as [N, C, 7, 7]: what is in each
        cell, without its place.

        Raises:
            MomentError: the view is of another size.
        """
        if planes.shape[-2:] != (SIDE, SIDE) or planes.shape[-3] < PLANES:
            raise MomentError(
                f"An instruction is followed by MiniGrid's view, {PLANES} planes of {SIDE}x{SIDE}; got "
                f"{planes.shape[-3]} of {planes.shape[-2]}x{planes.shape[-1]}."
            )
        kind, (colour, state) = planes[:, :OBJECTS].argmax(1), planes[:, OBJECTS:PLANES].long().unbind(1)
        numbers = (
            self.kinds(kind) + self.colours(colour.clamp(0, COLOURS - 1)) + self.states(state.clamp(0, STATES - 1))
        )
        return numbers.movedim(-1, 1)
