"""The arc that tells words: a gated recurrent unit over the ear's tokens, which needs no trunk.

It learns first, in a tenth of the time that the trunk would take, and the trunk learns from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor, nn

from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Categorical
from devmind.agent.taps import Tapped


@dataclass
class Noted(Categorical):
    """A word or nothing for each token, logits [..., K, W]; `hidden` [B, H] is what it goes on from."""

    hidden: Tensor = field(kw_only=True)

    def kept(self) -> dict[str, Tensor]:
        return {"hidden": self.hidden}


class WordsHead(Head):
    """Cho et al. 2014's GRU over tokens in the order in which they are heard; tokens that are absent count as zeros.

    A row of a batch is one episode: what is heard in it is remembered to its end.
    """

    carries: ClassVar[bool] = True

    def __init__(self, inlet: Inlet, words: int, hidden: int | None = None) -> None:
        super().__init__(inlet)
        hidden = hidden or max(16, inlet.width)
        self.memory = nn.GRU(inlet.width, hidden, batch_first=True)
        self.answer = nn.Linear(hidden, words)

    def forward(self, tapped: Tapped, kept: Mapping[str, Tensor] | None = None) -> Noted:
        tokens = tapped.tokens * tapped.present[..., None]
        lead = tokens.shape[:-1]
        row = tokens.flatten(1, -2) if tokens.ndim > 3 else tokens
        features, last = self.memory(row, None if kept is None else kept["hidden"][None].contiguous())
        return Noted(self.answer(features).unflatten(1, lead[1:]), hidden=last[0])
