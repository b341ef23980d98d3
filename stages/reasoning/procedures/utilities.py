"""Learned worth of a choice among plans: Q(goal, plan), from the rewards while the plan was at work."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

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


class QTable:
    """Sample means of the reward of each plan, epsilon-greedy: Q-learning over options without bootstrapping.

    A plan is an option in the sense of Sutton, Precup and Singh (1999): the return is everything earned until it ends.

    Args:
        rng: of exploration.
        epsilon: probability of a random option.
        situation: what the worth depends on besides goal and plan; by default the goal alone.
        failure: extra reward of a failed plan.
        least: least step size of a value: 0 gives the mean of all rewards, more forgets old ones.

    Attributes:
        q: the value by (situation, plan).
        counts: visits by (situation, plan).
    """

    def __init__(
        self,
        rng: np.random.Generator,
        epsilon: float = 0.1,
        situation: Callable[[Term], Hashable] = lambda goal: goal,
        failure: float = 0.0,
        least: float = 0.0,
    ) -> None:
        self.rng, self.epsilon, self.situation, self.failure, self.least = rng, epsilon, situation, failure, least
        self.q: dict[tuple[Any, str], float] = {}
        self.counts: dict[tuple[Any, str], int] = {}

    def values(self, goal: Term, options: Sequence[Option]) -> Sequence[float]:
        """The learned values; infinite for an option that was never tried, so that it is tried."""
        here = self.situation(goal)
        return [self.q.get((here, option.plan.name), np.inf) for option in options]

    def choose(self, values: Sequence[float]) -> int:
        """The best option, the first of equals; with probability epsilon any."""
        if self.rng.random() < self.epsilon:
            return int(self.rng.integers(len(values)))
        return int(np.argmax(values))

    def ended(self, situation: Hashable, option: Option, reward: float, ok: bool) -> None:
        """Update the value of that choice."""
        key = situation, option.plan.name
        self.counts[key] = self.counts.get(key, 0) + 1
        before = self.q.get(key, 0.0)
        share = max(self.least, 1 / self.counts[key])
        self.q[key] = before + share * (reward + (0.0 if ok else self.failure) - before)

    def state_dict(self) -> dict[str, Any]:
        """The learned values and their counts."""
        return {"q": dict(self.q), "counts": dict(self.counts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        self.q, self.counts = dict(state["q"]), dict(state["counts"])
