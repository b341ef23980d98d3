"""Encoders of symbols: words as bytes, and boards as planes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.batch import WORDS_BYTES
from devmind.agent.encoders import Encoded, Encoder, mlp
from devmind.errors import MomentError

_CHUNK = 8
WHAT_GAIN, WHERE_GAIN = 3.0, 4.0
"""Factors on the initial weights of a board's convolutions and keys. With 1, a query attends to all cells alike and a
cell's content is weak beside its place, so learning what is where takes hundreds of steps to begin.
"""


class WordsEncoder(Encoder):
    """UTF-8 bytes [64] in chunks of eight; every chunk that is not empty gives one token. It needs no vocabulary."""

    def __init__(self, width: int) -> None:
        super().__init__(width, n_tokens=WORDS_BYTES // _CHUNK)
        size = max(8, width // 4)
        self.embedding = nn.Embedding(256, size)
        self.net = mlp(_CHUNK * size, width, width)

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        chunks = x.unflatten(-1, (self.n_tokens, _CHUNK))
        tokens = self.net(self.embedding(chunks.int()).flatten(2))
        return Encoded(tokens, (chunks != 0).any(-1))


class BoardEncoder(Encoder):
    """A board of any size up to 32x32 to eight tokens: two convolutions, then eight learned queries over the cells.

    Each query attends to the cells with four heads, so boards of any size share the weights and no cell is lost by
    pooling. `maps` has `cells` (width, H x W): the content in and around each cell, without its place.
    """

    sense_dims = 3
    heads = 4

    def __init__(self, width: int, planes: int = 16) -> None:
        super().__init__(width, n_tokens=8)
        self.planes = planes
        self.map_channels = {"cells": width}
        self.first = nn.Conv2d(planes + 1, width // 2, 3, padding=1)
        self.second = nn.Conv2d(width // 2, width, 3, padding=1)
        self.rows = nn.Parameter(torch.randn(32, width) * 0.5)
        self.columns = nn.Parameter(torch.randn(32, width) * 0.5)
        self.queries = nn.Parameter(torch.randn(self.n_tokens, width))
        self.keys_values = nn.Linear(width, 2 * width)
        self.project = nn.Linear(width, width)
        with torch.no_grad():
            self.first.weight.mul_(WHAT_GAIN)
            self.second.weight.mul_(WHAT_GAIN)
            self.keys_values.weight[:width].mul_(WHERE_GAIN)

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        n, planes, height, width = x.shape
        if planes > self.planes or max(height, width) > 32:
            raise MomentError(
                f"A board may have up to {self.planes} planes of 32x32 here; got {planes} of {height}x{width}."
            )
        x = F.pad(x.to(self.rows.dtype), (0, 0, 0, 0, 0, self.planes - planes))
        # A plane of ones shows the convolutions where the board ends.
        x = torch.cat((x, torch.ones_like(x[:, :1])), 1)
        cells = F.relu(self.second(F.relu(self.first(x))))
        placed = cells + (self.rows[:height, None] + self.columns[None, :width]).permute(2, 0, 1)
        keys, values = self.keys_values(placed.flatten(2).transpose(1, 2)).chunk(2, -1)

        def split(tensor: Tensor) -> Tensor:
            return tensor.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

        queries = split(self.queries).expand(n, -1, -1, -1)
        looked = F.scaled_dot_product_attention(queries, split(keys), split(values))
        tokens = self.project(looked.transpose(1, 2).flatten(2))
        return Encoded(tokens, self.all_present(tokens), {"cells": cells})
