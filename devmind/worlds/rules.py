"""Rules: a world as pure batched functions on a struct of arrays, so search, reanalysis and exact resume work.

Everything that happens to child i is a function of its seed and its actions: N children stepped together equal N
single ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from inspect import signature
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from gymnasium import spaces

from devmind import plugins
from devmind.errors import WorldError, nearest


@dataclass(frozen=True)
class Outcome:
    """The outcome of a step.

    Attributes:
        reward: float32 [N], earned by the player who acted.
        terminal, truncated: bool [N], whether the episode has ended by its own rules, or by the limit.
        player: int64 [N], whose turn it is now; by default always player 0.
        discount: float32 [N], the factor from the new state's value for `player` to its value for the player who acted:
            by default 1, and 0 after a terminal; -1 if the turn passes to an opponent (as in mctx).
    """

    reward: np.ndarray
    terminal: np.ndarray
    truncated: np.ndarray
    player: np.ndarray = None  # type: ignore[assignment]
    discount: np.ndarray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        for name in ("terminal", "truncated"):  # of whole numbers, ~ would give -1 and -2
            object.__setattr__(self, name, np.asarray(getattr(self, name), bool))
        if self.player is None:
            object.__setattr__(self, "player", np.zeros(len(self.reward), np.int64))
        if self.discount is None:
            object.__setattr__(self, "discount", (~self.terminal).astype(np.float32))

    @property
    def ended(self) -> np.ndarray:
        """Whether the episode has ended, bool [N]."""
        return self.terminal | self.truncated


@dataclass
class Struct:
    """A dataclass of numpy arrays that share the leading dimension N (one row a child)."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def copy(self) -> Self:
        """A deep copy: stepping the copy does not change the original."""
        return replace(self, **{f.name: getattr(self, f.name).copy() for f in fields(self)})

    def take(self, index: Any) -> Self:
        """The rows `index` (an int array or a boolean mask), copied."""
        return replace(self, **{f.name: getattr(self, f.name)[index].copy() for f in fields(self)})

    def put(self, index: Any, other: Self) -> None:
        """Replace the rows `index` (an int array or a boolean mask) by those of `other`, in place.

        Raises:
            WorldError: the two are of worlds of different sizes, or the numbers of rows differ. Nothing is replaced.
        """
        pairs = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        for name, (mine, theirs) in pairs.items():
            if mine[index].shape != theirs.shape:
                raise WorldError(
                    f"'{name}' of {list(theirs.shape)} cannot be put where {list(mine[index].shape)} are: give one "
                    "row a place, of the same world and level."
                )
        for mine, theirs in pairs.values():
            mine[index] = theirs

    @classmethod
    def concat(cls, structs: Sequence[Self]) -> Self:
        """The rows of one or more structs, concatenated."""
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

    Rules may also have `picture(state)`, uint8 [N, H, W, 3], for people who watch (`WorldRoom`); it is no sense.

    Attributes:
        horizon: the most steps of an episode; None without a limit.
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
        """Masks of legal choices, bool [N, n], for each discrete effector; empty if everything is always legal."""
        ...

    def step(self, state: State, actions: Mapping[str, np.ndarray]) -> State:
        """The states after `actions`, arrays [N, ...] by effector; a missing effector does nothing."""
        ...

    def outcome(self, state: State) -> Outcome:
        """Reward and endings on reaching these states."""
        ...

    def observe(self, state: State) -> dict[str, Any]:
        """Senses by name, arrays [N, ...]; `words` is a list of N str."""
        ...

    def truth(self, state: State) -> dict[str, np.ndarray]:
        """The truth for lessons and exams, never given to the agent; arrays [N, ...]."""
        ...


def rules_of(name: str, level: str | None = None) -> Any:
    """The rules of the world `name` at `level`, by default the world's own default.

    Raises:
        WorldError: unknown world or level.
    """
    known = plugins.available("worlds")
    if name not in known:
        raise WorldError(f"There is no world named '{name}'{nearest(name, known)}")
    rules = known[name].load()
    try:
        signature(rules).bind(*(() if level is None else (level,)))
    except TypeError as error:
        raise WorldError(
            f"The world '{name}' cannot be made: {error}. Its class takes one argument, the level, with a default."
        ) from error
    return rules() if level is None else rules(level)
