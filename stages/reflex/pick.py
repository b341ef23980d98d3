"""The pick head: an actor that moves to one of several things seen, chosen by a word.

From the picture it reads a few numbers for each of some slots (one a colour, once it was taught); the word chooses
among the slots by a soft attention; what was chosen and the body make the movement. Reading and choosing are kept apart
because a plain network would have to learn every pair of word and place anew.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from devmind.agent.heads import Head, Inlet, Reader
from devmind.agent.output import Normal
from devmind.agent.taps import Tapped
from devmind.errors import ConfigError

SIGHT_TOKENS, BODY_TOKENS = 16, 1


class PickHead(Head):
    """Taps ("sight", "words", "body"); a `Normal` over `size` numbers.

    Args:
        slots: things the word can choose from; numbers: how many are read about each.
    """

    def __init__(
        self, inlet: Inlet, size: int, slots: int = 8, numbers: int = 4, hidden: int = 128, log_std: float = -0.5
    ) -> None:
        super().__init__(inlet)
        self.n_words = inlet.n_tokens - SIGHT_TOKENS - BODY_TOKENS
        if self.n_words < 1:
            raise ConfigError("The pick head must tap ('sight', 'words', 'body'), in this order.")
        d, narrow = inlet.width, max(4, inlet.width // 4)
        self.slots, self.numbers = slots, numbers
        self.squeeze = nn.Linear(d, narrow)
        self.look = nn.Sequential(
            nn.Linear(SIGHT_TOKENS * narrow, max(32, d)), nn.GELU(), nn.Linear(max(32, d), slots * numbers)
        )
        self.choose = nn.Linear(d, slots)
        last = nn.Linear(hidden, size)
        nn.init.orthogonal_(last.weight, 0.01)
        nn.init.zeros_(last.bias)
        self.act = nn.Sequential(nn.Linear(numbers + d, hidden), nn.GELU(), last)
        self.log_std = nn.Parameter(torch.full((size,), log_std))

    def start_from(self, reader: Reader) -> None:
        """Read pictures as `reader` does, which taps sight alone and gives slots x numbers.

        Raises:
            ConfigError: its layers have other sizes.
        """
        try:
            self.squeeze.load_state_dict(reader.squeeze.state_dict())
            self.look.load_state_dict(reader.net.state_dict())
        except RuntimeError as error:
            raise ConfigError(
                f"The pick head reads {self.slots} x {self.numbers} numbers; the reader to start from must: {error}"
            ) from error

    def forward(self, tapped: Tapped) -> Normal:
        tokens = tapped.tokens * tapped.present[..., None]
        sight, words, body = tokens.split([SIGHT_TOKENS, self.n_words, BODY_TOKENS], -2)
        mean = self.act(torch.cat((self.picked(sight, words), body.squeeze(-2)), -1))
        return Normal(mean, self.log_std.expand_as(mean))

    def picked(self, sight: Tensor, words: Tensor) -> Tensor:
        """What was read about the chosen thing, [..., numbers]."""
        read = self.look(self.squeeze(sight).flatten(-2)).unflatten(-1, (self.slots, self.numbers))
        choice = self.choose(words.sum(-2)).softmax(-1)
        return (choice[..., None] * read).sum(-2)
