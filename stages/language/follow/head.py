"""The head `follow`: the instruction is compared with each cell of the view, and scales and shifts its features.

A head on the readout alone does not bind words to things: in GoToLocal it learned to go to things, to any of them
(docs/log.md, 2026-11-24). Here learned questions attend to the trunk's features of the page. Their result is compared
with what is in each cell by dot products, and scales and shifts the features of each cell (Perez et al., 2018, "FiLM";
in these rooms Hui et al., 2020, "BabyAI 1.1"). Without the dot products the same head needs twice the steps.

An action is drawn from the head's probabilities. Who sees a part of the room, and takes the likeliest action each time,
can turn left and right for ever; the best policies without memory are stochastic (Singh, Jaakkola and Jordan, 1994,
"Learning without state-estimation in partially observable Markovian decision processes").
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.encoders import mlp
from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Categorical
from devmind.agent.rows import Carry, Leaf
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


@dataclass
class SampledActions(Categorical):
    """Actions drawn by noise that the view and the tick determine, so equal in a replay and beside any other rows.

    Attributes:
        seen: a number of each view, int64 [...]; tick: of the episode, int64 [...].
    """

    seen: Tensor | None = None
    tick: Tensor | None = None

    def answer(self, generator: torch.Generator | None = None) -> Tensor:
        """The action drawn for this view and tick, or by a generator; `mode` is the likeliest one."""
        if generator is not None:
            return self.sample(generator)
        assert self.seen is not None
        assert self.tick is not None
        classes = torch.arange(self.logits.shape[-1], device=self.logits.device)
        numbers = mix_bits(mix_bits(self.seen + mix_bits(self.tick))[..., None] + classes)
        uniform = (((numbers >> 41) & (2**23 - 1)).float() + 0.5) / 2**23  # exact in float32; MPS has no float64
        return (self.logits - uniform.log().neg().log()).argmax(-1)  # Gumbel's noise draws by the probabilities


def mix_bits(numbers: Tensor) -> Tensor:
    """int64 numbers that look random, the same for the same `numbers` (the last steps of Appleby's MurmurHash3)."""
    for factor in (-0xAE502812AA7333, -0x3B314601E57A13AD):
        numbers = (numbers ^ ((numbers >> 33) & (2**31 - 1))) * factor
    return numbers ^ ((numbers >> 33) & (2**31 - 1))


class FollowHead(Head):
    """One of `classes` actions: `SampledActions` [..., classes].

    Taps (the sense of `ViewEncoder`, "trunk", "trunk:text"): the cells, the readout, which carries what was seen
    before, and the page. A missing page or view counts as zeros. The number of the tick is carried.
    """

    lighter = (("narrow", 0.25), ("hidden", 0.25))
    reads_senses = True

    def __init__(self, inlet: Inlet, classes: int, narrow: int | None = None, hidden: int | None = None) -> None:
        super().__init__(inlet)
        width, narrow = inlet.width, narrow or max(16, inlet.width // 2)
        self.kinds, self.colours, self.states = (nn.Embedding(n, narrow) for n in (OBJECTS, COLOURS, STATES))
        self.places = nn.Parameter(torch.randn(narrow, SIDE, SIDE) * 0.5)
        self.asks = nn.Parameter(torch.randn(QUESTIONS, width))
        self.told = mlp(QUESTIONS * width, hidden or width, width)
        self.seeks, self.found = nn.Linear(width, SOUGHT * narrow), nn.Conv2d(SOUGHT, narrow, 1)
        self.layers = nn.ModuleList(nn.Conv2d(narrow, narrow, size, padding=size // 2) for size in (1, 3, 3))
        self.binds = nn.ModuleList(nn.Linear(width, 2 * narrow) for _ in self.layers)
        self.squeeze = nn.Conv2d(narrow, SQUEEZED, 1)
        self.choose = mlp(SQUEEZED * SIDE**2 + 2 * width, hidden or HIDDEN, classes)
        self.carry_spec = {"tick": Leaf(dtype=torch.int64)}

    def forward(self, tapped: Tapped, carry: Carry) -> tuple[SampledActions, Carry]:
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
        logits = self.choose(torch.cat((decision, instruction, readout[..., 0, :] * here), -1))
        cells = planes.flatten(-3).long()
        seen = (cells * mix_bits(torch.arange(1, cells.shape[-1] + 1, device=cells.device))).sum(-1)
        tick = carry["tick"].reshape(-1, *[1] * (seen.ndim - 1)).expand_as(seen)
        return SampledActions(logits, seen=seen, tick=tick), {"tick": carry["tick"] + seen.shape[1:].numel()}

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
