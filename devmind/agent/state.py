"""What B agents carry from tick to tick. Rows are independent: they can be taken out, put in, repeated and cloned."""

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
        slots: what left the window; None where none are given (an agent without slots, or short-term memory off).
        apart: the window of each sense whose tokens go through the trunk by themselves.
        carry: what a part keeps from tick to tick, by part ("encoder.sight", "head.plan", "tracker"): tensors
            [B, ...], lists of B entries, or dicts of these (`rows.py`). Zeros and None mean that nothing is carried;
            a row whose episode starts anew begins with them.
    """

    ring: Ring
    slots: SlotState | None = None
    apart: dict[str, Ring] = field(default_factory=dict)
    carry: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ring)

    def take(self, index: Index) -> State:
        """The rows `index` (row numbers, or a bool mask [B]) as a state of their own that shares nothing."""
        at = self._index(index)
        with torch.inference_mode(False):
            apart = {sense: ring.take(at) for sense, ring in self.apart.items()}
            slots = self.slots.take(at) if self.slots else None
            return State(self.ring.take(at), slots, apart, rows.take(self.carry, at))

    def put(self, index: Index, other: State) -> None:
        """Replace the rows `index` by the rows of `other`, whichever Moments the two are at.

        Raises:
            DevmindError: the states are of different agents, or their numbers of rows do not fit.
        """
        at = self._index(index)
        if (self.slots is None) != (other.slots is None):
            raise DevmindError("Rows with slots cannot be put into a state without, nor the other way round.")
        if self.apart.keys() != other.apart.keys():
            mine, theirs = (", ".join(one.apart) or "none" for one in (self, other))
            raise DevmindError(
                f"Rows whose senses {theirs} go by themselves cannot be put where {mine} do: both must be of one agent."
            )
        self.ring.put(at, other.ring)
        for sense, ring in self.apart.items():
            ring.put(at, other.apart[sense])
        if self.slots is not None and other.slots is not None:
            self.slots.put(at, other.slots)
        with torch.inference_mode(False):
            self.carry = rows.put(self.carry, at, other.carry, len(self))

    def repeat(self, n: int) -> State:
        """Every row `n` times, the copies of one row side by side."""
        return self.take(torch.arange(len(self)).repeat_interleave(n))

    def clone(self) -> State:
        """A copy that shares nothing with this state: step one, keep the other."""
        return self.take(torch.arange(len(self)))

    def reset(self, first: Tensor) -> None:
        """Drop what the parts carry in rows whose episode starts with this Moment, bool [B]."""
        if self.carry and bool(first.any()):
            self.carry = rows.empty(self.carry, first)

    def _index(self, index: Index) -> Tensor:
        return as_index(index, len(self), self.ring.tick.device)

    def check(self, n: int, layers: int, slots: int, window: int, limit: int | None, apart: Sequence[str] = ()) -> None:
        """Raise unless this state was made for `n` agents with these `layers`, this window and, if any, `slots`, whose
        senses `apart` go by themselves.
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
        # A window of one is that of short-term memory switched off.
        if self.ring.window not in (window, 1) or self.ring.limit != limit:
            raise DevmindError(
                f"This state is for a window of {self.ring.window} Moments and {self.ring.limit} tokens, the agent's "
                f"is of {window} and {limit} now: make a new one with new_state."
            )
