"""The arc that tells words as they come: a body over the ear's tokens (`bodies.py`), which needs no trunk.

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
from stages.voice.bodies import DEFAULT, body


@dataclass
class Noted(Categorical):
    """A word or nothing for each token, logits [..., K, W]; `body` is what it goes on from, by name [B, ...]."""

    body: Mapping[str, Tensor] = field(kw_only=True)

    def kept(self) -> dict[str, Tensor]:
        return dict(self.body)


class WordsHead(Head):
    """A body of a kind over tokens in the order in which they are heard, and a linear layer.

    A row of a batch is one episode: what is heard in it is remembered to its end, or as far back as its kind sees.
    """

    carries: ClassVar[bool] = True

    def __init__(self, inlet: Inlet, words: int, hidden: int | None = None, kind: str = DEFAULT) -> None:
        super().__init__(inlet)
        hidden = hidden or max(16, inlet.width)
        self.memory = body(kind, inlet.width, hidden)
        self.answer = nn.Linear(hidden, words)

    def forward(self, tapped: Tapped, kept: Mapping[str, Tensor] | None = None) -> Noted:
        row, lead = in_order(tapped)
        features, last = self.memory.over(row, kept)
        return Noted(self.answer(features).unflatten(1, lead[1:]), body=last)


def in_order(tapped: Tapped) -> tuple[Tensor, tuple[int, ...]]:
    """The tokens of a batch of Moments [B, T, K, D] or of one tick [B, K, D] one after another, [B, L, D], zeros where
    they are absent; and their leading dimensions, up to K.
    """
    tokens = tapped.tokens * tapped.present[..., None]
    return (tokens.flatten(1, -2) if tokens.ndim > 3 else tokens), tuple(tokens.shape[:-1])
