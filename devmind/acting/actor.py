"""The Actor: N rows of one agent with their state. It takes Moments and gives Actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import torch

from devmind.acting.rollout import Senses
from devmind.acting.standing import Standing
from devmind.agent.agent import Agent, StepOutput
from devmind.agent.batch import Batch, collate_tick
from devmind.agent.encoders import Encoded
from devmind.agent.taps import Percepts
from devmind.moment import Moment

Recaller = Callable[[Percepts], Encoded | None]
"""Gives the recalled tokens [N, R, D] of a tick (`devmind.acting.recall`), or None."""


class Actor:
    """N rows that step together. It is a `Policy`, so it can be given to `rollout`.

    Args:
        agent: the agent that acts; it may be replaced between two ticks, and the state goes on.
        n: number of rows.
        effectors: those of the agent's effectors to answer for; all by default.
        heads: further heads whose outputs are wanted at every tick.
        without: senses that are removed in a rollout, as in exams with a sense off; `encode` and `act` remove none.
        short_term: False switches short-term memory off: a window of one Moment and no slots.
        trunk: False lets only reflex arcs answer; the window does not change. One mind, which has few of them, runs its
            trunk all the same if a head that may be asked reads it.
        recall: gives the recalled tokens of a tick; by default nothing is recalled.
        beliefs: update the agent's beliefs about things (`output.beliefs`) and give them to the trunk, if the agent has
            a tracker. False for exams without beliefs, and where only arcs act, which do not read them.
        standing: by effector, the heads that are asked, in order (`devmind.acting.standing`); all of them by default.
        generator: samples the actions; without it the most likely action is taken.

    Attributes:
        state: the state of the rows after the last tick.
        answered: by effector and head, the number of decisions that the head has made.
        output: that of the last tick; None before the first.
    """

    def __init__(
        self,
        agent: Agent,
        n: int = 1,
        *,
        effectors: Iterable[str] | None = None,
        heads: Sequence[str] = (),
        without: Iterable[str] = (),
        short_term: bool = True,
        trunk: bool = True,
        recall: Recaller | None = None,
        beliefs: bool = True,
        standing: Standing | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        self.agent, self.n = agent, n
        self.effectors = None if effectors is None else tuple(effectors)
        self.heads, self.without = tuple(heads), frozenset(without)
        self.short_term, self.trunk, self.recall, self.generator = short_term, trunk, recall, generator
        self.beliefs, self.standing = beliefs, standing
        self.trunk = trunk or self._needs_trunk()
        self.answered: dict[str, Counter[str]] = {}
        self.output: StepOutput | None = None
        self.reset()

    def _needs_trunk(self) -> bool:
        """Whether this is one mind, and a head that may be asked reads the trunk."""
        if not self.agent.config.one_mind:
            return False
        asked = self.agent.effectors if self.effectors is None else self.effectors
        standing = self.standing or {effector: tuple(self.agent.heads_of(effector)) for effector in asked}
        names = {*self.heads, *(name for effector in asked for name in standing.get(effector, ()))}
        return any(self.agent.tap_of(name).on_trunk for name in names)

    def reset(self, n: int | None = None) -> None:
        """Begin with an empty state, for `n` rows (by default as many as before). The counts of `answered` stay."""
        self.n = self.n if n is None else n
        self.state = self.agent.new_state(self.n, short_term=self.short_term)

    def keep(self, index: np.ndarray) -> None:
        """Continue with only the rows `index`, int64 [K]."""
        self.state, self.n = self.state.take(index.tolist()), len(index)

    def encode(self, moments: Moment | Sequence[Moment] | Batch) -> Percepts:
        """Encode one tick as tokens and keys; the state is not changed."""
        return self.agent.encode(self.state, moments)

    def step(self, percepts: Percepts, recalled: Encoded | None = None) -> StepOutput:
        """Step the agent by one encoded tick.

        Args:
            recalled: recalled tokens, in place of those that `recall` would give.
        """
        if recalled is None and self.recall is not None:
            recalled = self.recall(percepts)
        self.state, self.output = self.agent.step(
            self.state,
            percepts,
            recalled,
            effectors=self.effectors,
            heads=self.heads,
            generator=self.generator,
            trunk=self.trunk,
            beliefs=self.beliefs,
            standing=self.standing,
        )
        self.count(self.output.answered)
        return self.output

    def count(self, answered: Mapping[str, Mapping[str, int]]) -> None:
        """Add decisions, by effector and head, to `answered`."""
        for effector, heads in answered.items():
            self.answered.setdefault(effector, Counter()).update(heads)

    def act(self, moments: Moment | Sequence[Moment] | Batch) -> StepOutput:
        """`encode`, recall and `step` of one tick."""
        return self.step(self.encode(moments))

    def __call__(self, senses: Senses, first: np.ndarray) -> dict[str, np.ndarray]:
        """One tick of a rollout: arrays [N, ...] by effector, zero in rows that no head answered for.

        If every row begins an episode, the state is replaced by an empty one for that number of rows.
        """
        if first.all():
            self.reset(len(first))
        felt = {name: value for name, value in senses.items() if name not in self.without}
        output = self.act(collate_tick(felt, first))
        return {name: value.cpu().numpy() for name, value in output.action.items()}

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """`answered` as plain dicts, for a report."""
        return {effector: dict(heads) for effector, heads in self.answered.items()}
