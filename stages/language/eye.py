"""The eye for what is spoken of: the whole picture once more, finer, where there is a page; and heads that read it.

The eye of earlier stages gives a token for 16 x 16 pixels, was never asked what kind of thing it sees, and stays as it
is. This one gives a token for 8 x 8 pixels and learns along. It has no part in Moments without a page, so nothing that
was learned before changes by it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from devmind.agent.encoders import Encoded, Encoder
from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Categorical
from devmind.agent.sight import as_planes
from devmind.agent.taps import Tapped

SIDE = 8
"""Tokens a side."""
_LEAST_CONTRAST = 0.02


class DetailEncoder(Encoder):
    """Two ways from a picture to 8 x 8 tokens: form by brightness alone, finely, and colour coarsely.

    As in the primate's eye, of which the one way is fine and the other has colour (Livingstone and Hubel, 1988, Science
    240). Form that does not know colour can be told in colours that it never had: what a thing is called goes by its
    form. Brightness counts by the picture's own contrast, so a dim picture has the form of a bright one.

    Channels follow the width (c = 3 width / 16: form c, 2c, 4c, 4c; colour width / 4). A token sees 45 x 45 pixels.
    """

    of = "sight"
    beside = "text"
    sense_dims: int = 3

    def __init__(self, width: int) -> None:
        super().__init__(width, n_tokens=SIDE**2)
        c, colours = 3 * width // 16, width // 4
        self.form = nn.Sequential(
            nn.Conv2d(1, c, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(c, 2 * c, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(2 * c, 4 * c, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(4 * c, 4 * c, 3, padding=1), nn.ReLU(),
        )  # fmt: skip
        self.colour = nn.Sequential(
            nn.AvgPool2d(4), nn.Conv2d(3, colours, 3, padding=1), nn.ReLU(),
            nn.Conv2d(colours, colours, 3, stride=2, padding=1), nn.ReLU(),
        )  # fmt: skip
        for layer in (*self.form, *self.colour):
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        self.project = nn.Linear(4 * c + colours, width)

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        picture = as_planes(x)
        bright = picture.mean(1, keepdim=True)
        contrast = bright.std((1, 2, 3), keepdim=True) + _LEAST_CONTRAST
        form = self.form((bright - bright.mean((1, 2, 3), keepdim=True)) / contrast)
        features = torch.cat((form, self.colour(picture - 0.5)), 1)
        tokens = self.project(features.flatten(2).transpose(1, 2))
        return Encoded(tokens, self.all_present(tokens))


class EachHead(Head):
    """One of `classes` for each token that it taps: `Categorical` [..., K, classes]."""

    def __init__(self, inlet: Inlet, classes: int) -> None:
        super().__init__(inlet)
        self.read = nn.Linear(inlet.width, classes)

    def forward(self, tapped: Tapped) -> Categorical:
        return Categorical(self.read(tapped.tokens * tapped.present[..., None]))


class PointHead(Head):
    """Which token of a sense is meant: `Categorical` [..., K].

    Taps (sense, "trunk"), the readout last, which says by a dot product what is looked for; tokens that are absent are
    never pointed at, unless all are.
    """

    def __init__(self, inlet: Inlet) -> None:
        super().__init__(inlet)
        self.wanted, self.there = nn.Linear(inlet.width, inlet.width), nn.Linear(inlet.width, inlet.width)

    def forward(self, tapped: Tapped) -> Categorical:
        tokens, readout = tapped.tokens[..., :-1, :], tapped.tokens[..., -1:, :]
        fits = (self.there(tokens) * self.wanted(readout)).sum(-1) / self.inlet.width**0.5
        return Categorical(fits.masked_fill(~tapped.present[..., :-1], torch.finfo(fits.dtype).min))
