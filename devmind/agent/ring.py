"""Short-term memory: the ring of the last W Moments' keys and values, and the state an agent is stepped with."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from devmind.agent.slots import SlotState
from devmind.agent.window import rotate_keys, window_mask
from devmind.errors import DevmindError


class RingLayer(CacheLayerMixin):
    """One layer's keys and values [B, H, W * slot, D] in fixed buffers: `update` writes the slot, returns the ring."""

    keys: Tensor
    values: Tensor

    def __init__(self, ring: Ring) -> None:
        super().__init__()
        self.ring = ring

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        # Buffers made under inference_mode could not be written outside of it.
        with torch.inference_mode(False):
            batch, heads, _, _ = key_states.shape
            slots = self.ring.window * self.ring.slot
            self.keys = key_states.new_zeros(batch, heads, slots, key_states.shape[-1])
            self.values = value_states.new_zeros(batch, heads, slots, value_states.shape[-1])
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start, n = self.ring.offset, key_states.shape[-2]
        self.keys[:, :, start : start + n] = key_states
        self.values[:, :, start : start + n] = value_states
        return self.keys[:, :, : self.ring.filled], self.values[:, :, : self.ring.filled]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.ring.filled, 0

    def get_seq_length(self) -> int:
        return self.ring.filled if self.is_initialized else 0

    def get_max_length(self) -> int:
        return self.ring.window * self.ring.slot


class Ring:
    """The last W Moments of B agents that step together.

    Every Moment has one slot of `slot` tokens, as wide as the widest Moment so far (it is re-laid when a wider one
    comes, which is rare). Absent tokens leave holes that no token sees.

    Attributes:
        tick: number of Moments written since the ring was made.
        opened: int64 [B], the tick that opened the current episode.
        position: int64 [B], position of the next present token.
        valid: bool [B, W * slot]; moment, order: int64 [1, W * slot]; slot_position: int64 [B, W].
        highest: no position is above this (kept on the host, so that a tick need not wait for the device).
    """

    def __init__(self, n: int, window: int, layers: int, device: torch.device) -> None:
        with torch.inference_mode(False):
            self.window, self.slot, self.tick, self.highest = window, 0, 0, 0
            self.opened = torch.zeros(n, dtype=torch.int64, device=device)
            self.position = torch.zeros(n, dtype=torch.int64, device=device)
            self.slot_position = torch.zeros(n, window, dtype=torch.int64, device=device)
            self.valid = torch.zeros(n, 0, dtype=torch.bool, device=device)
            self.moment = torch.full((1, 0), -1, dtype=torch.int64, device=device)
            self.order = torch.zeros(1, 0, dtype=torch.int64, device=device)
        self.layers = [RingLayer(self) for _ in range(layers)]
        self.cache = Cache(layers=[*self.layers])

    def __len__(self) -> int:
        return len(self.opened)

    @property
    def offset(self) -> int:
        """Where the current Moment's slot starts."""
        return self.tick % self.window * self.slot

    @property
    def filled(self) -> int:
        """Length of the part of the ring that was ever written, the current Moment included."""
        return min(self.tick + 1, self.window) * self.slot

    def widen(self, n_tokens: int) -> None:
        """Re-lay the slots so that a Moment of `n_tokens` fits."""
        if n_tokens <= self.slot:
            return
        grown = n_tokens - self.slot

        def wider(tensor: Tensor, dim: int, fill: int = 0) -> Tensor:
            slots = tensor.unflatten(dim, (self.window, self.slot))
            shape = list(slots.shape)
            shape[dim + 1] = grown
            return torch.cat((slots, slots.new_full(shape, fill)), dim + 1).flatten(dim, dim + 1)

        with torch.inference_mode(False):
            self.valid = wider(self.valid, 1)
            self.moment = wider(self.moment, 1, -1)
            self.order = torch.arange(n_tokens, device=self.order.device).repeat(self.window)[None]
            for layer in self.layers:
                if layer.is_initialized:
                    layer.keys, layer.values = wider(layer.keys, 2), wider(layer.values, 2)
        self.slot = n_tokens
        # A re-laid slot keeps its Moment's number on the new columns too: they stay invalid, which is what counts.

    def open(self, present: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        """Take the next Moment's slot: returns positions int64 [B, n] and the mask [B, 1, n, filled].

        Args:
            present: bool [B, n]; first: bool [B], rows whose episode starts with this Moment.
        """
        n = present.shape[1]
        self.widen(n)
        self.opened.masked_fill_(first, self.tick)
        self.position.masked_fill_(first, 0)
        self.slot_position[:, self.tick % self.window] = self.position
        span = slice(self.offset, self.offset + self.slot)
        self.valid[:, span] = False
        self.valid[:, self.offset : self.offset + n] = present
        self.moment[:, span] = self.tick
        position = (self.position[:, None] + present.cumsum(-1) - 1).clamp_min(0)
        self.position += present.sum(-1)
        self.highest += n
        asking = torch.full((1, n), self.tick, device=present.device)
        mask = window_mask(
            asking,
            self.order[:, :n],
            self.opened[:, None],
            self.moment[:, : self.filled],
            self.order[:, : self.filled],
            self.valid[:, : self.filled],
            self.window,
        )
        return position, mask

    def close(self) -> None:
        """The Moment's keys are written: the next one takes the next slot."""
        self.tick += 1

    def oldest_position(self) -> Tensor:
        """Position of the oldest Moment that the next one can see, int64 [B]."""
        first_tick = (self.tick - self.window + 1 + torch.zeros_like(self.opened)).maximum(self.opened).clamp_min(0)
        oldest = self.slot_position.gather(1, (first_tick % self.window)[:, None]).squeeze(1)
        return torch.where(first_tick < self.tick, oldest, self.position)

    def rebase(self, cos: Tensor, sin: Tensor, shift: Tensor) -> None:
        """Move every position back by `shift` int64 [B]; cos and sin [B, 1, R] are the angles of -shift."""
        for layer in self.layers:
            if layer.is_initialized:
                layer.keys.copy_(rotate_keys(layer.keys, cos, sin))
        self.position -= shift
        self.slot_position -= shift[:, None]
        self.highest = int(self.position.max())

    def clone(self) -> Ring:
        """A copy that shares nothing with this ring."""
        copy = Ring(len(self), self.window, len(self.layers), self.opened.device)
        copy.slot, copy.tick, copy.highest = self.slot, self.tick, self.highest
        with torch.inference_mode(False):
            for name in ("opened", "position", "slot_position", "valid", "moment", "order"):
                setattr(copy, name, getattr(self, name).clone())
            for mine, theirs in zip(self.layers, copy.layers, strict=True):
                if mine.is_initialized:
                    theirs.keys, theirs.values, theirs.is_initialized = mine.keys.clone(), mine.values.clone(), True
        return copy


@dataclass
class State:
    """What an agent carries from tick to tick, for B agents stepping together; `Agent.step` consumes it.

    Attributes:
        ring: the trunk's window.
        previous: for each sense whose encoder sees change, the last tick's readings [B, ...] and presence bool [B].
        slots: what left the window; None where none are given (an agent without slots, or short-term memory off).
    """

    ring: Ring
    previous: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    slots: SlotState | None = None

    def __len__(self) -> int:
        return len(self.ring)

    def clone(self) -> State:
        """A copy that shares nothing with this state: step one, keep the other."""
        previous = {name: (value.clone(), here.clone()) for name, (value, here) in self.previous.items()}
        return State(self.ring.clone(), previous, self.slots.clone() if self.slots else None)

    def check(self, rows: int, layers: int, slots: int) -> None:
        """Raise unless this state was made for `rows` agents with `layers` trunk layers and, if it has any, `slots`."""
        if rows != len(self):
            raise DevmindError(
                f"This state is for {len(self)} agents; got a tick of {rows}. Make one with new_state({rows})."
            )
        if layers != len(self.ring.layers):
            raise DevmindError(
                f"This state is for a trunk of {len(self.ring.layers)} layers, the agent has {layers} now: "
                "make a new one with new_state."
            )
        if self.slots is not None and self.slots.slots.shape[1] != slots:
            raise DevmindError(
                f"This state carries {self.slots.slots.shape[1]} slots, the agent has {slots}: "
                "make a new one with new_state."
            )
