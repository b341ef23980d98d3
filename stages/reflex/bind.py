"""The bind head: which place in the picture a sound comes from.

Each token of the picture is scored against the sound by scaled dot product (Vaswani et al. 2017, eq. 1), with the
token's place in the picture added to its key, so direction and timbre can both decide.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from devmind.agent.encoders import mlp
from devmind.agent.heads import Head, Inlet, Tapped
from devmind.agent.output import Categorical

SIGHT_TOKENS = 16


class BindHead(Head):
    """Taps ("sight", "sound"); a `Categorical` over `cells` x `cells` places of the picture, row by row."""

    def __init__(self, inlet: Inlet, cells: int = 8) -> None:
        super().__init__(inlet)
        d = inlet.width
        self.cells = cells
        self.hear = mlp((inlet.n_tokens - SIGHT_TOKENS) * d, d, d)
        # A token covers a square of finer places: it is split into one key for each.
        self.split = cells // 4
        self.look = nn.Linear(d, d * self.split**2)
        self.place = nn.Parameter(torch.randn(cells * cells, d) * 0.1)
        self.mix = mlp(2 * d, d, 1)

    def forward(self, tapped: Tapped) -> Categorical:
        tokens = tapped.tokens * tapped.present[..., None]
        sight, sound = tokens[..., :SIGHT_TOKENS, :], tokens[..., SIGHT_TOKENS:, :]
        query = self.hear(sound.flatten(-2))[..., None, :]
        keys = self._cells(self.look(sight)) + self.place
        scores = self.mix(torch.cat((keys * query, keys + query), -1)).squeeze(-1)
        return Categorical(scores)

    def _cells(self, tokens: Tensor) -> Tensor:
        """[..., 16, split^2 * D] as [..., cells^2, D] in row order."""
        s, lead = self.split, tokens.shape[:-2]
        grid = tokens.reshape(*lead, 4, 4, s, s, -1)
        return grid.transpose(-4, -3).reshape(*lead, self.cells**2, -1)
