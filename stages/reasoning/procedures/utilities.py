"""The protocol of a learned worth of each choice among plans, from the rewards while the plan was at work."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from stages.reasoning.procedures.plans import Option
from stages.reasoning.procedures.terms import Term


class Utilities(Protocol):
    """Learned utilities, as an Interpreter asks for them."""

    def values(self, goal: Term, options: Sequence[Option]) -> Sequence[float] | None:
        """The worth of each option; None: as the plans say."""
        ...

    def choose(self, values: Sequence[float]) -> int:
        """The option that is taken."""
        ...

    def situation(self, goal: Term) -> Hashable:
        """What the worth of a plan depends on, at the time of the choice."""
        ...

    def ended(self, situation: Hashable, option: Option, reward: float, ok: bool) -> None:
        """The option's plan, chosen in that situation, is over; meanwhile `reward` was earned."""
        ...
