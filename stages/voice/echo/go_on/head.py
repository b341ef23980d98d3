"""The head that predicts how a sound goes on: codes of the next Moments, from the trunk's features."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from devmind.agent.heads import Head, Inlet
from devmind.agent.output import masked_mean
from devmind.agent.taps import Tapped
from stages.voice.codec import SIZE, Levels, quantise
from stages.voice.codec import TOKENS as CODED
from stages.voice.ear import FRAMES, MEL, SCALE, SHIFT, TOKENS

AHEAD = 2
"""Moments that are predicted: 200 ms."""


@dataclass
class GoesOn(Levels):
    """Of the next Moments, [..., 2, 4, 10] and [..., 2, 4, 2]."""

    def loss(self, target: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Mean distance from levels `target` [..., 2, 4, 10]."""
        return masked_mean((self.rounded - target).abs(), mask)


class GoesOnHead(Head):
    """Taps ("trunk:listen", "listen"): the trunk's features of the last 100 ms, which carry its whole window, and the
    log-mel of these 100 ms.
    """

    generates, reads_senses = True, True
    lighter = (("hidden", 0.25),)

    def __init__(self, inlet: Inlet, hidden: int | None = None) -> None:
        super().__init__(inlet)
        mels, hidden = inlet.map_channels[MEL], hidden or max(32, 2 * inlet.width)
        self.heard, self.thought = nn.Linear(mels * FRAMES, hidden), nn.Linear(inlet.width * TOKENS, hidden)
        self.net = nn.Sequential(
            nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, AHEAD * CODED * SIZE)
        )

    def forward(self, tapped: Tapped) -> GoesOn:
        mel = (tapped.maps[MEL].flatten(-2)[..., -FRAMES:] + SHIFT) * SCALE
        thought = (tapped.tokens[..., :TOKENS, :] * tapped.present[..., :TOKENS, None]).flatten(-2)
        free = self.net(self.heard(mel.flatten(-2)) + self.thought(thought))
        return GoesOn(quantise(free.unflatten(-1, (AHEAD * CODED, SIZE))).unflatten(-2, (AHEAD, CODED)))
