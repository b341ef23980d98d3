"""A Batch through a trunk with slots: segment by segment, the last W Moments' keys and values carried along.

Slots that enter at Moment t are made of readouts up to t - H - 1, so a segment may go on until the first Moment whose
slots would be made of the segment itself: it has H + 1 Moments at least, and W where all rows' episodes start together.
Gradients flow through the slots and through what is carried, so they are those of one pass over the whole Batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from devmind.agent.slots import Slots
from devmind.agent.window import opening_moments, window_mask

Decode = Callable[[Tensor, Tensor, Tensor, Any], Tensor]
"""Tokens [B, Q, D], mask [B, 1, Q, K], positions [B, Q] and a Cache or None to features [B, Q, D]."""


class CarriedLayer(CacheLayerMixin):
    """One layer's keys and values [B, heads, S, D] so far: `update` appends, gradients flow through."""

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys, self.values, self.is_initialized = key_states, value_states, True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        else:
            assert self.keys is not None
            assert self.values is not None
            self.keys = torch.cat((self.keys, key_states), 2)
            self.values = torch.cat((self.values, value_states), 2)
        return self.keys, self.values  # type: ignore[return-value]

    def drop(self, n: int) -> None:
        """Forget the oldest `n` tokens."""
        assert self.keys is not None
        assert self.values is not None
        self.keys, self.values = self.keys[:, :, n:], self.values[:, :, n:]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0

    def get_seq_length(self) -> int:
        return self.keys.shape[2] if self.is_initialized and self.keys is not None else 0

    def get_max_length(self) -> int:
        return -1


@dataclass
class Columns:
    """Tokens as the mask sees them: number of the Moment and order in it [B or 1, S], presence [B, S]."""

    moment: Tensor
    order: Tensor
    valid: Tensor

    def __len__(self) -> int:
        return self.moment.shape[1]

    def after(self, others: list[Columns]) -> Columns:
        """These columns behind others."""
        every = [*others, self]
        return Columns(*(torch.cat([getattr(one, name) for one in every], 1) for name in ("moment", "order", "valid")))


class Carried:
    """Keys, values and columns of the segments that the next one can still see."""

    def __init__(self, layers: int) -> None:
        self.layers = [CarriedLayer() for _ in range(layers)]
        self.cache = Cache(layers=[*self.layers])
        self.segments: list[tuple[int, Columns]] = []

    def forget(self, before: int) -> None:
        """Drop segments all of whose Moments are numbered below `before`."""
        while self.segments and self.segments[0][0] <= before:
            _, columns = self.segments.pop(0)
            for layer in self.layers:
                layer.drop(len(columns))


@dataclass
class Plan:
    """Where slots enter a Batch, and how it is cut.

    Attributes:
        opened: number of the Moment that opened each Moment's episode, int64 [B, T].
        tick: of each Moment within its episode, int64 [B, T].
        entering: bool [B, T], slots enter; late: bool [B, T], they were written (j >= 2).
        starts: the number of each segment's first Moment.
    """

    opened: Tensor
    tick: Tensor
    entering: Tensor
    late: Tensor
    starts: list[int]


def plan(first: Tensor, half: int) -> Plan:
    """Where slots enter and segments start, from `first` bool [B, T]."""
    opened = opening_moments(first)
    tick = torch.arange(first.shape[1], device=first.device) - opened
    entering = tick % half == 0
    late = entering & (tick >= 2 * half)
    starts = [0]
    for moment in late.any(0).nonzero().squeeze(-1).tolist():
        if moment > starts[-1] + half:
            starts.append(moment)
    return Plan(opened, tick, entering, late, starts)


def run(
    slots: Slots, window: int, layers: int, tokens: Tensor, present: Tensor, first: Tensor, decode: Decode
) -> Tensor:
    """Features [B, T, n, D] of T consecutive Moments, slots included where they enter.

    Args:
        tokens: [B, T, n, D], the last one of each Moment its readout; present: bool [B, T, n]; first: bool [B, T].
    """
    cut = plan(first, slots.every)
    length, n = tokens.shape[1:3]
    offset = _offsets(present.sum(-1) + len(slots) * cut.entering, cut.opened)
    # Where all rows open their episodes alike, one row says for all which Moments a token may see.
    lines = 1 if bool((cut.opened == cut.opened[:1]).all()) else len(tokens)
    carried = Carried(layers)
    cache = carried.cache if len(cut.starts) > 1 else None
    features: list[Tensor] = []
    current = slots.initial.expand(len(tokens), -1, -1)
    for start, stop in pairwise([*cut.starts, length]):
        when, entries, current = _entries(slots, cut, start, stop, features, current)
        mine = _columns(len(slots), present, when, lines, start, stop)
        position = _positions(len(slots), present, cut, offset, when, start, stop)
        carried.forget(start - window + 1)
        seen = mine.after([columns for _, columns in carried.segments])
        asking = cut.opened[:lines].gather(1, mine.moment.clamp_min(0))
        mask = window_mask(mine.moment, mine.order, asking, seen.moment, seen.order, seen.valid, window)
        flat = torch.cat((entries.flatten(1, 2), tokens[:, start:stop].flatten(1, 2)), 1)
        found = decode(flat, mask, position, cache)
        features.append(found[:, entries.shape[1] * len(slots) :].unflatten(1, (stop - start, n)))
        carried.segments.append((stop, mine))
    return features[0] if len(features) == 1 else torch.cat(features, 1)


def _offsets(count: Tensor, opened: Tensor) -> Tensor:
    """Position of each Moment's first present token, int64 [B, T], from the number of its present tokens."""
    before = count.cumsum(1) - count
    return before - before.gather(1, opened)


def _entries(
    slots: Slots, cut: Plan, start: int, stop: int, features: list[Tensor], current: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The slots that enter Moments [start, stop): when int64 [B, E] (-1: no more), what [B, E, K, D], and the last."""
    entering = cut.entering[:, start:stop]
    most = int(entering.sum(1).max())
    number = torch.arange(start, stop, device=entering.device).expand_as(entering)
    when = torch.where(entering, number, stop).sort(1).values[:, :most]
    when = torch.where(when < stop, when, -1)
    # A Moment's readout is its last token.
    readouts = torch.cat([one[:, :, -1] for one in features], 1) if features else None
    entries = []
    for moment in when.unbind(1):
        late = cut.late.gather(1, moment.clamp_min(0)[:, None]).squeeze(1) & (moment >= 0)
        rows = late.nonzero().squeeze(-1)
        if len(rows) and readouts is not None:
            at = moment[rows, None] - 2 * slots.every + torch.arange(slots.every, device=moment.device)
            tick = cut.tick[rows, moment[rows]]
            current = current.index_put((rows,), slots.advance(current[rows], tick, readouts[rows[:, None], at]))
        entries.append(torch.where(late[:, None, None], current, slots.initial))
    # Rows that are in the middle of their first segments have none.
    shape = (len(when), 0, *slots.initial.shape)
    return when, torch.stack(entries, 1) if entries else slots.initial.new_zeros(shape), current


def _columns(count: int, present: Tensor, when: Tensor, lines: int, start: int, stop: int) -> Columns:
    """The segment's tokens as the mask sees them, slots before the Moments' own; `lines` rows of numbers (B or 1)."""
    n, device = present.shape[2], present.device
    of_slots = Columns(
        when[:lines].repeat_interleave(count, 1),
        torch.arange(count, device=device).repeat(when.shape[1]).expand(lines, -1),
        (when >= 0).repeat_interleave(count, 1),
    )
    of_senses = Columns(
        torch.arange(start, stop, device=device).repeat_interleave(n).expand(lines, -1),
        (count + torch.arange(n, device=device)).repeat(stop - start).expand(lines, -1),
        present[:, start:stop].flatten(1),
    )
    return of_senses.after([of_slots])


def _positions(count: int, present: Tensor, cut: Plan, offset: Tensor, when: Tensor, start: int, stop: int) -> Tensor:
    """The positions int64 [B, Q] of the same tokens."""
    index = torch.arange(count, device=present.device)
    entered = (offset.gather(1, when.clamp_min(0))[..., None] + index).flatten(1)
    own = present[:, start:stop].cumsum(-1) - 1 + count * cut.entering[:, start:stop, None]
    return torch.cat((entered, (offset[:, start:stop, None] + own).clamp_min(0).flatten(1)), 1)
