"""The codec's codes as tokens of the trunk, and the head that predicts the next one.

A sound is a page of codes, as a text is a page of bytes: one token for each 25 ms, which sees those before it. So a
sound is continued as a text is written, code after code with the trunk's cache (Borsos et al. 2023, "AudioLM", arXiv
2209.03143).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.encoders import Encoded, Encoder, mlp
from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Output, masked_mean
from devmind.agent.taps import Tapped
from devmind.errors import MomentError
from stages.voice.codec import GROUPS, LEVELS, SIZE, codes_of, halves, levels_of

MOST = 512
"""Tokens of a page: 12.8 s."""
WIDEST = max(LEVELS)


class CodesEncoder(Encoder):
    """A page of codes int64 [L, 2], -1 behind its end: one token for each, its levels through a small network."""

    streams = True
    sense_dims: int = 2

    def __init__(self, width: int) -> None:
        super().__init__(width, n_tokens=MOST)
        self.net = mlp(SIZE, 2 * width, width)

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        here = x[..., 0] >= 0
        if x.shape[1] > MOST:
            raise MomentError(
                f"A page of codes may have up to {MOST} tokens of 25 ms; got {x.shape[1]}. Cut the sound."
            )
        levels = levels_of(x.clamp_min(0))
        return Encoded(self.net(levels / halves(levels)), here)


@dataclass
class NextCode(Output):
    """The next token behind each: `logits` [..., 10, 7] of the levels of its ten numbers, which are predicted
    independently; numbers with five levels use five of the seven. An answer is codes int64 [..., 2].
    """

    logits: Tensor

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability [...] of codes int64 [..., 2]."""
        at = places_of(value)[..., None]
        return self.logits.float().log_softmax(-1).gather(-1, at)[..., 0].sum(-1)

    def loss(self, target: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Nats a token against codes int64 [..., 2]."""
        return masked_mean(-self.log_prob(target), mask)

    def mode(self) -> Tensor:
        return _codes(self.logits.argmax(-1))

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        shares = self.logits.float().softmax(-1)
        return _codes(torch.multinomial(shares.flatten(0, -2), 1, generator=generator).reshape(shares.shape[:-1]))

    def numbers(self) -> Tensor:
        return self.logits


class NextCodeHead(Head):
    """Taps "trunk:codes": the trunk's features of each token of the page."""

    own: Tensor

    generates, reads_senses = True, True
    lighter = (("hidden", 0.25),)

    def __init__(self, inlet: Inlet, hidden: int | None = None) -> None:
        super().__init__(inlet)
        hidden = hidden or max(32, 2 * inlet.width)
        self.net = nn.Sequential(nn.Linear(inlet.width, hidden), nn.GELU(), nn.Linear(hidden, SIZE * WIDEST))
        sizes = torch.tensor(LEVELS * GROUPS)
        self.register_buffer("own", torch.arange(WIDEST) < sizes[:, None], persistent=False)

    def forward(self, tapped: Tapped) -> NextCode:
        logits = self.net(tapped.tokens).unflatten(-1, (SIZE, WIDEST))
        return NextCode(logits.masked_fill(~self.own, torch.finfo(logits.dtype).min))


def places_of(codes: Tensor) -> Tensor:
    """The level of each number of codes int64 [..., 2], int64 [..., 10], from 0."""
    levels = levels_of(codes)
    return (levels + halves(levels)).long()


def _codes(places: Tensor) -> Tensor:
    return codes_of(places.float() - halves(places))


def one_hot(codes: Tensor) -> Tensor:
    """Levels of codes int64 [..., 2] as float32 [..., 10, 7]."""
    return F.one_hot(places_of(codes), WIDEST).float()
