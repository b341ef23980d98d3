"""Layers that only some tokens go through: those of some senses, in Moments in which a certain one was sensed.

A stage grows such layers (`Agent.grow`) where its lessons need more depth and, taught to the shared layers, would undo
what was learned before: reading does, as its tokens come by the hundred (docs/log.md, 2026-11-25). All other tokens
skip these layers, so a Moment without those senses gives exactly the same features as before; tokens that go through
also see those that skipped. Each stage's layers have their own tokens. Separate weights by modality over one attention
are those of Mixture-of-Transformers (Liang et al., 2024).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from devmind.agent.window import is_known, rotate_keys

Deep = tuple[Tensor | bool | None, ...]
"""By stage that has grown layers, in the order of those, which tokens go through them: bool [B, Q]; True: all; None:
none now, but later ones may look at these; False: none, and nothing is kept of any. Empty: all go through all."""


def each(deep: Deep, change: Callable[[Tensor], Tensor | bool | None]) -> Deep:
    """The same, tensors changed."""
    return tuple(change(one) if isinstance(one, Tensor) else one for one in deep)


class _Deeper:
    """What a decoder layer does besides: `deep` says of each token whether it goes through; `group` is its stage's."""

    group: int

    def forward(self, hidden_states: Tensor, *args: Any, deep: Deep = (), **kwargs: Any) -> Tensor:
        mine = deep[self.group] if deep else True
        if mine is False or (mine is None and self._kept(hidden_states, **kwargs)):
            return hidden_states
        if mine is None:
            mine = hidden_states.new_zeros(hidden_states.shape[:-1], dtype=torch.bool)
        through: Tensor = super().forward(hidden_states, *args, **kwargs)  # type: ignore[misc]
        return through if mine is True else torch.where(mine[..., None], through, hidden_states)

    def _kept(self, hidden_states: Tensor, **kwargs: Any) -> bool:
        """Keep keys and values of tokens that pass by, a sixth of the layer's cost; False where that is unknown."""
        layer: Any = self
        attention, cache = layer.self_attn, kwargs.get("past_key_values")
        if cache is None or not is_known(attention):
            return False
        normed = layer.input_layernorm(hidden_states)
        keys, values = (
            project(normed).unflatten(-1, (-1, attention.head_dim)) for project in (attention.k_proj, attention.v_proj)
        )
        if hasattr(attention, "k_norm"):
            keys = attention.k_norm(keys)
        keys = rotate_keys(keys.transpose(1, 2), *kwargs["position_embeddings"])
        cache.update(keys, values.transpose(1, 2), attention.layer_idx)
        return True


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
