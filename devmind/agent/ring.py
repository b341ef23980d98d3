"""The window: which tokens a token may see, its position, and the ring that holds them between ticks.

Both ways of running the trunk use the same mask function, so that their results agree: it is applied to the tokens of a
Batch, or to the columns of the ring. The ring is short-term memory: the keys and values of the tokens of the last W
Moments of B agents. Rows are independent: each has its own clock, its own Moments with any number of tokens, and its
own columns. A column whose token has left the window of its row is reused for the row's next token, so the ring is
little wider than its fullest row. The column itself has no meaning: the mask uses the token's Moment and its place in
that Moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from devmind.agent.rows import Index, as_index
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


# -- the ring ---------------------------------------------------------------------------------------------------------

_CLOCKS = ("tick", "opened", "position", "begins", "order", "is_open", "sensed")
_COLUMNS = ("moment", "seen_order", "seen_begins", "valid")
_SPARE = 1.25
"""A ring that is too narrow grows at least by this factor, so that it seldom grows."""


class RingLayer(CacheLayerMixin):
    """One layer's keys and values [B, H, C, D] in fixed buffers; `update` writes the ring's columns and returns all."""

    keys: Tensor
    values: Tensor

    def __init__(self, ring: Ring) -> None:
        super().__init__()
        self.ring = ring

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        # Buffers that are made under inference_mode could not be written outside of it.
        with torch.inference_mode(False):
            heads, capacity = key_states.shape[1], self.ring.valid.shape[1]
            self.keys = key_states.new_zeros(len(self.ring), heads, capacity, key_states.shape[-1])
            self.values = value_states.new_zeros(len(self.ring), heads, capacity, value_states.shape[-1])
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        for buffer, states in ((self.keys, key_states), (self.values, value_states)):
            if isinstance(self.ring.columns, slice):
                buffer[:, :, self.ring.columns] = states
            elif self.ring.columns.ndim == 1:
                buffer.index_copy_(2, self.ring.columns, states)
            else:
                index = self.ring.columns[:, None, :, None].expand(-1, states.shape[1], -1, states.shape[3])
                buffer.scatter_(2, index, states)
        return self.keys[:, :, : self.ring.filled], self.values[:, :, : self.ring.filled]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.ring.filled, 0

    def get_seq_length(self) -> int:
        return self.ring.filled if self.is_initialized else 0

    def get_max_length(self) -> int:
        return -1


class Ring:
    """The last W Moments of B agents, with at most `limit` tokens of each agent.

    A Moment is opened by `begin`, filled by any number of `write`s and closed by `end`.

    Attributes:
        window, limit: W in Moments, and the most tokens of a row that one token can see (None: any number).
        tick: int64 [B], number of the open Moment, or of the next one.
        opened: int64 [B], number of the first Moment of the current episode.
        position: int64 [B], position of the next present token; begins: that of the current Moment's first token.
        order: int64 [B], index of the next token in its Moment; is_open: bool [B], whether the Moment is open.
        sensed: int64 [B], a bit for each sense that gives tokens access to grown layers: whether the Moment has it.
        moment, seen_order, seen_begins: int64 [B, C]; valid: bool [B, C]: the tokens in the columns (`Columns`).
        columns: those of the last write: a slice or int64 [n] if they are the same in all rows, else int64 [B, n].
        filled: this column and all later ones are empty.
        highest: an upper bound of all positions (kept on the host, so that a tick need not wait for the device).
    """

    tick: Tensor
    opened: Tensor
    position: Tensor
    begins: Tensor
    order: Tensor
    is_open: Tensor
    sensed: Tensor
    moment: Tensor
    seen_order: Tensor
    seen_begins: Tensor
    valid: Tensor

    def __init__(self, n: int, window: int, layers: int, device: torch.device, limit: int | None = None) -> None:
        self.window, self.limit, self.highest, self.filled = window, limit, 0, 0
        self.columns: slice | Tensor = slice(0, 0)
        # Buffers that are made under inference_mode could not be written outside of it.
        with torch.inference_mode(False):
            for name in _CLOCKS:
                setattr(self, name, torch.zeros(n, dtype=torch.int64, device=device))
            self.is_open = self.is_open.bool()
            for name in _COLUMNS:
                setattr(self, name, torch.zeros(n, 0, dtype=torch.int64, device=device))
            self.valid = self.valid.bool()
        self.layers = [RingLayer(self) for _ in range(layers)]
        self.cache = Cache(layers=[*self.layers])

    def __len__(self) -> int:
        return len(self.tick)

    # -- one Moment ----------------------------------------------------------------------------------------------

    def begin(self, first: Tensor) -> None:
        """Open the next Moment of every row; `first` bool [B]: it begins an episode.

        Raises:
            DevmindError: a row's Moment is still open.
        """
        if bool(self.is_open.any()):
            raise DevmindError("A Moment is still open in this state: close it with `end` before the next one begins.")
        self.opened.copy_(torch.where(first, self.tick, self.opened))
        self.position.masked_fill_(first, 0)
        self.begins.copy_(self.position)
        self.order.zero_()
        self.sensed.zero_()
        self.is_open.fill_(True)

    def write(self, present: Tensor) -> tuple[Tensor, Tensor]:
        """Reserve columns for tokens of the open Moments, present bool [B, n]; the layers then fill them.

        Returns:
            Positions int64 [B, n], and the mask [B, 1, n, filled].
        """
        if not bool(self.is_open.all()):
            raise DevmindError("No Moment is open in this state: begin one before tokens are written.")
        n = present.shape[1]
        self._forget()
        columns = self._free_columns(n)
        count = present.cumsum(-1)
        asking = Asking(
            self.tick[:, None],
            self.order[:, None] + torch.arange(n, device=present.device),
            self.opened[:, None],
            (self.position[:, None] + count - 1).clamp_min(0),
        )
        self.moment.scatter_(1, columns, asking.moment.expand(-1, n))
        self.seen_order.scatter_(1, columns, asking.order)
        self.seen_begins.scatter_(1, columns, self.begins[:, None].expand(-1, n))
        self.valid.scatter_(1, columns, present)
        self.position += count[:, -1]
        self.order += n
        self.highest += n
        used = self.valid.any(0).index_fill_(0, columns.flatten(), True)
        self.filled = int(used.nonzero()[-1]) + 1
        self.columns = _shared(columns)
        names = (self.moment, self.seen_order, self.seen_begins, self.valid)
        seen = Columns(*(tensor[:, : self.filled] for tensor in names))
        return asking.position, window_mask(asking, seen, self.window, self.limit)

    def end(self) -> None:
        """Close the open Moments; what is written next belongs to the next ones."""
        self.tick += 1
        self.is_open.fill_(False)

    def last_columns(self) -> Tensor:
        """The columns of the last write, int64 [B, n]."""
        if isinstance(self.columns, Tensor):
            return self.columns.expand(len(self), -1)
        return torch.arange(self.columns.start, self.columns.stop, device=self.tick.device).expand(len(self), -1)

    def _forget(self) -> None:
        """Free the columns of tokens that no later token of their row can see, by the rule of `window_mask`."""
        tick = self.tick[:, None]
        seen = (self.moment > tick - self.window) & (self.moment >= self.opened[:, None])
        if self.limit is not None and self.valid.shape[1] > self.limit:
            seen &= (self.position[:, None] - self.seen_begins < self.limit) | (self.moment == tick)
        self.valid &= seen

    def _free_columns(self, n: int) -> Tensor:
        """The first `n` empty columns of each row, int64 [B, n] in rising order; the ring grows if needed."""
        held = int(self.valid.sum(1).amax()) if len(self) else 0
        if held + n > self.valid.shape[1]:
            self._widen(max(int(_SPARE * self.valid.shape[1]), held + n))
        return self.valid.to(torch.uint8).argsort(dim=1, stable=True)[:, :n]

    def _widen(self, capacity: int) -> None:
        """Make room for `capacity` tokens a row."""

        def wider(tensor: Tensor, dim: int, fill: int = 0) -> Tensor:
            shape = list(tensor.shape)
            shape[dim] = capacity - shape[dim]
            return torch.cat((tensor, tensor.new_full(shape, fill)), dim)

        with torch.inference_mode(False):
            for name in _COLUMNS:
                # A token finds itself by its numbers, so an empty column must have different ones.
                setattr(self, name, wider(getattr(self, name), 1, -1 if name == "moment" else 0))
            for layer in self.layers:
                if layer.is_initialized:
                    layer.keys, layer.values = wider(layer.keys, 2), wider(layer.values, 2)

    # -- positions -----------------------------------------------------------------------------------------------

    def oldest_position(self) -> Tensor:
        """Position at which the oldest visible Moment begins, int64 [B]."""
        self._forget()
        now = torch.where(self.is_open, self.begins, self.position)
        if not self.valid.shape[1]:
            return now
        return torch.where(self.valid, self.seen_begins, now[:, None]).amin(1)

    def rebase(self, cos: Tensor, sin: Tensor, shift: Tensor) -> None:
        """Move every position back by `shift` int64 [B]; cos and sin [B, 1, R] are the angles of -shift."""
        for layer in self.layers:
            if layer.is_initialized:
                layer.keys.copy_(rotate_keys(layer.keys, cos, sin))
        self.position -= shift
        self.begins -= shift
        self.seen_begins -= shift[:, None]
        self.highest = int(self.position.max())

    # -- rows ----------------------------------------------------------------------------------------------------

    def take(self, index: Index) -> Ring:
        """The rows `index`, as a new ring."""
        rows = as_index(index, len(self), self.tick.device)
        taken = Ring(len(rows), self.window, len(self.layers), self.tick.device, self.limit)
        taken.highest, taken.filled = self.highest, self.filled
        with torch.inference_mode(False):
            for name in _CLOCKS:
                setattr(taken, name, getattr(self, name)[rows])
            for name in _COLUMNS:
                setattr(taken, name, getattr(self, name)[rows, : self.filled])
            for own_layer, taken_layer in zip(self.layers, taken.layers, strict=True):
                if own_layer.is_initialized:
                    taken_layer.keys, taken_layer.values = (
                        own_layer.keys[rows, :, : self.filled],
                        own_layer.values[rows, :, : self.filled],
                    )
                    taken_layer.is_initialized = True
        return taken

    def put(self, index: Index, other: Ring) -> None:
        """Replace the rows `index` by those of `other`, which may be fuller or emptier.

        Raises:
            DevmindError: the other ring has another window, depth or number of rows.
        """
        rows = as_index(index, len(self), self.tick.device)
        expected = (len(rows), self.window, self.limit, len(self.layers))
        got = (len(other), other.window, other.limit, len(other.layers))
        if expected != got:
            raise DevmindError(
                "Rows can be put into a state of the same agent only: expected {} rows, a window of {} Moments and {} "
                "tokens, {} layers; got {}, {}, {}, {}.".format(*expected, *got)
            )
        if other.filled > self.valid.shape[1]:
            self._widen(other.filled)
        for name in _CLOCKS:
            getattr(self, name)[rows] = getattr(other, name)
        for name in _COLUMNS:
            getattr(self, name)[rows, : other.filled] = getattr(other, name)[:, : other.filled]
        self.valid[rows, other.filled :] = False
        self.moment[rows, other.filled :] = -1
        for own_layer, put in zip(self.layers, other.layers, strict=True):
            if put.is_initialized:
                if not own_layer.is_initialized:
                    own_layer.lazy_initialization(put.keys, put.values)
                own_layer.keys[rows, :, : other.filled] = put.keys[:, :, : other.filled]
                own_layer.values[rows, :, : other.filled] = put.values[:, :, : other.filled]
        self.filled, self.highest = max(self.filled, other.filled), max(self.highest, other.highest)


def _shared(columns: Tensor) -> slice | Tensor:
    """Rising columns [B, n] in the form that is cheapest to write to: a slice, [n] if all rows are equal, or [B, n]."""
    if not columns.numel():
        return slice(0, 0)
    if len(columns) > 1 and not bool((columns == columns[:1]).all()):
        return columns
    start, stop = torch.stack((columns[0, 0], columns[0, -1] + 1)).tolist()
    return slice(start, stop) if stop - start == columns.shape[1] else columns[0]
