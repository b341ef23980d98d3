"""Rules: a world as pure batched functions on a struct of arrays, so search, reanalysis and exact resume work.

Everything that happens to child i is a function of seed i and of its actions: N children stepped together equal N
single ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError


@dataclass(frozen=True)
class Outcome:
    """What a step led to.

    Attributes:
        reward: float32 [N], earned by the player who acted.
        terminal, truncated: bool [N], the episode has ended by its own rules, or was cut.
        player: int64 [N], whose turn it is now; by default always player 0.
        discount: float32 [N], what the value of the state reached, as seen by `player`, is worth to the player who
            acted: by default 1, and 0 after a terminal; -1 where the turn passes to an opponent (as in mctx).
    """

    reward: np.ndarray
    terminal: np.ndarray
    truncated: np.ndarray
    player: np.ndarray = None  # type: ignore[assignment]
    discount: np.ndarray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.player is None:
            object.__setattr__(self, "player", np.zeros(len(self.reward), np.int64))
        if self.discount is None:
            object.__setattr__(self, "discount", (~self.terminal).astype(np.float32))

    @property
    def ended(self) -> np.ndarray:
        """bool [N]: there is nothing left to do in this episode."""
        return self.terminal | self.truncated


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

    def put(self, index: Any, other: Self) -> None:
        """Replace the rows `index` (an int array or a boolean mask) by those of `other`, in place.

        Raises:
            WorldError: the two are of worlds of different sizes, or there are not as many rows as places.
        """
        for f in fields(self):
            mine, theirs = getattr(self, f.name), getattr(other, f.name)
            if mine[index].shape != theirs.shape:
                raise WorldError(
                    f"'{f.name}' of {list(theirs.shape)} cannot be put where {list(mine[index].shape)} are: give one "
                    "row a place, of the same world and level."
                )
            mine[index] = theirs

    @classmethod
    def concat(cls, structs: Sequence[Self]) -> Self:
        """The rows of several structs behind one another; at least one."""
        columns = {f.name: [getattr(one, f.name) for one in structs] for f in fields(structs[0])}
        return replace(structs[0], **{name: np.concatenate(values) for name, values in columns.items()})

    def repeat(self, n: int) -> Self:
        """Every row `n` times, the copies of one row side by side."""
        return self.take(np.repeat(np.arange(len(self)), n))


State = TypeVar("State", bound=Struct)


class Rules(Protocol, Generic[State]):
    """The contract of a world's rules; `observation_space` and `action_space` describe one child.

    Laws: `step` returns a new state and leaves the given one untouched; all randomness comes from the seeds kept in
    the state; `observe` is a pure function of the state; a child whose episode has ended stays ended and earns nothing
    more, so that rows of different length can be stepped together.

    Rules may have `picture(state)` besides, uint8 [N, H, W, 3]: what is shown to who looks on (`WorldRoom`), no sense.

    Attributes:
        horizon: no episode lasts longer than so many steps; None where there is no such limit.
    """

    name: str
    level: str
    horizon: int | None
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
