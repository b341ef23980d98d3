"""The trunk: a transformers decoder with RoPE (`decoders.py`) over tokens of Moments, in Batches or tick by tick.

Both ways use the same window mask (`ring.py`). Slots, if there are any, enter here (`slots.py`). With slots a Batch
is run in segments that carry the keys and values of W Moments: slots that enter at Moment t are computed from readouts
up to t - H - 1, so a segment can go on until the first Moment whose slots depend on the segment itself. It has at least
H + 1 Moments, and W if the episodes of all rows begin together. Gradients flow through slots, keys and values, so they
equal those of one pass over the whole Batch.

Some layers are for some tokens only: those of certain senses, in Moments that have a certain sense. A stage grows such
layers (`Agent.grow`) if its lessons need more depth, and would undo earlier learning if they taught the shared layers.
Reading is an example, as a page has hundreds of tokens (docs/log.md, 2026-11-25). All other tokens skip these layers,
so a Moment without those senses gives exactly the same features as before. Tokens that go through also attend to tokens
that skipped. Each stage chooses the tokens of its layers. Weights by modality with shared attention are those of
Mixture-of-Transformers (Liang et al., 2024).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, DynamicLayer

from devmind.agent.config import AgentConfig
from devmind.agent.decoders import angles_back, build_decoder, set_neurons, zero_outputs
from devmind.agent.encoders import named_seed
from devmind.agent.ring import (
    Asking,
    Columns,
    Ring,
    for_attention,
    is_known,
    opening_moments,
    rotate_keys,
    window_mask,
)
from devmind.agent.slots import Slots, SlotState
from devmind.seeding import derive_seed

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


# -- segments of a batch ----------------------------------------------------------------------------------------------


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


# -- the trunk --------------------------------------------------------------------------------------------------------


class Trunk(nn.Module):
    """Tokens of Moments in, features of the same shape out; a pretrained decoder's width is adapted by projections."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__()
        self.window, self.limit, self.rebase_at = config.window, config.window_tokens, config.rebase_at
        self.decoder: Any = build_decoder(config)
        self.grown = len(config.grown)
        layers: Any = self.decoder.layers
        for layer, neurons in zip(layers, config.neurons, strict=False):
            set_neurons(layer.mlp, neurons)
        groups = list(dict.fromkeys(config.grown))
        for layer, stage in zip(layers[self.n_layers - self.grown :], config.grown, strict=True):
            deepen(layer, groups.index(stage))
        width = self.decoder.config.hidden_size
        if width == config.width:
            self.inlet: nn.Module = nn.Identity()
            self.outlet: nn.Module = nn.Identity()
        else:
            self.inlet, self.outlet = nn.Linear(config.width, width), nn.Linear(width, config.width)
        self.slots: Slots | None = None
        if config.slots:
            with named_seed(config.seed, "slots"):
                self.slots = Slots(config.slots, config.width, config.attention_heads, config.slots_every or 1)

    @property
    def n_layers(self) -> int:
        """The present number of decoder layers."""
        return len(self.decoder.layers)

    def forward(
        self,
        tokens: Tensor,
        present: Tensor,
        first: Tensor,
        short_term: bool = True,
        deep: Deep = (),
        slots: bool = True,
    ) -> Tensor:
        """Features of T consecutive Moments under the window mask; with slots, segment by segment.

        Args:
            tokens: [B, T, n, D]; present: bool [B, T, n]; first: bool [B, T].
            short_term: False runs every Moment by itself, without slots.
            deep: tokens that go through grown layers, with bool [B, T, n]; by default all do.
            slots: False: no slots enter, for tokens whose last one is not a readout.

        Returns:
            [B, T, n, D]; features of absent tokens have no meaning.
        """
        if short_term:
            return self._run(self.slots if slots else None, tokens, present, first, deep)
        alone = tokens.flatten(0, 1)[:, None], present.flatten(0, 1)[:, None], first.reshape(-1, 1)
        return self._run(None, *alone, each(deep, lambda one: one.flatten(0, 1)[:, None])).reshape(tokens.shape)

    def _run(self, slots: Slots | None, tokens: Tensor, present: Tensor, first: Tensor, deep: Deep) -> Tensor:
        """Features [B, T, n, D] of tokens [B, T, n, D] of T consecutive Moments, present bool [B, T, n], first bool
        [B, T]; the last token of each Moment is its readout. Slots enter among them, and have no feature here; they
        skip grown layers.
        """
        # If no token of the Batch goes through a stage's layers, nothing has to be kept for later tokens.
        deep = each(deep, lambda one: bool(one.any()) and one)
        count = 0 if slots is None else len(slots)
        cut = cut_at(first, None if slots is None else slots.every)
        length, n = tokens.shape[1:3]
        offset = _offsets(present.sum(-1) + count * cut.entering, cut.opened)
        # If the episodes of all rows begin together, one row of Moment numbers serves all rows.
        lines = 1 if bool((cut.opened == cut.opened[:1]).all()) else len(tokens)
        carried = Carried(self.n_layers)
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
            carried.forget(start - self.window + 1)
            seen = _join([*(columns for _, columns in carried.segments), mine])
            mask = window_mask(asking, seen, self.window, self.limit)
            if packed is None:
                found = self._decode(flat, mask, asking.position, cache, through)
            else:
                wide = packed[..., None].expand(-1, -1, flat.shape[2])
                some = self._decode(flat.gather(1, wide), mask, asking.position, cache, _gathered(through, packed))
                found = some.new_zeros(flat.shape).scatter(1, wide, some)
            features.append(found[:, -(stop - start) * n :].unflatten(1, (stop - start, n)))
            carried.segments.append((stop, mine))
        return features[0] if len(features) == 1 else torch.cat(features, 1)

    def step(
        self,
        tokens: Tensor,
        present: Tensor,
        first: Tensor,
        ring: Ring,
        carried: SlotState | None = None,
        deep: Deep = (),
        closes: bool = True,
    ) -> Tensor:
        """Features [B, n, D] of a Moment's tokens, which are written into `ring` (it is consumed).

        Args:
            tokens: [B, n, D], the last one the readout if the Moment closes; present: bool [B, n]; first: bool [B].
            carried: slots, which enter at their ticks and store the readout (they are consumed); None: no slots.
            deep: tokens that go through grown layers, with bool [B, n]; by default all do.
            closes: False leaves the Moment open, for `extend` and then `end`.
        """
        n = tokens.shape[1]
        ring.begin(first)
        entering = None if carried is None or self.slots is None else carried.enter(self.slots, first)
        if entering is not None:
            slots, rows = entering
            tokens = torch.cat((slots, tokens), 1)
            present = torch.cat((rows[:, None].expand(-1, slots.shape[1]), present), 1)
            before = slots.shape[1]
            deep = each(deep, lambda one: nn.functional.pad(one, (before, 0)))
        features = self.extend(tokens, present, ring, deep)[:, tokens.shape[1] - n :]
        if closes:
            self.end(features[:, -1], ring, carried)
        return features

    def extend(self, tokens: Tensor, present: Tensor, ring: Ring, deep: Deep = ()) -> Tensor:
        """Features [B, n, D] of further tokens of the open Moment, tokens [B, n, D], present bool [B, n]."""
        if not tokens.shape[1]:
            return tokens
        if ring.highest + tokens.shape[1] > self.rebase_at:
            shift = ring.oldest_position()
            ring.rebase(*angles_back(self.decoder, shift), shift)
        position, mask = ring.write(present)
        deep = each(deep, lambda one: one if bool(one.any()) else None)
        return self._decode(tokens, mask, position, ring.cache, deep)

    def end(self, readout: Tensor, ring: Ring, carried: SlotState | None = None) -> None:
        """Close the Moment; readout [B, D] is the feature of its last token, which is later written into slots."""
        ring.end()
        if carried is not None and self.slots is not None:
            carried.keep(readout)

    def _decode(self, tokens: Tensor, mask: Tensor, position: Tensor, cache: Cache | None, deep: Deep) -> Tensor:
        inputs = self.inlet(tokens)
        output = self.decoder(
            inputs_embeds=inputs,
            attention_mask=for_attention(mask, self.decoder.config._attn_implementation, inputs.dtype),
            position_ids=position,
            past_key_values=cache,
            use_cache=cache is not None,
            **({"deep": deep} if self.grown else {}),
        )
        return self.outlet(output.last_hidden_state)

    def both_ways(self, tokens: Tensor) -> Tensor:
        """Features of tokens [B, T, D] that all see one another, without causality, window or state.

        Grown layers are skipped, since each stage grows them for certain tokens.
        """
        b, t = tokens.shape[:2]
        mask = torch.ones(b, 1, t, t, dtype=torch.bool, device=tokens.device)
        position = torch.arange(t, device=tokens.device).expand(b, t)
        grown: Any = self.decoder.layers[self.n_layers - self.grown :]
        return self._decode(tokens, mask, position, None, (False,) * len({layer.group for layer in grown}))

    def grow(self, layers: int, seed: int, group: int = 0) -> None:
        """Append decoder layers whose output projections are zero, so that features do not change at first.

        Args:
            group: as for `deepen`.
        """
        config = self.decoder.config
        for index in range(self.n_layers, self.n_layers + layers):
            config.num_hidden_layers = index + 1
            if getattr(config, "layer_types", None):
                config.layer_types = [*config.layer_types, config.layer_types[-1]]
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(derive_seed(seed, "trunk", "layer", index))
                layer = type(self.decoder.layers[0])(config, index)
                layer.apply(self.decoder._init_weights)
            zero_outputs(layer)
            deepen(layer, group)
            self.decoder.layers.append(layer.to(self.decoder.device, self.decoder.dtype))
        self.grown += layers
