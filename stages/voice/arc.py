"""The arc of words: a body over the ear's tokens (`bodies.py`) and a linear layer, without the trunk.

It learns first, in a tenth of the time that the trunk would need, and the trunk learns from it.
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
    """A word or nothing for each token, logits [..., K, W]; `body` is the state that it carries, by name [B, ...]."""

    body: Mapping[str, Tensor] = field(kw_only=True)

    def kept(self) -> dict[str, Tensor]:
        return dict(self.body)


class WordsHead(Head):
    """A body over tokens in the order in which they are heard, and a linear layer.

    A row of a batch is one episode. The body remembers it as far back as its kind sees.
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
    """The tokens of a batch of Moments [B, T, K, D], or of one tick [B, K, D], in a row [B, L, D], with zeros for
    absent ones; and their leading dimensions, up to K.
    """
    tokens = tapped.tokens * tapped.present[..., None]
    return (tokens.flatten(1, -2) if tokens.ndim > 3 else tokens), tuple(tokens.shape[:-1])
