"""The window: which tokens a token may see, at which position it stands, and how cached keys are moved.

One mask function serves both ways of running the trunk, so stepping with state and running all at once cannot drift
apart: it is applied to the tokens themselves, or to the slots of the ring (`ring.py`).
"""

from __future__ import annotations

import torch
from torch import Tensor


def window_mask(
    moment: Tensor, order: Tensor, start: Tensor, seen_moment: Tensor, seen_order: Tensor, valid: Tensor, window: int
) -> Tensor:
    """Which tokens may be seen, bool [B, 1, Q, K], true where visible.

    A token sees the present tokens of its own Moment up to itself and of the `window` - 1 Moments before it, never
    beyond its episode's first. It always sees itself, so that an absent token's row is no softmax over nothing.

    Args:
        moment, order, start: of the asking tokens, int64 [B or 1, Q]: number of the Moment, index in it, number of the
            Moment that opened the episode.
        seen_moment, seen_order: of the tokens seen, int64 [B or 1, K].
        valid: which of these are present, bool [B, K].
    """
    moment, order, start = moment[:, :, None], order[:, :, None], start[:, :, None]
    seen_moment, seen_order, valid = seen_moment[:, None], seen_order[:, None], valid[:, None]
    same = seen_moment == moment
    before = (seen_moment < moment) & (seen_moment > moment - window) & (seen_moment >= start)
    return ((before | (same & (seen_order <= order))) & valid | (same & (seen_order == order)))[:, None]


def present_positions(present: Tensor, opened: Tensor) -> Tensor:
    """Positions counted over present tokens since the episode's first Moment, int64 [B, T, n].

    Args:
        present: bool [B, T, n]; opened: number of the Moment that opened the episode of each Moment, int64 [B, T].
    """
    count = present.sum(-1)
    before = count.cumsum(1) - count
    offset = before - before.gather(1, opened)
    return (offset[..., None] + present.cumsum(-1) - 1).clamp_min(0)


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
