"""The head that says a word that is read: all of its codes at once, from the trunk's features of the page."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Output, masked_mean
from devmind.agent.taps import Tapped
from stages.voice.codec import SIZE, TOKENS, codes_of, quantise

MOMENTS = 10
"""Moments of a word, 1.0 s; the rest of them is silence."""
MANNER = 2
"""Numbers of a manner: pace and pitch, -1 to 1 each."""
BYTES = 16
"""Tokens of a page with a place of their own; later ones share the last place."""
HEADS = 4


@dataclass
class Said(Output):
    """Words to be said by the head `by`, from tokens [..., K, D] of pages, of which those `here` [..., K] are present.

    An answer is codes int64 [..., 10, 4, 2], a row for each of the next Moments.
    """

    by: SayHead
    tokens: Tensor
    here: Tensor
    horizon: int = MOMENTS

    def levels(self, manner: Tensor) -> Tensor:
        """Whole levels [..., 10, 4, 10] of the words said in a manner [..., 2]."""
        return self.by.levels_of(self.tokens, self.here, manner)

    def mode(self) -> Tensor:
        """Codes in the middle manner."""
        return codes_of(self.levels(self.tokens.new_zeros(*self.tokens.shape[:-2], MANNER)))

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Codes in a random manner."""
        drawn = torch.rand(*self.tokens.shape[:-2], MANNER, generator=generator, device=self.tokens.device)
        return codes_of(self.levels(2 * drawn - 1))

    def fires(self) -> Tensor:
        """Where there is a page."""
        return self.here[..., :-1].any(-1)

    def loss(self, target: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Mean distance of the middle manner's levels from `target` [..., 10, 4, 10]."""
        return masked_mean((self.levels(self.tokens.new_zeros(*target.shape[:-3], MANNER)) - target).abs(), mask)


class SayHead(Head):
    """Taps ("trunk:text", "trunk"): for each 25 ms it attends to the page (Vaswani et al. 2017) and gets the page's
    readout; convolutions over time turn both into levels.

    It predicts all Moments of a word at once and not code after code, because one voice says a word in a manner always
    alike (as in Ren et al. 2019, "FastSpeech").
    """

    generates, reads_senses = True, True
    lighter = (("hidden", 0.5),)

    def __init__(self, inlet: Inlet, hidden: int | None = None) -> None:
        super().__init__(inlet)
        width, hidden = inlet.width, hidden or max(32, inlet.width)
        self.keys, self.page = nn.Linear(width, hidden), nn.Linear(width, hidden)
        self.places = nn.Parameter(0.5 * torch.randn(BYTES, hidden))
        self.times = nn.Parameter(0.5 * torch.randn(MOMENTS * TOKENS, hidden))
        self.manner = nn.Linear(MANNER, hidden)
        self.asks, self.shows = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.net = nn.Sequential(
            nn.Conv1d(3 * hidden, hidden, 3, padding=1), nn.GELU(),
            nn.Conv1d(hidden, hidden, 3, padding=1), nn.GELU(),
            nn.Conv1d(hidden, SIZE, 1),
        )  # fmt: skip

    def forward(self, tapped: Tapped) -> Said:
        return Said(self, tapped.tokens, tapped.present)

    def levels_of(self, tokens: Tensor, here: Tensor, manner: Tensor) -> Tensor:
        """Whole levels [..., 10, 4, 10] of pages' tokens [..., K, D], the readout last, said in a manner [..., 2]."""
        lead = tokens.shape[:-2]
        tokens, here = tokens.flatten(0, -3) if lead else tokens[None], here.flatten(0, -2) if lead else here[None]
        page = self.page(tokens[:, -1]) + self.manner(manner.reshape(-1, MANNER))
        place = torch.arange(tokens.shape[1] - 1, device=tokens.device).clamp_max(BYTES - 1)
        keys = self.keys(tokens[:, :-1]) + self.places[place]
        times = self.times + page[:, None]
        # A row without a page says nothing (`fires`), but must not give NaN.
        read = here[:, :-1] | ~here[:, :-1].any(-1, keepdim=True)
        split = lambda x: x.unflatten(-1, (HEADS, -1)).transpose(1, 2)  # noqa: E731
        seen = F.scaled_dot_product_attention(
            split(self.asks(times)), split(keys), split(self.shows(keys)), read[:, None, None]
        )
        seen = seen.transpose(1, 2).flatten(-2)
        free = self.net(torch.cat((times, seen, page[:, None].expand_as(seen)), -1).mT).mT
        return quantise(free).unflatten(1, (MOMENTS, TOKENS)).unflatten(0, lead)
