"""Layers that only some tokens go through: those of certain senses, in Moments that have a certain sense.

A stage grows such layers (`Agent.grow`) if its lessons need more depth, and would undo earlier learning if they taught
the shared layers. Reading is an example, as a page has hundreds of tokens (docs/log.md, 2026-11-25). All other tokens
skip these layers, so a Moment without those senses gives exactly the same features as before. Tokens that go through
also attend to tokens that skipped. Each stage chooses the tokens of its layers. Weights by modality with shared
attention are those of Mixture-of-Transformers (Liang et al., 2024).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from devmind.agent.window import is_known, rotate_keys

Deep = tuple[Tensor | bool | None, ...]
"""For each stage with grown layers, in their order, which tokens go through them: bool [B, Q]; True: all; None: none
now, but their keys and values are kept for later tokens; False: none, and nothing is kept. Empty: all go through all
layers."""


def each(deep: Deep, change: Callable[[Tensor], Tensor | bool | None]) -> Deep:
    """`deep` with `change` applied to its tensors."""
    return tuple(change(one) if isinstance(one, Tensor) else one for one in deep)


class _Deeper:
    """Added to a decoder layer's class: `deep` says which tokens go through it; `group` is the number of its stage."""

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
        """Cache keys and values of tokens that skip the layer, at a sixth of its cost; False if that is impossible."""
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
    """Turn a transformers decoder layer into one that only some tokens go through; parameter names stay the same.

    Args:
        group: the number of the layer's stage, among the stages that have grown layers.
    """
    kind: Any = type(layer)
    layer.__class__ = _deeper(kind)
    layer.group = group  # type: ignore[assignment]


@cache
def _deeper(kind: Any) -> type[nn.Module]:
    return type(f"Deeper{kind.__name__}", (_Deeper, kind), {})
