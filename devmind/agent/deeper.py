"""Layers that only some tokens go through: those of a sense, and the readout of a Moment in which it was sensed.

A stage grows such layers (`Agent.grow`) where what it teaches needs more depth than what was learned before and would
undo it: reading does, as its tokens come by the hundred (docs/log.md, 2026-11-25). All other tokens pass by, so every
Moment without that sense is thought about exactly as before; what goes through sees the tokens that passed by, too.
Separate weights by modality over one attention are those of Mixture-of-Transformers (Liang et al., 2024).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

Deep = Tensor | bool
"""Which tokens go through such layers: bool [B, Q]; True: all, False: none, and nothing is kept of any."""


class _Deeper:
    """What a decoder layer does besides: `deep` says of each token whether it goes through."""

    def forward(self, hidden_states: Tensor, *args: Any, deep: Deep = True, **kwargs: Any) -> Tensor:
        if deep is False:
            return hidden_states
        through: Tensor = super().forward(hidden_states, *args, **kwargs)  # type: ignore[misc]
        return through if deep is True else torch.where(deep[..., None], through, hidden_states)


def deepen(layer: nn.Module) -> None:
    """Make a decoder layer of transformers one that only some tokens go through; its parameters keep their names."""
    kind: Any = type(layer)
    layer.__class__ = _deeper(kind)


@cache
def _deeper(kind: Any) -> type[nn.Module]:
    return type(f"Deeper{kind.__name__}", (_Deeper, kind), {})
