"""Short-term memory: a ring buffer with the keys and values of the tokens of the last W Moments of B agents.

Rows are independent: each has its own clock, its own Moments with any number of tokens, and its own columns. A column
whose token has left the window of its row is reused for the row's next token, so the ring is little wider than its
fullest row. The column itself has no meaning: the mask uses the token's Moment and its place in that Moment.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from devmind.agent.rows import Index, as_index
from devmind.agent.window import Asking, Columns, rotate_keys, window_mask
from devmind.errors import DevmindError

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
