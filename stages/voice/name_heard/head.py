"""The head that finds which of four pictures is named aloud, from the trunk's features of sound and sight and from the
encoders' tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Categorical
from devmind.agent.rows import Carry, Leaf
from devmind.agent.taps import Tapped
from stages.voice.bodies import sums_so_far
from stages.voice.ear import TOKENS

PICTURES = 4
"""Pictures in a view: top left, top right, bottom left, bottom right."""
SIDE = 4
"""Tokens of sight along each side: a picture has 2 x 2 of them."""
_MOST_WEIGHT = 6.0


@dataclass
class Named(Categorical):
    """Which picture is named by all that was heard so far, logits [..., 4].

    Attributes:
        heard, seen: bool [...], whether anything was heard so far, and whether pictures are in view.
        meant: [..., S], the vector of the sound; shown: [..., 4, S], those of the pictures. All have norm 1.
    """

    heard: Tensor = field(kw_only=True)
    seen: Tensor = field(kw_only=True)
    meant: Tensor = field(kw_only=True)
    shown: Tensor = field(kw_only=True)

    def fires(self) -> Tensor:
        """Whether something was heard and pictures are in view."""
        return self.seen & self.heard


class NamedHead(Head):
    """Taps ("trunk:listen", "trunk:sight", "listen", "sight"): the sound of the episode so far, pooled by learned
    weights and by the maximum, and the four tokens of each picture become vectors of one space; their cosine decides.

    It carries sums and maxima of non-negative numbers. A Moment in which nothing is heard leaves them as they are.
    """

    lighter = (("inner", 0.25),)
    reads_senses = True

    def __init__(self, inlet: Inlet, size: int = 48, inner: int | None = None) -> None:
        super().__init__(inlet)
        width, read = inner or inlet.width, 2 * inlet.width
        self.hear, self.weigh = nn.Linear(read, width), nn.Linear(read, 1)
        self.means = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, size))
        self.sees = nn.Sequential(nn.Linear(4 * read, width), nn.GELU(), nn.Linear(width, size))
        self.gain = nn.Parameter(torch.tensor(8.0))
        self.carry_spec = {"weight": Leaf((1,)), **dict.fromkeys(("mean", "most"), Leaf((width,)))}

    def forward(self, tapped: Tapped, carry: Carry) -> tuple[Named, Carry]:
        # The trunk's feature of each token, and the token itself behind it.
        tokens, present = torch.cat(tapped.tokens.chunk(2, -2), -1), tapped.present.chunk(2, -1)[0]
        heard, here = tokens[..., :TOKENS, :], present[..., :TOKENS, None]
        features = F.relu(self.hear(heard)) * here
        weight = (_MOST_WEIGHT * torch.tanh(self.weigh(heard) / _MOST_WEIGHT)).exp() * here
        sums = {"weight": weight.sum(-2), "mean": (weight * features).sum(-2)}
        most = features.amax(-2)
        pooled, carry = sums_so_far(sums, most, carry, at_once=features.ndim > 3)
        mean = pooled["mean"] / pooled["weight"].clamp_min(1e-6)
        meant = F.normalize(self.means(torch.cat((mean, pooled["most"]), -1)), dim=-1)
        shown = F.normalize(self.sees(by_picture(tokens[..., TOKENS:, :])), dim=-1)
        seen = present[..., TOKENS:].all(-1)
        fits = (shown @ meant[..., None])[..., 0] * self.gain
        return Named(fits, heard=pooled["weight"][..., 0] > 0, seen=seen, meant=meant, shown=shown), carry


def by_picture(tokens: Tensor) -> Tensor:
    """Tokens of sight [..., 16, D], row by row, grouped by picture, [..., 4, 4 D]."""
    # Half of the rows, row in it, half of the columns, column in it.
    grid = tokens.unflatten(-2, (2, SIDE // 2, 2, SIDE // 2))
    return grid.transpose(-4, -3).flatten(-3).flatten(-3, -2)
