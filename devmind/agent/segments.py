"""Runs a Batch through the trunk; with slots this is done in segments that carry the keys and values of W Moments.

Slots that enter at Moment t are computed from readouts up to t - H - 1. So a segment can go on until the first Moment
whose slots depend on the segment itself: it has at least H + 1 Moments, and W if the episodes of all rows begin
together. Gradients flow through slots, keys and values, so they equal those of one pass over the whole Batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, DynamicLayer

from devmind.agent.conditional_layers import Deep, each
from devmind.agent.slots import Slots
from devmind.agent.window import Asking, Columns, opening_moments, window_mask

Decode = Callable[[Tensor, Tensor, Tensor, Any, Deep], Tensor]
"""Tokens [B, Q, D], mask [B, 1, Q, K], positions [B, Q], a Cache or None, and a `Deep`, to features [B, Q, D]."""


class CarriedLayer(DynamicLayer):
    """One layer's keys and values [B, heads, S, D] so far, through which gradients flow."""

    def drop(self, n: int) -> None:
        """Drop the oldest `n` tokens, if there are any."""
        if self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[:, :, n:], self.values[:, :, n:]


_T = TypeVar("_T", Asking, Columns)
PACKED_BELOW = 0.8
"""If less than this share of a segment's tokens is present, the present ones are packed and only they are computed."""


class Carried:
    """Keys, values and columns of the segments that the next one can still see."""

    def __init__(self, layers: int) -> None:
        self.layers = [CarriedLayer() for _ in range(layers)]
        self.cache = Cache(layers=[*self.layers])
        self.segments: list[tuple[int, Columns]] = []

    def forget(self, before: int) -> None:
        """Drop segments whose Moments are all numbered below `before`."""
        while self.segments and self.segments[0][0] <= before:
            _, columns = self.segments.pop(0)
            for layer in self.layers:
                layer.drop(len(columns))


@dataclass
class Cut:
    """Where slots enter a Batch, and where it is cut into segments.

    Attributes:
        opened: for each Moment, the number of its episode's first Moment, int64 [B, T].
        tick: number of each Moment within its episode, int64 [B, T].
        entering: bool [B, T], slots enter; late: bool [B, T], slots enter that have been written (j >= 2).
        starts: number of each segment's first Moment.
    """

    opened: Tensor
    tick: Tensor
    entering: Tensor
    late: Tensor
    starts: list[int]


def cut_at(first: Tensor, half: int | None) -> Cut:
    """Where slots enter and segments start, from `first` bool [B, T]; without slots (None) there is one segment."""
    opened = opening_moments(first)
    tick = torch.arange(first.shape[1], device=first.device) - opened
    if half is None:
        never = torch.zeros_like(first)
        return Cut(opened, tick, never, never, [0])
    entering = tick % half == 0
    late = entering & (tick >= 2 * half)
    starts = [0]
    for moment in late.any(0).nonzero().squeeze(-1).tolist():
        if moment > starts[-1] + half:
            starts.append(moment)
    return Cut(opened, tick, entering, late, starts)


def run(
    slots: Slots | None,
    window: int,
    limit: int | None,
    layers: int,
    tokens: Tensor,
    present: Tensor,
    first: Tensor,
    decode: Decode,
    deep: Deep = (),
) -> Tensor:
    """Features [B, T, n, D] of the tokens of T consecutive Moments; slots enter among them, and have no feature here.

    Args:
        window, limit: as for `window_mask`.
        tokens: [B, T, n, D], the last one of each Moment is its readout; present: bool [B, T, n]; first: bool [B, T].
        deep: as for `Trunk.forward`, with bool [B, T, n]; slots skip grown layers.
    """
    count = 0 if slots is None else len(slots)
    cut = cut_at(first, None if slots is None else slots.every)
    length, n = tokens.shape[1:3]
    offset = _offsets(present.sum(-1) + count * cut.entering, cut.opened)
    # If the episodes of all rows begin together, one row of Moment numbers serves all rows.
    lines = 1 if bool((cut.opened == cut.opened[:1]).all()) else len(tokens)
    carried = Carried(layers)
    cache = carried.cache if len(cut.starts) > 1 else None
    features: list[Tensor] = []
    current = None if slots is None else slots.initial.expand(len(tokens), -1, -1)
    for start, stop in pairwise([*cut.starts, length]):
        flat = tokens[:, start:stop].flatten(1, 2)
        through = _between(deep, start, stop)
        when: Tensor | None = None
        if slots is not None and current is not None:
            when, entries, current = _entries(slots, cut, start, stop, features, current)
            through = _behind(entries.shape[1] * entries.shape[2], through)
            flat = torch.cat((entries.flatten(1, 2), flat), 1)
        asking, mine = number_tokens(count, present, cut, offset, when, lines, start, stop)
        packed = _packing(mine.valid)
        if packed is not None:
            asking, mine = _gather(asking, packed), _gather(mine, packed)
        carried.forget(start - window + 1)
        seen = _join([*(columns for _, columns in carried.segments), mine])
        mask = window_mask(asking, seen, window, limit)
        if packed is None:
            found = decode(flat, mask, asking.position, cache, through)
        else:
            wide = packed[..., None].expand(-1, -1, flat.shape[2])
            some = decode(flat.gather(1, wide), mask, asking.position, cache, _gathered(through, packed))
            found = some.new_zeros(flat.shape).scatter(1, wide, some)
        features.append(found[:, -(stop - start) * n :].unflatten(1, (stop - start, n)))
        carried.segments.append((stop, mine))
    return features[0] if len(features) == 1 else torch.cat(features, 1)


def _between(deep: Deep, start: int, stop: int) -> Deep:
    return each(deep, lambda one: one[:, start:stop].flatten(1))


def _behind(slots: int, deep: Deep) -> Deep:
    return each(deep, lambda one: nn.functional.pad(one, (slots, 0)))


def _gathered(deep: Deep, index: Tensor) -> Deep:
    return each(deep, lambda one: one.gather(1, index))


def _packing(valid: Tensor) -> Tensor | None:
    """Indices of the tokens to compute, int64 [B, P], present ones first, from valid bool [B, S]; None: all."""
    most = int(valid.sum(1).amax())
    if most >= PACKED_BELOW * valid.shape[1]:
        return None
    return (~valid).to(torch.uint8).argsort(dim=1, stable=True)[:, :most]


def _gather(tokens: _T, index: Tensor) -> _T:
    """Every field [B or 1, S] at index [B, P]."""
    return type(tokens)(**{name: x.expand(len(index), -1).gather(1, index) for name, x in vars(tokens).items()})


def _join(columns: Sequence[Columns]) -> Columns:
    """Columns, concatenated; a field of one row is expanded if others have B rows."""
    if len(columns) == 1:
        return columns[0]

    def joined(name: str) -> Tensor:
        each = [getattr(one, name) for one in columns]
        rows = max(len(one) for one in each)
        return torch.cat([one.expand(rows, -1) for one in each], 1)

    return Columns(*(joined(name) for name in ("moment", "order", "begins", "valid")))


def _offsets(count: Tensor, opened: Tensor) -> Tensor:
    """Position of each Moment's first present token, int64 [B, T], from the numbers of present tokens."""
    before = count.cumsum(1) - count
    return before - before.gather(1, opened)


def _entries(
    slots: Slots, cut: Cut, start: int, stop: int, features: list[Tensor], current: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Slots that enter Moments [start, stop): Moments int64 [B, E] (-1: none), slots [B, E, K, D], and the last one."""
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
    # In some segments no slots enter.
    shape = (len(when), 0, *slots.initial.shape)
    return when, torch.stack(entries, 1) if entries else slots.initial.new_zeros(shape), current


def number_tokens(
    count: int, present: Tensor, cut: Cut, offset: Tensor, when: Tensor | None, lines: int, start: int, stop: int
) -> tuple[Asking, Columns]:
    """The numbers of the segment's tokens that the mask uses: entering slots first, then the tokens of Moments.

    Args:
        count: K, the number of slots; when: int64 [B, E], the Moments that they enter, -1 for none.
        lines: number of rows of Moment numbers, B, or 1 if they are the same for all rows.
    """
    n, device = present.shape[2], present.device
    moment = torch.arange(start, stop, device=device).repeat_interleave(n).expand(lines, -1)
    order = (count + torch.arange(n, device=device)).repeat(stop - start).expand(lines, -1)
    valid, begins = present[:, start:stop].flatten(1), offset[:, start:stop].repeat_interleave(n, 1)
    own = present[:, start:stop].cumsum(-1) - 1 + count * cut.entering[:, start:stop, None]
    position = (offset[:, start:stop, None] + own).clamp_min(0).flatten(1)
    if when is not None:
        index = torch.arange(count, device=device)
        entered = offset.gather(1, when.clamp_min(0))
        moment = torch.cat((when[:lines].repeat_interleave(count, 1), moment), 1)
        order = torch.cat((index.repeat(when.shape[1]).expand(lines, -1), order), 1)
        valid = torch.cat(((when >= 0).repeat_interleave(count, 1), valid), 1)
        begins = torch.cat((entered.repeat_interleave(count, 1), begins), 1)
        position = torch.cat(((entered[..., None] + index).flatten(1), position), 1)
    opened = cut.opened[:lines].gather(1, moment.clamp_min(0))
    return Asking(moment, order, opened, position), Columns(moment, order, begins, valid)
