"""Rules: a world as pure batched functions on a struct of arrays, so search, reanalysis and exact resume work.

Everything that happens to child i is a function of seed i and of its actions: N children stepped together equal N
single ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from gymnasium import spaces


@dataclass(frozen=True)
class Outcome:
    """What a step led to. reward float32 [N]; terminal and truncated bool [N]."""

    reward: np.ndarray
    terminal: np.ndarray
    truncated: np.ndarray


@dataclass
class Struct:
    """A dataclass of numpy arrays that share the leading dimension N (one row a child)."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def copy(self) -> Self:
        """A deep copy: stepping the copy leaves the original as it is."""
        return replace(self, **{f.name: getattr(self, f.name).copy() for f in fields(self)})

    def take(self, index: Any) -> Self:
        """The rows `index` (an int array or a boolean mask), copied."""
        return replace(self, **{f.name: getattr(self, f.name)[index].copy() for f in fields(self)})


State = TypeVar("State", bound=Struct)


class Rules(Protocol, Generic[State]):
    """The contract of a world's rules; `observation_space` and `action_space` describe one child.

    Laws: `step` returns a new state and leaves the given one untouched; all randomness comes from the seeds kept in
    the state; `observe` is a pure function of the state.
    """

    name: str
    level: str
    observation_space: spaces.Dict
    action_space: spaces.Dict

    def initial(self, seeds: np.ndarray) -> State:
        """First states of len(seeds) children; seeds int64 [N]."""
        ...

    def legal(self, state: State) -> Mapping[str, np.ndarray]:
        """Masks of legal choices, bool [N, n], for each discrete effector; empty when all is always legal."""
        ...

    def step(self, state: State, actions: Mapping[str, np.ndarray]) -> State:
        """The states after `actions`, arrays [N, ...] by effector; a missing effector does nothing."""
        ...

    def outcome(self, state: State) -> Outcome:
        """Reward and endings of the states just reached."""
        ...

    def observe(self, state: State) -> dict[str, Any]:
        """Senses by name, arrays [N, ...]; `words` is a list of N str."""
        ...

    def truth(self, state: State) -> dict[str, np.ndarray]:
        """What lessons may learn from and exams judge by, never given to the agent; arrays [N, ...]."""
        ...
