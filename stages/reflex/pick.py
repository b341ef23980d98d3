"""The pick heads: an actor, and its critic, that mind the one thing that a word names.

They read places as `stages.reflex.places` does and start from what perception has taught it; the named place and the
body make the answer.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Normal, Regression
from devmind.agent.taps import Tapped
from devmind.errors import ConfigError
from stages.reflex.places import NUMBERS, SIGHT_TOKENS, Places, PlacesHead

BODY_TOKENS = 1


class Pick(Head):
    """Taps ("sight", "words", "body"); `numbers` makes `size` numbers of the named place and the body."""

    def __init__(self, inlet: Inlet, size: int, slots: int, hidden: int, gain: float) -> None:
        super().__init__(inlet)
        self.n_words = inlet.n_tokens - SIGHT_TOKENS - BODY_TOKENS
        if self.n_words < 1:
            raise ConfigError("A pick head must tap ('sight', 'words', 'body'), in this order.")
        self.places = Places(inlet.width, slots)
        last = nn.Linear(hidden, size)
        nn.init.orthogonal_(last.weight, gain)
        nn.init.zeros_(last.bias)
        first = nn.Linear(NUMBERS + inlet.width, hidden)
        self.answer = nn.Sequential(first, nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), last)

    def reading(self) -> Iterable[nn.Parameter]:
        """How it reads places and words."""
        return self.places.parameters()

    def start_from(self, other: Head) -> None:
        """Read places as `other` does, a places head or another pick head."""
        if not isinstance(other, PlacesHead | Pick):
            raise ConfigError(f"A pick head starts from a head that reads places; got {type(other).__name__}.")
        self.places.start_from(other.places)

    def numbers(self, tapped: Tapped) -> Tensor:
        """[..., size]."""
        tokens = tapped.tokens * tapped.present[..., None]
        sight, words, body = tokens.split([SIGHT_TOKENS, self.n_words, BODY_TOKENS], -2)
        return self.answer(torch.cat((self.places(sight, words).told[..., -1, :], body.squeeze(-2)), -1))


class PickHead(Pick):
    """The actor: a `Normal` over `size` numbers."""

    def __init__(self, inlet: Inlet, size: int, slots: int = 8, hidden: int = 128, log_std: float = -0.5) -> None:
        super().__init__(inlet, size, slots, hidden, gain=0.01)
        self.log_std = nn.Parameter(torch.full((size,), log_std))

    def forward(self, tapped: Tapped) -> Normal:
        mean = self.numbers(tapped)
        return Normal(mean, self.log_std.expand_as(mean))


class PickValueHead(Pick):
    """The critic: one number [...]."""

    critic = True

    def __init__(self, inlet: Inlet, slots: int = 8, hidden: int = 128) -> None:
        super().__init__(inlet, 1, slots, hidden, gain=1.0)

    def forward(self, tapped: Tapped) -> Regression:
        return Regression(self.numbers(tapped).squeeze(-1))
