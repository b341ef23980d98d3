"""The state of B agents from tick to tick. Rows are independent and can be taken, put, repeated and cloned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from devmind.agent import rows
from devmind.agent.ring import Ring
from devmind.agent.rows import Index, as_index
from devmind.agent.slots import SlotState
from devmind.errors import DevmindError


@dataclass
class State:
    """The state of B agents; `Agent.step` consumes it.

    Attributes:
        ring: the trunk's window.
        slots: information from beyond the window; None for an agent without slots, or with short-term memory off.
        apart: by sense, the windows of senses whose tokens go through the trunk by themselves.
        carry: what is carried from tick to tick: by part what it carries itself ("head.plan", "tracker"), the last
            reading for encoders that compare ("encoder.sight"), the rest of an answer of several ticks
            ("actions.reach"); see `rows.py`. Zeros mean that nothing is carried; they are set where an episode begins.
    """

    ring: Ring
    slots: SlotState | None = None
    apart: dict[str, Ring] = field(default_factory=dict)
    carry: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ring)

    def take(self, index: Index) -> State:
        """The rows `index` (row numbers, or a bool mask [B]) as a new state, which shares no memory with this one."""
        at = self._index(index)
        with torch.inference_mode(False):
            apart = {sense: ring.take(at) for sense, ring in self.apart.items()}
            slots = self.slots.take(at) if self.slots else None
            return State(self.ring.take(at), slots, apart, rows.take(self.carry, at))

    def put(self, index: Index, other: State) -> None:
        """Replace the rows `index` by the rows of `other`; the two may be at different Moments.

        Raises:
            DevmindError: the states are of different agents, or their numbers of rows differ.
        """
        at = self._index(index)
        if (self.slots is None) != (other.slots is None):
            raise DevmindError("Rows with slots cannot be put into a state without, nor the other way round.")
        if self.apart.keys() != other.apart.keys():
            own, others = (", ".join(one.apart) or "none" for one in (self, other))
            raise DevmindError(
                f"Rows whose senses {others} go by themselves cannot be put where {own} do: both must be of one agent."
            )
        self.ring.put(at, other.ring)
        for sense, ring in self.apart.items():
            ring.put(at, other.apart[sense])
        if self.slots is not None and other.slots is not None:
            self.slots.put(at, other.slots)
        with torch.inference_mode(False):
            self.carry = rows.put_rows(self.carry, at, other.carry, len(self))

    def repeat(self, n: int) -> State:
        """A new state with every row `n` times; copies of one row are adjacent."""
        return self.take(torch.arange(len(self)).repeat_interleave(n))

    def clone(self) -> State:
        """A copy that shares no memory with this state, so that one can be stepped and the other kept."""
        return self.take(torch.arange(len(self)))

    def reset(self, first: Tensor) -> None:
        """Clear `carry` in rows whose episode begins with this Moment, bool [B]."""
        if self.carry and bool(first.any()):
            self.carry = rows.empty(self.carry, first)

    def _index(self, index: Index) -> Tensor:
        return as_index(index, len(self), self.ring.tick.device)

    def check(self, n: int, layers: int, slots: int, window: int, limit: int | None, apart: Sequence[str] = ()) -> None:
        """Raise DevmindError unless this state fits `n` agents with these `layers`, `slots` and window, and with the
        senses `apart`.
        """
        if n != len(self):
            raise DevmindError(
                f"This state is for {len(self)} agents; got a tick of {n}. Make one with new_state({n})."
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
        if list(self.apart) != list(apart):
            raise DevmindError(
                f"This state has windows of their own for the senses {', '.join(self.apart) or 'none'}, the agent for "
                f"{', '.join(apart) or 'none'} now: make a new one with new_state."
            )
        # A window of 1 means that short-term memory is off.
        if self.ring.window not in (window, 1) or self.ring.limit != limit:
            raise DevmindError(
                f"This state is for a window of {self.ring.window} Moments and {self.ring.limit} tokens, the agent's "
                f"is of {window} and {limit} now: make a new one with new_state."
            )
