"""Hindsight: failed attempts at a puzzle become solutions of renamed boards.

Andrychowicz and others 2017, "Hindsight experience replay" (arXiv 1707.01495): the state that an attempt reached is
taken for its goal. These puzzles have one fixed goal, so the states are renamed instead: lights by which of them differ
from the last ones, tiles by where the last board has them. The same actions lead from the renamed state to the goal. So
a piece of an attempt proves a bound on the cost of its first state, renamed, in states that the policy itself visits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from devmind.curriculum.stage import Context
from devmind.errors import ConfigError
from stages.reasoning.q_star import Guide, Solved, Step

Rename = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""`(states [N, cells], ends [N, cells]) -> (states [N, cells], bool [N])`: the states renamed so that their end is the
goal, and where this is possible; elsewhere they mean nothing.
"""
NONE: Mapping[str, float] = {"hindsight": 0.0}
"""The option for the share of a lesson's boards that come from hindsight; none by default."""


@dataclass(frozen=True)
class Attempts:
    """Walks of N problems side by side.

    Attributes:
        states: [T + 1, N, cells], the start first.
        actions: int64 [T, N], from each state to the next.
        failed: bool [N], walks that met no solved state.
    """

    states: np.ndarray
    actions: np.ndarray
    failed: np.ndarray


def hindsight_option(context: Context, lesson: str) -> dict[str, float]:
    """The option `hindsight` of a lesson, as an argument of its learner.

    Raises:
        ConfigError: it is not a share from 0 to 1.
    """
    options: dict[str, float] = context.options(lesson, NONE)
    if not 0 <= (share := options["hindsight"]) <= 1:
        raise ConfigError(f"The share of a batch that is taught in hindsight is from 0 to 1; got {share}.")
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
    """Take `most` actions, each the cheapest by the guide that leads to a state not met before.

    Args:
        starts: [N, cells].
        stray: probability of a random action instead, also to a new state.
    """
    states, actions, failed = [starts], list[np.ndarray](), ~np.asarray(solved(starts))
    rows = np.arange(len(starts))
    for _ in range(most):
        here = states[-1]
        cost = np.array(guide(here), float)
        choices = cost.shape[1]
        children = step(np.repeat(here, choices, 0), np.tile(np.arange(choices), len(here)))
        children = children.reshape(len(here), choices, -1)
        by_chance = rng.random(len(here)) < stray
        cost[by_chance] = rng.random((int(by_chance.sum()), choices))
        # Without this a policy that errs moves back and forth between two states.
        cost[np.any([(children == before[:, None]).all(-1) for before in states], axis=0)] = np.inf
        actions.append(cost.argmin(-1))
        states.append(children[rows, actions[-1]])
        failed &= ~np.asarray(solved(states[-1]))
    return Attempts(np.stack(states), np.array(actions, np.int64).reshape(most, len(starts)), failed)


def pieces(attempts: Attempts, rename: Rename) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """All pieces of failed attempts, renamed so that each ends at the goal, where this is possible.

    Returns:
        The first states of the pieces [M, cells], the attempt of each, and the ticks of its first and last state, all
        int64 [M]. The actions of a piece are those from its first tick to the one before its last.
    """
    first, last = np.triu_indices(len(attempts.states), 1)
    failed = np.flatnonzero(attempts.failed)
    start = np.repeat(failed, len(first))
    first, last = np.tile(first, len(failed)), np.tile(last, len(failed))
    states, able = rename(attempts.states[first, start], attempts.states[last, start])
    return states[able], start[able], first[able], last[able]


def lights_renamed(lit: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lights int8 [N, cells] that differ from those at the end. Presses turn them alike, so this is always possible."""
    return np.asarray(lit ^ end), np.ones(len(lit), bool)


def tiles_renamed(tiles: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tiles int8 [N, cells], each named as the goal names the tile's place at the end.

    A move depends on the free place alone, so it fits any names. The free place itself has to keep its name, so this is
    possible only if it is the last place at the end.
    """
    goal = np.roll(np.arange(tiles.shape[1], dtype=tiles.dtype), -1)
    names = np.empty_like(end)
    np.put_along_axis(names, end.astype(np.int64), np.broadcast_to(goal, end.shape), 1)
    return np.take_along_axis(names, tiles.astype(np.int64), 1), end[:, -1] == 0


def put_among(rows: np.ndarray, again: np.ndarray) -> np.ndarray:
    """`rows` [N, ...] with the M <= N rows of `again` in place of M of its own, evenly spread."""
    mixed = rows.copy()
    mixed[np.arange(len(again)) * len(rows) // max(1, len(again))] = again
    return mixed
