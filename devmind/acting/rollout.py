"""Rollouts: a policy acts in a world of N rows, tick by tick. Only rollouts step worlds in lessons and exams.

A policy gets the senses of N rows and which of them begin an episode, and gives their actions. An `Actor` is a policy,
and so is a short rule, or a batched network in training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from gymnasium.vector import AutoresetMode

from devmind.errors import WorldError

Senses = Mapping[str, Any]
"""Arrays [N, ...] by sense; `words` is a list of N str, where "" is absent."""
Actions = Mapping[str, np.ndarray]
"""Arrays [N, ...] by effector; an effector that is left out does nothing."""
Policy = Callable[[Senses, np.ndarray], Actions]
"""`(senses [N, ...], first bool [N]) -> actions [N, ...]`."""

Through = Callable[[Policy, "Steppable"], Policy]
"""Replaces a policy that is about to act in a world by another one."""
SPARED = 0.75
"""Ended rows are dropped when at most this share of the rows that the policy is asked about goes on, because dropping
costs a copy."""
_THROUGH: ContextVar[Through | None] = ContextVar("who acts in a rollout in place of its policy", default=None)
Watch = Callable[[int, int, float], None]
"""`(episodes over, all episodes, share 0..1)` of a rollout, after a tick."""
_WATCH: ContextVar[Watch | None] = ContextVar("who is told how far rollouts are", default=None)
_ROLLING: ContextVar[bool] = ContextVar("a rollout is stepping a world", default=False)


class Steppable(Protocol):
    """What a rollout needs of a world of N rows, such as `VectorWorld` and `SideBySide`."""

    @property
    def num_envs(self) -> int:
        """N, the number of rows."""
        ...

    def observe(self) -> Senses:
        """The present senses."""
        ...

    def step(self, actions: Any) -> tuple[Senses, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Act for one tick; gives senses, reward [N], terminated [N], truncated [N] and info."""
        ...


@dataclass(frozen=True)
class Transition:
    """One tick of N rows.

    Attributes:
        tick: from 0; senses, first: what the policy was given; actions: what it did.
        following: the next senses; reward float [N]; terminated, truncated bool [N].
        led_to: the senses at the end of the step: those of `following`, except in ended rows that the world has reset.
        asked: the rows that the policy was asked about, int64 [K]; all of them, unless the rollout is sparing.
    """

    tick: int
    senses: Senses
    first: np.ndarray
    actions: Actions
    following: Senses
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    led_to: Senses
    asked: np.ndarray

    @property
    def ended(self) -> np.ndarray:
        """The rows whose episode is over, bool [N]."""
        return np.asarray(self.terminated | self.truncated)


def rollout(
    policy: Policy,
    world: Steppable,
    ticks: int | None = None,
    first: np.ndarray | None = None,
    sparing: bool = False,
    done: np.ndarray | None = None,
) -> Iterator[Transition]:
    """Let `policy` act in `world` from its present state; gives one Transition for each tick.

    The caller may read the world's true state between two ticks; it is then that of `following`.

    Args:
        ticks: number of ticks; None: until every row's episode is over, for worlds that do not reset ended rows. Then
            Rules whose episodes are longer than their `horizon` are refused, as the rollout would never end.
        first: which rows begin an episode at the first tick, bool [N]; all by default.
        sparing: do not ask the policy about rows whose episode is over; their actions are zeros. This needs a policy
            that can drop rows (`keep(index)`, as an Actor can) and a world that does not reset ended rows.
        done: with `sparing`, further rows that need not be asked, bool [N], because their actions no longer count; the
            caller sets them between ticks.

    Raises:
        WorldError: episodes go on after the world's horizon.
    """
    policy = current_replacement()(policy, world)
    watch, finished = _WATCH.get(), np.zeros(world.num_envs, bool)
    senses, tick = world.observe(), 0
    opening = np.ones(world.num_envs, bool) if first is None else np.asarray(first, bool)
    over, asked = False, np.arange(world.num_envs)
    horizon = getattr(getattr(world, "rules", None), "horizon", None)
    sparing = sparing and hasattr(policy, "keep") and not starts_anew(world)
    while tick < ticks if ticks is not None else not over:
        if len(asked) == world.num_envs:
            actions = policy(senses, opening)
        else:
            some = policy({name: _rows(value, asked) for name, value in senses.items()}, opening[asked])
            actions = {name: _spread(value, asked, world.num_envs) for name, value in some.items()}
        with _rolling():
            following, reward, terminated, truncated, info = world.step(actions)
        led_to = info.get("final_obs", following)
        transition = Transition(tick, senses, opening, actions, following, reward, terminated, truncated, led_to, asked)
        yield transition
        over = bool(transition.ended.all())
        if watch is not None:
            finished |= transition.ended
            longest = ticks or horizon
            share = float(finished.mean()) if longest is None else min(1.0, (tick + 1) / longest)
            watch(int(finished.sum()), world.num_envs, 1.0 if over else share)
        opening = transition.ended if starts_anew(world) else np.zeros(world.num_envs, bool)
        senses, tick = following, tick + 1
        if ticks is None and horizon is not None and tick >= horizon and not over:
            going_on = int((~transition.ended).sum())
            raise WorldError(
                f"{going_on} of {world.num_envs} episodes of the world go on after {horizon} steps, and its `horizon` "
                "says that none does. Let `outcome` end them, or give the rollout `ticks`."
            )
        going = ~(transition.ended if done is None else transition.ended | done)[asked]
        if sparing and 0 < going.sum() <= SPARED * len(asked):
            policy.keep(np.flatnonzero(going))  # type: ignore[attr-defined]
            asked = asked[going]


def _rows(value: Any, index: np.ndarray) -> Any:
    return value[index] if isinstance(value, np.ndarray) else [value[row] for row in index.tolist()]


def _spread(value: np.ndarray, index: np.ndarray, n: int) -> np.ndarray:
    """Rows [len(index), ...] at their places among `n` rows, zeros elsewhere."""
    spread_rows = np.zeros((n, *value.shape[1:]), value.dtype)
    spread_rows[index] = value
    return spread_rows


def observations(world: Steppable, ticks: int, policy: Policy | None = None) -> Iterator[Senses]:
    """The senses of `ticks` Moments of a world, beginning with the present one; without a policy nothing is done.

    The world is not stepped after the last Moment, so its true state is that of this Moment.
    """
    yield world.observe()
    for transition in rollout(policy or still, world, ticks - 1):
        yield transition.following


def returns(policy: Policy, world: Steppable) -> np.ndarray:
    """Each row's sum of rewards in one episode, float64 [N]; the rollout ends when all episodes are over."""
    total, going = np.zeros(world.num_envs), np.ones(world.num_envs, bool)
    for transition in rollout(policy, world):
        total = total + np.where(going, transition.reward, 0.0)
        going &= ~transition.ended
    return total


def still(senses: Senses, first: np.ndarray) -> Actions:
    """The policy that does nothing."""
    return {}


def constant_policy(command: np.ndarray, effector: str = "look") -> Policy:
    """The policy that gives one effector the same command [N, ...] at every tick."""
    return lambda senses, first: {effector: command}


def starts_anew(world: Any) -> bool:
    """Whether the world resets ended rows in the same step (Gymnasium's same-step autoreset)."""
    return (getattr(world, "metadata", None) or {}).get("autoreset_mode") is AutoresetMode.SAME_STEP


def is_rolling() -> bool:
    """Whether a rollout is stepping a world now; the check of stages counts world steps outside of rollouts."""
    return _ROLLING.get()


def current_replacement() -> Through:
    """The present replacement of policies (`acting_through`); by default every policy stays."""
    return _THROUGH.get() or (lambda policy, world: policy)


@contextmanager
def acting_through(through: Through) -> Iterator[None]:
    """Let `through(policy, world)` act in rollouts that begin in this block; so the live loop can hold an exam."""
    token = _THROUGH.set(through)
    try:
        yield
    finally:
        _THROUGH.reset(token)


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Tell `watch` after each tick of rollouts that begin in this block how far they are."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


@contextmanager
def _rolling() -> Iterator[None]:
    token = _ROLLING.set(True)
    try:
        yield
    finally:
        _ROLLING.reset(token)
