"""Layers that only some tokens go through: those of some senses, in Moments in which a certain one was sensed.

A stage grows such layers (`Agent.grow`) where what it teaches needs more depth than what was learned before and would
undo it: reading does, as its tokens come by the hundred (docs/log.md, 2026-11-25). All other tokens pass by, so every
Moment without those senses is thought about exactly as before; what goes through sees the tokens that passed by, too.
Each stage's layers have tokens of their own. Separate weights by modality over one attention are those of
Mixture-of-Transformers (Liang et al., 2024).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

Deep = tuple[Tensor | bool, ...]
"""By stage that has grown layers, in the order of those, which tokens go through them: bool [B, Q]; True: all, False:
none, and nothing is kept of any. Empty: all tokens go through all layers."""


def each(deep: Deep, change: Callable[[Tensor], Tensor | bool]) -> Deep:
    """The same, tensors changed."""
    return tuple(one if isinstance(one, bool) else change(one) for one in deep)


class _Deeper:
    """What a decoder layer does besides: `deep` says of each token whether it goes through; `group` is its stage's."""

    group: int

    def forward(self, hidden_states: Tensor, *args: Any, deep: Deep = (), **kwargs: Any) -> Tensor:
        mine = deep[self.group] if deep else True
        if mine is False:
            return hidden_states
        through: Tensor = super().forward(hidden_states, *args, **kwargs)  # type: ignore[misc]
        return through if mine is True else torch.where(mine[..., None], through, hidden_states)


def deepen(layer: nn.Module, group: int) -> None:
    """Make a decoder layer of transformers one that only some tokens go through; its parameters keep their names.

    Args:
        group: the number of the stage that has grown it, among those that have grown some.
    """
    kind: Any = type(layer)
    layer.__class__ = _deeper(kind)
    layer.group = group  # type: ignore[assignment]


@cache
def _deeper(kind: Any) -> type[nn.Module]:
    return type(f"Deeper{kind.__name__}", (_Deeper, kind), {})
