"""The window: which tokens a token may see, at which position it stands, and how cached keys are moved.

One mask function serves both ways of running the trunk, so stepping with state and running all at once cannot drift
apart: it is applied to the tokens themselves, or to the columns of the ring (`ring.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_NEEDED = ("q_proj", "k_proj", "v_proj", "head_dim", "scaling")
_UNKNOWN = ("attn_logit_softcapping", "sinks")
"""Attention with one of these is another function than softmax(q k)."""


@dataclass
class Asking:
    """Tokens that look, int64 [B or 1, Q]; of a single Moment `moment` and `opened` may be [B, 1].

    Attributes:
        moment, order: number of the token's Moment, and its index in it.
        opened: number of the Moment that opened its episode.
        position: its place among the present tokens of its episode.
    """

    moment: Tensor
    order: Tensor
    opened: Tensor
    position: Tensor


@dataclass
class Columns:
    """Tokens that are looked at, int64 [B or 1, K].

    Attributes:
        moment, order: number of the token's Moment, and its index in it.
        begins: position of the first token of its Moment.
        valid: which of them are present, bool [B, K].
    """

    moment: Tensor
    order: Tensor
    begins: Tensor
    valid: Tensor

    def __len__(self) -> int:
        return self.moment.shape[1]


def window_mask(asking: Asking, seen: Columns, window: int, limit: int | None = None) -> Tensor:
    """Which tokens may be seen, bool [B, 1, Q, K], true where visible.

    A token sees the present tokens of its own Moment up to itself, and those of earlier whole Moments of its episode:
    of at most `window` - 1 of them, and of only as many as fit into `limit` tokens, all up to itself counted. It
    always sees itself, so that an absent token's row is no softmax over nothing.

    How many tokens its own Moment will have in the end plays no part: a Moment may still be growing.
    """
    moment, order = asking.moment[:, :, None], asking.order[:, :, None]
    seen_moment, seen_order = seen.moment[:, None], seen.order[:, None]
    same = seen_moment == moment
    before = (seen_moment < moment) & (seen_moment > moment - window) & (seen_moment >= asking.opened[:, :, None])
    # Fewer tokens than the limit in all: no Moment can be beyond it.
    if limit is not None and len(seen) > limit:
        before = before & (asking.position[:, :, None] - seen.begins[:, None] < limit)
    return ((before | (same & (seen_order <= order))) & seen.valid[:, None] | (same & (seen_order == order)))[:, None]


def opening_moments(first: Tensor) -> Tensor:
    """The number of the Moment that opened each Moment's episode, int64 [B, T], from `first` bool [B, T]."""
    number = torch.arange(first.shape[1], device=first.device).expand_as(first)
    return torch.where(first, number, 0).cummax(1).values


def rotate_keys(keys: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary rotation of keys [B, H, S, D] by the angles of cos and sin [B, 1, R], R <= D (Su et al., 2021)."""
    size = cos.shape[-1]
    turned, rest = keys[..., :size].float(), keys[..., size:]
    half = torch.cat((-turned[..., size // 2 :], turned[..., : size // 2]), -1)
    turned = turned * cos[:, None].float() + half * sin[:, None].float()
    return torch.cat((turned.to(keys.dtype), rest), -1)


def is_known(attention: Any) -> bool:
    """Whether attention is softmax(q k) of Llama's and Qwen's kind, so that its parts may be computed one by one."""
    if not all(hasattr(attention, name) for name in _NEEDED):
        return False
    norm = getattr(attention, "q_norm", None)
    by_head = norm is None or norm.weight.shape[-1] == attention.head_dim
    return by_head and not any(getattr(attention, name, None) is not None for name in _UNKNOWN)
