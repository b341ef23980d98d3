"""What a choice among plans is worth, learned: Q(goal, plan), from the rewards that came while the plan was at work."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from stages.reasoning.procedures.plans import Option
from stages.reasoning.procedures.terms import Term


class Utilities(Protocol):
    """What an Interpreter asks of who has learned."""

    def values(self, goal: Term, options: Sequence[Option]) -> Sequence[float] | None:
        """What each option is worth; None: as the plans say."""
        ...

    def choose(self, values: Sequence[float]) -> int:
        """Which of the options is taken."""
        ...

    def situation(self, goal: Term) -> Hashable:
        """What the worth of a plan hangs on, as it is when the choice is made."""
        ...

    def ended(self, situation: Hashable, option: Option, reward: float, ok: bool) -> None:
        """The option's plan is over, chosen in that situation; meanwhile `reward` was earned."""
        ...


class QTable:
    """Sample means of what each plan earned, epsilon-greedy: Q-learning over options without bootstrapping.

    A plan is an option in the sense of Sutton, Precup and Singh (1999): the return is all that is earned until it ends.

    Args:
        rng: of exploration; epsilon: how often any option is taken.
        situation: what besides goal and plan the worth hangs on; the goal alone by default.
        failure: what a failed plan earns besides.
        least: of the share by which a value moves to what came: 0 is the mean of all, above it forgets.

    Attributes:
        q: by (situation, plan) the value; counts: how often it was met.
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
        """What was learned; what was never tried is worth infinitely much, so that it is."""
        here = self.situation(goal)
        return [self.q.get((here, option.plan.name), np.inf) for option in options]

    def choose(self, values: Sequence[float]) -> int:
        """The best, the first of equals; any, now and then."""
        if self.rng.random() < self.epsilon:
            return int(self.rng.integers(len(values)))
        return int(np.argmax(values))

    def ended(self, situation: Hashable, option: Option, reward: float, ok: bool) -> None:
        """Move the value of that choice."""
        key = situation, option.plan.name
        self.counts[key] = self.counts.get(key, 0) + 1
        before = self.q.get(key, 0.0)
        share = max(self.least, 1 / self.counts[key])
        self.q[key] = before + share * (reward + (0.0 if ok else self.failure) - before)

    def state_dict(self) -> dict[str, Any]:
        """What was learned."""
        return {"q": dict(self.q), "counts": dict(self.counts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with it."""
        self.q, self.counts = dict(state["q"]), dict(state["counts"])
