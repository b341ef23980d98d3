"""The Actor: N rows of one agent with their state, and what they keep up from tick to tick. Moments in, Actions out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch

from devmind.acting.rollout import Senses
from devmind.acting.standing import Standing
from devmind.agent.acting import StepOutput
from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate_tick
from devmind.agent.encoders import Encoded
from devmind.agent.taps import Percepts
from devmind.moment import Moment

Recaller = Callable[[Percepts], Encoded | None]
"""What comes to mind at a tick: tokens [N, R, D] of `devmind.acting.recall`, or None."""


class Actor:
    """N rows that step together. It is a `Policy`, so `rollout` takes it as it is.

    Args:
        agent: whose weights act; may be changed between two ticks (the state goes on).
        n: rows.
        effectors: which it answers for, of those the agent has; all by default.
        heads: further heads whose outputs are wanted at every tick.
        without: senses that a rollout takes away, as in exams with a sense off; `encode` and `act` take none away.
        short_term: False leaves each Moment alone: a window of one Moment and no slots.
        trunk: False lets only reflex arcs answer; the window stays as it is.
        recall: what comes to mind at a tick; nothing by default.
        beliefs: keep up the agent's beliefs about things (`output.beliefs`) and give them to the trunk, where it has a
            tracker; False in exams of what is left without them, and where no arc could read them.
        standing: by effector the heads that are asked, in order (`devmind.acting.standing`); all of them by default.
        generator: actions are sampled with it; without, the most likely one is taken.

    Attributes:
        state: the rows' state, after the last tick.
        answered: by effector and head, how many decisions each has made since the Actor was made.
        output: of the last tick; None before the first.
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
        self.answered: dict[str, Counter[str]] = {}
        self.output: StepOutput | None = None
        self.reset()

    def reset(self, n: int | None = None) -> None:
        """Forget the short term: an empty window and the learned slots, from now on for `n` rows. Counts stay."""
        self.n = self.n if n is None else n
        self.state = self.agent.new_state(self.n, short_term=self.short_term)

    def keep(self, index: np.ndarray) -> None:
        """Go on with the rows `index` alone, int64 [K]."""
        self.state, self.n = self.state.take(index.tolist()), len(index)

    def encode(self, moments: Moment | Sequence[Moment] | Batch) -> Percepts:
        """One tick as tokens and keys; the state is only read."""
        return self.agent.encode(self.state, moments)

    def step(self, percepts: Percepts, recalled: Encoded | None = None) -> StepOutput:
        """Take in one encoded tick and answer.

        Args:
            recalled: recalled tokens, in place of what `recall` would give.
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
        for effector, heads in self.output.answered.items():
            self.answered.setdefault(effector, Counter()).update(heads)
        return self.output

    def act(self, moments: Moment | Sequence[Moment] | Batch) -> StepOutput:
        """`encode`, recall and `step` of one tick."""
        return self.step(self.encode(moments))

    def __call__(self, senses: Senses, first: np.ndarray) -> dict[str, np.ndarray]:
        """One tick of a rollout: arrays [N, ...] by effector; rows that no head answered for are zero.

        Where every row begins an episode, the state is made anew for as many rows as there are now.
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
