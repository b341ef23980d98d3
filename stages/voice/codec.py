"""The codec: sound as a few whole numbers a Moment, and sound from them again.

Finite scalar quantisation (Mentzer et al. 2023, arXiv 2309.15505): each number of a small code is squashed and rounded
to one of a few levels, and gradients pass through the rounding unchanged. There is no codebook that could collapse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Output, masked_mean
from devmind.agent.taps import Tapped
from stages.voice.ear import BEFORE, FRAMES, MEL
from stages.voice.vocoder import sound_of

LEVELS = (7, 5, 5, 5, 5)
"""Levels of each number in a code. They are odd, so that zero is a level: 4,375 codes, 12.1 bits."""
TOKENS = 4
"""Tokens a Moment: one for each pair of frames, 25 ms."""
GROUPS = 2
"""Codes a token: 4 x 2 codes are 97 bits a Moment, 970 bits a second."""
CODES = math.prod(LEVELS)
SIZE = GROUPS * len(LEVELS)
"""Numbers of a token, before and after rounding."""


def quantise(free: Tensor) -> Tensor:
    """Numbers [..., 10] squashed and rounded to whole levels about zero; the gradient is that of the squashed ones."""
    half = halves(free)
    squashed = free.tanh() * half
    return squashed + (squashed.round() - squashed).detach()


def codes_of(rounded: Tensor) -> Tensor:
    """Whole levels [..., 10] as codes int64 [..., 2] in 0..4374."""
    levels = (rounded + halves(rounded)).round().long().unflatten(-1, (GROUPS, len(LEVELS)))
    return (levels * _places(rounded.device)).sum(-1)


def levels_of(codes: Tensor) -> Tensor:
    """Codes int64 [..., 2] as whole levels float32 [..., 10]."""
    sizes = torch.tensor(LEVELS, device=codes.device)
    levels = (codes[..., None] // _places(codes.device) % sizes).flatten(-2).float()
    return levels - halves(levels)


def halves(like: Tensor) -> Tensor:
    """The largest level of each of the ten numbers of a token, float32 [10], on the device of `like`."""
    return torch.tensor([(level - 1) / 2 for level in LEVELS] * GROUPS, device=like.device)


def _places(device: torch.device) -> Tensor:
    return torch.tensor([math.prod(LEVELS[:at]) for at in range(len(LEVELS))], device=device)


@dataclass
class Levels(Output):
    """Whole levels `rounded` [..., 4, 10] of a sound; an answer is their codes int64 [..., 4, 2]."""

    rounded: Tensor

    def mode(self) -> Tensor:
        return codes_of(self.rounded)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return self.mode()


@dataclass
class Heard(Levels):
    """The codec's output for Moments [...]; `mel` [..., 8, 64] is what was heard."""

    mel: Tensor

    def loss(self, target: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Mean distance of decoded log-mel `target` [..., 8, 64] from what was heard."""
        return masked_mean((target - self.mel).abs(), mask)


class CodecHead(Head):
    """An arc for `utter`: the codes of each Moment that is heard, and the sound of a row of codes.

    Each pair of frames is coded with the 6 frames before it, and decoded with two tokens (50 ms) on either side, for
    which a speaker has to wait.
    """

    generates, reads_senses = True, True
    lighter = (("hidden", 0.5),)

    def __init__(self, inlet: Inlet, hidden: int | None = None) -> None:
        super().__init__(inlet)
        mels, hidden = inlet.map_channels[MEL], hidden or max(32, inlet.width)
        self.coder = nn.Sequential(
            nn.Conv1d(mels, hidden, 3), nn.GELU(),
            nn.Conv1d(hidden, hidden, 3, stride=2), nn.GELU(),
            nn.Conv1d(hidden, SIZE, 1),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Conv1d(SIZE, 2 * hidden, 3, padding=1), nn.GELU(),
            nn.Conv1d(2 * hidden, 2 * hidden, 3, padding=1), nn.GELU(),
            nn.Conv1d(2 * hidden, 2 * mels, 1),
        )  # fmt: skip

    def forward(self, tapped: Tapped) -> Heard:
        mel = tapped.maps[MEL].flatten(-2)
        lead = mel.shape[:-2]
        free = self.coder(mel.flatten(0, -3) if lead else mel[None])[..., -TOKENS:].mT
        return Heard(quantise(free).unflatten(0, lead), mel.mT[..., BEFORE : BEFORE + FRAMES, :])

    def as_sound(self, answers: Tensor) -> Tensor:
        return sound_of(self.decode(levels_of(answers).flatten(0, 1)[None].float()))[0]

    def decode(self, rounded: Tensor) -> Tensor:
        """Log-mel [N, 2 L, 64] of whole levels [N, L, 10]."""
        pairs = self.decoder(rounded.mT).mT
        return pairs.unflatten(-1, (2, -1)).flatten(1, 2)
