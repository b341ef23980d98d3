"""The encoders `detail` (a finer eye on `sight`) and `view` (a second encoder of `board`), and heads on their cells.

The eye of earlier stages gives one token for 16 x 16 pixels, was never asked for kinds of things, and stays as it is.
`detail` has 8 x 8 cells of 8 x 8 pixels and gives a token for each cell that holds a thing; `calling.py` teaches it. It
is absent in Moments without a page, so nothing that was learned before changes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.encoders import BoardEncoder, Encoded, Encoder, as_planes
from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Categorical
from devmind.agent.taps import Tapped

SIDE = 8
"""Cells a side."""
MOST = 8
"""Tokens, at most: the things that are seen at once."""
FORM, COLOUR = "form", "colour"
"""Maps of codes of what is in each cell, [width / 8, 8, 8]."""
THINGS = "things"
"""The map of whether each cell holds the centre of a thing, logits [1, 8, 8]."""
LEAST = -1.4
"""A cell whose logit is above this gives a token. It is below 0, as a thing on the border of two cells leaves both
unsure."""
_LEAST_CONTRAST = 0.02
VIEW_TOKENS = 8
CELLS = "planes"
"""The map of the view itself, [16, H, W]: tokens are sums over cells and their neighbours and hide what is where."""


class DetailEncoder(Encoder):
    """Two pathways from a picture to 8 x 8 cells: form, fine, from brightness alone; and colour, coarse. Each cell that
    holds the centre of a thing gives a token with its place; the eight surest at most.

    The primate's eye has two such pathways (Livingstone and Hubel, 1988, Science 240). As form does not see colour, a
    form is recognised in colours that it never had; nouns go by form. Brightness is divided by the picture's contrast,
    so a dim picture has the form of a bright one.

    Channels follow the width (c = 3 width / 16: form c, 2c, 4c, 4c; colour width / 4). A cell sees the form of
    33 x 33 pixels and the colour of 20 x 20.
    """

    of = "sight"
    beside = "text"
    sense_dims: int = 3

    def __init__(self, width: int) -> None:
        super().__init__(width, n_tokens=MOST)
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
        code = max(4, width // 8)
        self.form_code, self.colour_code = nn.Conv2d(4 * c, code, 1), nn.Conv2d(colours, code, 1)
        self.code_norm, self.spread = nn.LayerNorm(code), nn.Linear(2 * code, width)
        self.things = nn.Conv2d(4 * c + colours, 1, 1)
        # One vector a cell: sums of a row's and a column's would not tell which go together when several things are
        # looked at alike, and a trunk that begins so learned nothing of places in 250 steps.
        self.places = nn.Parameter(torch.randn(SIDE**2, width))
        self.surety = nn.Parameter(torch.randn(width))
        nn.init.constant_(self.things.bias, -3.0)  # type: ignore[arg-type]  # most cells are empty
        nn.init.orthogonal_(self.spread.weight, (width / (2 * code)) ** 0.5)
        with torch.no_grad():  # the order of the tokens has no meaning
            self.type_embedding.copy_(self.type_embedding[:1].expand_as(self.type_embedding))
        self.map_channels = {FORM: code, COLOUR: code, THINGS: 1}

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        picture = as_planes(x)
        bright = picture.mean(1, keepdim=True)
        contrast = bright.std((1, 2, 3), keepdim=True) + _LEAST_CONTRAST
        form = self.form((bright - bright.mean((1, 2, 3), keepdim=True)) / contrast)
        colour = self.colour(picture - 0.5)
        codes = [self.code_norm(grid.flatten(2).mT) for grid in (self.form_code(form), self.colour_code(colour))]
        things = self.things(torch.cat((form, colour), 1))
        confidence, cell = things.flatten(1).detach().topk(MOST)
        order = (cell + SIDE**2 * (confidence <= LEAST)).argsort(1)
        cell, here = cell.gather(1, order), confidence.gather(1, order) > LEAST
        placed = self.spread(torch.cat(codes, -1)) + self.places + things.detach().flatten(2).mT.sigmoid() * self.surety
        tokens = placed.gather(1, cell[..., None].expand(-1, -1, self.width))
        maps = {name: code.mT.unflatten(-1, (SIDE, SIDE)) for name, code in zip((FORM, COLOUR), codes, strict=True)}
        return Encoded(tokens, here, {**maps, THINGS: things})


class ViewEncoder(BoardEncoder):
    """A second encoder of boards, in Moments that have a page; it learns with the stage's lessons. Its map CELLS is the
    board itself, for the head `follow`, which combines words with what is in each cell.
    """

    of = "board"
    beside = "text"

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.map_channels = {**self.map_channels, CELLS: self.planes}

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        encoded = super().encode(x, previous, previous_present)
        cells = F.pad(x.to(self.rows.dtype), (0, 0, 0, 0, 0, self.planes - x.shape[1]))
        return Encoded(encoded.tokens, encoded.present, {**encoded.maps, CELLS: cells})


class CellsHead(Head):
    """Classifies each cell of the map `of` of the sense that it taps: `Categorical` [..., 64, classes].

    Without `classes` the map holds the logits of one class against none: [..., 64, 2].
    """

    lighter = ()
    reads_senses = True

    def __init__(self, inlet: Inlet, of: str, classes: int | None = None) -> None:
        super().__init__(inlet)
        self.of = of
        self.read = nn.Linear(inlet.map_channels[of], classes) if classes else nn.Identity()

    def forward(self, tapped: Tapped) -> Categorical:
        logits = self.read(tapped.maps[self.of].flatten(-2).mT)
        return Categorical(logits if logits.shape[-1] > 1 else torch.cat((torch.zeros_like(logits), logits), -1))


class PointHead(Head):
    """Which cell is meant: `Categorical` [..., 64].

    Taps (the sense, "trunk"). The readout asks for a form and a colour by a dot product; cells without a thing are
    passed over. The eye gets no gradient from this head, which would blur it while the readout is untrained.
    """

    lighter = ()
    reads_senses = True

    def __init__(self, inlet: Inlet) -> None:
        super().__init__(inlet)
        self.wanted = nn.Linear(inlet.width, inlet.map_channels[FORM] + inlet.map_channels[COLOUR])

    def forward(self, tapped: Tapped) -> Categorical:
        codes = torch.cat((tapped.maps[FORM], tapped.maps[COLOUR]), -3).flatten(-2).detach()
        fits = (self.wanted(tapped.tokens[..., -1:, :]) @ codes).squeeze(-2)
        return Categorical(fits + tapped.maps[THINGS].flatten(-3).detach())
