"""The window: which tokens a token may see, its position, and how cached keys are moved.

Both ways of running the trunk use the same mask function, so that their results agree: it is applied to the tokens of a
Batch, or to the columns of the ring (`ring.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from devmind.errors import DevmindError

_NEEDED = ("q_proj", "k_proj", "v_proj", "head_dim", "scaling")
_UNKNOWN = ("attn_logit_softcapping", "sinks")
"""Attention with one of these is not plain softmax(q k)."""


@dataclass
class Asking:
    """Tokens as queries, int64 [B or 1, Q]; for a single Moment `moment` and `opened` may be [B, 1].

    Attributes:
        moment, order: number of the token's Moment, and its index in it.
        opened: number of its episode's first Moment.
        position: its place among the present tokens of its episode.
    """

    moment: Tensor
    order: Tensor
    opened: Tensor
    position: Tensor


@dataclass
class Columns:
    """Tokens as keys, int64 [B or 1, K].

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
    """The attention mask, bool [B, 1, Q, K], true where a token may be seen.

    A token sees the present tokens of its own Moment up to itself, and those of earlier Moments of its episode: of at
    most `window` - 1 Moments, and only of whole Moments that fit into `limit` tokens, counted up to the token itself.
    It always sees itself, so that the softmax of an absent token is defined.

    Later tokens of its own Moment do not count, because a Moment may still be growing.
    """
    moment, order = asking.moment[:, :, None], asking.order[:, :, None]
    seen_moment, seen_order = seen.moment[:, None], seen.order[:, None]
    same = seen_moment == moment
    before = (seen_moment < moment) & (seen_moment > moment - window) & (seen_moment >= asking.opened[:, :, None])
    # With fewer tokens than the limit, no Moment can be beyond it.
    if limit is not None and len(seen) > limit:
        before = before & (asking.position[:, :, None] - seen.begins[:, None] < limit)
    return ((before | (same & (seen_order <= order))) & seen.valid[:, None] | (same & (seen_order == order)))[:, None]


def for_attention(mask: Tensor, kind: str, dtype: torch.dtype) -> Tensor:
    """A bool mask in the form that a decoder's attention needs: as it is for sdpa, 0 and -inf of `dtype` for eager,
    which adds the mask, so that a bool one would hide nothing.

    Raises:
        DevmindError: attention of another `kind` is not known to keep to such a mask.
    """
    if kind == "sdpa":
        return mask
    if kind != "eager":
        raise DevmindError(
            f"The trunk runs with the attention 'sdpa' or 'eager', which keep to its window; this agent is set to "
            f"'{kind}'. Call set_attn_implementation('sdpa'), or 'eager' to see attention weights."
        )
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -torch.inf)


def opening_moments(first: Tensor) -> Tensor:
    """For each Moment, the number of its episode's first Moment, int64 [B, T], from `first` bool [B, T]."""
    number = torch.arange(first.shape[1], device=first.device).expand_as(first)
    return torch.where(first, number, 0).cummax(1).values


def rotate_keys(keys: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate keys [B, H, S, D] by the rotary angles of cos and sin [B, 1, R], R <= D (Su et al., 2021)."""
    size = cos.shape[-1]
    turned, rest = keys[..., :size].float(), keys[..., size:]
    half = torch.cat((-turned[..., size // 2 :], turned[..., : size // 2]), -1)
    turned = turned * cos[:, None].float() + half * sin[:, None].float()
    return torch.cat((turned.to(keys.dtype), rest), -1)


def is_known(attention: Any) -> bool:
    """Whether attention is softmax(q k) of Llama's or Qwen's kind, so that its parts can be computed one by one."""
    if not all(hasattr(attention, name) for name in _NEEDED):
        return False
    norm = getattr(attention, "q_norm", None)
    by_head = norm is None or norm.weight.shape[-1] == attention.head_dim
    return by_head and not any(getattr(attention, name, None) is not None for name in _UNKNOWN)
