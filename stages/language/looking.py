"""The head that writes pages with the picture before its eyes: each byte is told from the trunk's feature and from what
is looked at for it.

The trunk alone learns late which thing a word means, where a head that points, by a dot product with what is in each
cell, finds what is named after two hundred steps. So this head looks as that one does: the feature of each token of the
page asks all things that the eye has found, by four attention heads (Vaswani et al., 2017, "Attention is all you
need"), or none of them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.heads import Inlet
from devmind.agent.output import Output
from devmind.agent.taps import Tapped
from devmind.agent.text import TextHead
from stages.language.eye import MOST

LOOKS = 4
"""Attention heads."""


class LookingTextHead(TextHead):
    """As `TextHead`; taps ("trunk:text", the sense of `DetailEncoder`). The eye is not taught by it.

    In a Moment without a picture nothing is looked at.
    """

    def __init__(self, inlet: Inlet, patched: bool = False) -> None:
        super().__init__(inlet, patched)
        width = inlet.width
        self.asks, self.shows, self.tells = (
            nn.Linear(width, width),
            nn.Linear(width, 2 * width),
            nn.Linear(width, width),
        )
        self.nothing = nn.Parameter(torch.zeros(width))

    def forward(self, tapped: Tapped, *targets: Any) -> Output:
        """Logits of each token of the page."""
        features, things = tapped.tokens[..., :-MOST, :], tapped.tokens[..., -MOST:, :].detach()
        features = features + self.look(features, things, tapped.present[..., -MOST:])
        return super().forward(Tapped(features, tapped.present[..., :-MOST]), *targets)

    def look(self, features: Tensor, things: Tensor, here: Tensor) -> Tensor:
        """What features [..., n, D] see among things [..., MOST, D] that are `here`, bool [..., MOST]: [..., n, D]."""
        keys, values = self.shows(things).chunk(2, -1)
        nothing = self.nothing.expand(*keys.shape[:-2], 1, -1)
        keys, values = torch.cat((keys, nothing), -2), torch.cat((values, torch.zeros_like(nothing)), -2)
        here = F.pad(here, (0, 1), value=True)[..., None, None, :]
        query, keys, values = (
            each.unflatten(-1, (LOOKS, -1)).transpose(-3, -2) for each in (self.asks(features), keys, values)
        )
        seen = F.scaled_dot_product_attention(query, keys, values, attn_mask=here)
        return self.tells(seen.transpose(-3, -2).flatten(-2))
