"""The head `text` that looks at the picture: it predicts each byte from the trunk's feature and from what it looks at.

The trunk alone learns late which thing a word means, while the head `point`, by a dot product with what is in each
cell, finds the named thing after two hundred steps. So this head looks in the same way: the feature of each byte asks
for a form, a colour and a place, and all things that match are looked at, or none. Lessons teach where to look
(`seeing.py`): the caregiver looks at what she asks about, and the agent's gaze follows hers, as children's does
(Tomasello and Farrar, 1986, "Joint attention and early language", Child Development 57).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from devmind.agent.encoders import mlp
from devmind.agent.heads import Inlet
from devmind.agent.output import Categorical, Output
from devmind.agent.taps import Tapped
from devmind.agent.text import TextHead
from stages.language.eye import COLOUR, FORM, MOST, SIDE, THINGS

PLACE = 16
"""Numbers that encode the place of a cell."""


@dataclass
class Written(Categorical):
    """The next token, and the cells that are looked at for it.

    Attributes:
        looked: logits [..., n, 64] of looking at each cell; None without a picture.
    """

    looked: Tensor | None = None


class LookingTextHead(TextHead):
    """As `TextHead`; taps ("trunk:text", the sense of `DetailEncoder`). The eye gets no gradient from it.

    A look is a sum over cells, each weighted by the probability that it holds a thing and that it matches. So no, one
    and two things give different sums. Without a picture nothing is looked at.
    """

    def __init__(self, inlet: Inlet, patched: bool = False, plain: bool = False, untied: int | None = None) -> None:
        super().__init__(inlet, patched, plain, untied)
        width, codes = inlet.width, inlet.map_channels[FORM] + inlet.map_channels[COLOUR]
        self.places = nn.Parameter(torch.randn(SIDE**2, PLACE))
        self.asks, self.shows = nn.Linear(width, codes + PLACE + 1), nn.Linear(codes + PLACE, width)
        self.tells = mlp(2 * width, 2 * width, width)

    def forward(self, tapped: Tapped, *targets: Any) -> Output:
        """Logits of each token of the page."""
        features, here = tapped.tokens[..., :-MOST, :], tapped.present[..., -MOST:].any(-1)
        looked = None
        if FORM in tapped.maps:
            looked, seen = self.look(features, tapped)
            update = self.tells(torch.cat((features, seen), -1))
            features = features + update * here[..., None, None]
        output = super().forward(Tapped(features, tapped.present[..., :-MOST]), *targets)
        return Written(output.logits, looked=looked) if isinstance(output, Categorical) else output

    def look(self, features: Tensor, tapped: Tapped) -> tuple[Tensor, Tensor]:
        """For features [..., n, D]: logits [..., n, 64] of a look at each cell, and the sum seen there [..., n, D]."""
        codes = torch.cat((tapped.maps[FORM], tapped.maps[COLOUR]), -3).flatten(-2).mT.detach()
        things = tapped.maps[THINGS].flatten(-3).detach()
        cells = torch.cat((codes, self.places.expand(*codes.shape[:-1], PLACE)), -1)
        query = self.asks(features)
        looked = query[..., :-1] @ cells.mT + query[..., -1:]
        weights = looked.sigmoid() * things.sigmoid()[..., None, :]
        return looked, weights @ self.shows(cells)
