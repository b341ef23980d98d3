"""Hindsight: attempts at a puzzle that failed, told again as ways to the goal.

Andrychowicz and others 2017, "Hindsight experience replay" (arXiv 1707.01495): what an attempt came to is taken for
what it was to come to. The goal of these puzzles is always the same state, so the states are renamed instead: lights by
which of them differ from the last ones, tiles by where the last board has them. The same actions lead there from the
renamed state to the goal, so a piece of an attempt proves a bound on what its first state costs, renamed, in states
that the policy goes to by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from devmind.curriculum.stage import Context
from devmind.errors import ConfigError
from stages.reasoning.best_first import Guide, Solved, Step

Rename = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""`(states [N, cells], ends [N, cells]) -> (states [N, cells], bool [N])`: as they are called where their end is called
the goal; of no meaning where that cannot be."""
NONE: Mapping[str, float] = {"hindsight": 0.0}
"""The option by which a configuration says which share of a lesson's boards is told so; as it is unless it does."""


@dataclass(frozen=True)
class Attempts:
    """Walks of N problems side by side.

    Attributes:
        states: [T + 1, N, cells], the start first; actions: int64 [T, N], that lead from each to the next.
        failed: bool [N], those that met no solved state.
    """

    states: np.ndarray
    actions: np.ndarray
    failed: np.ndarray


def told_again(context: Context, lesson: str) -> dict[str, float]:
    """The option `hindsight` of a lesson, as an argument of its learner.

    Raises:
        ConfigError: it is no share.
    """
    options: dict[str, float] = context.options(lesson, NONE)
    if not 0 <= (share := options["hindsight"]) <= 1:
        raise ConfigError(f"The share of a batch that is told in hindsight is from 0 to 1; got {share}.")
    return options


def attempt(
    starts: np.ndarray,
    step: Step,
    solved: Solved,
    guide: Guide,
    most: int,
    rng: np.random.Generator,
    stray: float = 0.1,
) -> Attempts:
    """Take `most` times the action that the guide says costs least of those that lead to no state met before.

    Args:
        starts: [N, cells].
        stray: how often another such action is taken, by chance.
    """
    states, actions, failed = [starts], list[np.ndarray](), ~np.asarray(solved(starts))
    rows = np.arange(len(starts))
    for _ in range(most):
        here = states[-1]
        cost = np.array(guide(here), float)
        choices = cost.shape[1]
        made = step(np.repeat(here, choices, 0), np.tile(np.arange(choices), len(here)))
        made = made.reshape(len(here), choices, -1)
        by_chance = rng.random(len(here)) < stray
        cost[by_chance] = rng.random((int(by_chance.sum()), choices))
        # Without this a policy that errs goes to and fro between two states.
        cost[np.any([(made == before[:, None]).all(-1) for before in states], axis=0)] = np.inf
        actions.append(cost.argmin(-1))
        states.append(made[rows, actions[-1]])
        failed &= ~np.asarray(solved(states[-1]))
    return Attempts(np.stack(states), np.array(actions, np.int64).reshape(most, len(starts)), failed)


def pieces(attempts: Attempts, rename: Rename) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """All pieces of attempts that failed, renamed so that each ends at the goal, where it can be.

    Returns:
        The states that they begin with [M, cells], of which attempt each is, and the ticks of its first and of its last
        state, all int64 [M]: its actions are those from the first tick to before the last.
    """
    first, last = np.triu_indices(len(attempts.states), 1)
    failed = np.flatnonzero(attempts.failed)
    which = np.repeat(failed, len(first))
    first, last = np.tile(first, len(failed)), np.tile(last, len(failed))
    states, able = rename(attempts.states[first, which], attempts.states[last, which])
    return states[able], which[able], first[able], last[able]


def lights_renamed(lit: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lights int8 [N, cells] that differ from those at the end: a press turns them alike. It can always be."""
    return np.asarray(lit ^ end), np.ones(len(lit), bool)


def tiles_renamed(tiles: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tiles int8 [N, cells], each called as the goal calls the place where it is at the end.

    A move is told by the free place alone, so it goes with any names; but the free place has to keep its own, which it
    does where it is the last one at the end.
    """
    goal = np.roll(np.arange(tiles.shape[1], dtype=tiles.dtype), -1)
    names = np.empty_like(end)
    np.put_along_axis(names, end.astype(np.int64), np.broadcast_to(goal, end.shape), 1)
    return np.take_along_axis(names, tiles.astype(np.int64), 1), end[:, -1] == 0


def put_among(told: np.ndarray, again: np.ndarray) -> np.ndarray:
    """`told` [N, ...] with the M <= N rows of `again` in place of some of its own, evenly spread."""
    mixed = told.copy()
    mixed[np.arange(len(again)) * len(told) // max(1, len(again))] = again
    return mixed
