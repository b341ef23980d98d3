"""The arc of words: a body over the ear's tokens (`bodies.py`) and a linear layer, without the trunk.

It learns first, in a tenth of the time that the trunk would need, and the trunk learns from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Categorical
from devmind.agent.rows import Carry
from devmind.agent.taps import Tapped
from stages.voice.bodies import DEFAULT, body


class WordsHead(Head):
    """A body over tokens in the order in which they are heard, and a linear layer: a word or nothing for each token.

    A row of a batch is one episode. The body remembers it as far back as its kind sees. Moments in which nothing was
    heard are passed over, as in a life, where the head is not asked then.
    """

    def __init__(self, inlet: Inlet, words: int, hidden: int | None = None, kind: str = DEFAULT) -> None:
        super().__init__(inlet)
        hidden = hidden or max(16, inlet.width)
        self.memory = body(kind, inlet.width, hidden)
        self.answer = nn.Linear(hidden, words)
        self.carry_spec = self.memory.carry_spec

    def light(self, part: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """A linear choice for each token."""
        return "head.categorical", {"classes": self.answer.out_features, "slots": self.inlet.n_tokens, "depth": 0}

    def forward(self, tapped: Tapped, carry: Carry) -> tuple[Categorical, Carry]:
        row, lead, places = in_order(tapped)
        features, carry = self.memory.over(row, carry)
        return Categorical(self.answer(in_time(features, places)).unflatten(1, lead[1:])), carry


def in_order(tapped: Tapped) -> tuple[Tensor, tuple[int, ...], Tensor | None]:
    """The tokens of a batch of Moments [B, T, K, D], or of one tick [B, K, D], in the order in which they are heard.

    Returns the row [B, L, D], with zeros for absent tokens; the leading dimensions, up to K; and where in that row each
    token is, int64 [B, L]. Moments of a batch without any token stand behind all others, so that they come between no
    two that were heard; None: there are none such.
    """
    tokens, lead = tapped.tokens * tapped.present[..., None], tuple(tapped.tokens.shape[:-1])
    if tokens.ndim <= 3:
        return tokens, lead, None
    silent = ~tapped.present.any(-1)
    if not bool(silent.any()):
        return tokens.flatten(1, -2), lead, None
    order = silent.long().argsort(dim=1, stable=True)
    row = tokens.gather(1, order[..., None, None].expand_as(tokens)).flatten(1, -2)
    each = torch.arange(lead[-1], device=row.device)
    return row, lead, (order.argsort(1)[..., None] * lead[-1] + each).flatten(1)


def in_time(features: Tensor, places: Tensor | None) -> Tensor:
    """Features [B, L, H] of the row of `in_order`, in the order of the batch; those of silent Moments mean nothing."""
    return features if places is None else features.gather(1, places[..., None].expand_as(features))
