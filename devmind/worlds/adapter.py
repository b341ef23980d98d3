"""Adapters that make Gymnasium worlds of Rules: one child, or many stepped together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Generic

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from devmind.errors import WorldError
from devmind.moment import TICK_HZ, Moment
from devmind.worlds.rules import Rules, State


def row(senses: Mapping[str, Any], index: int) -> dict[str, Any]:
    """One child's senses of a batch, without `words` if they are empty."""
    return {name: value[index] for name, value in senses.items() if not (name == "words" and value[index] == "")}


def moment(
    senses: Mapping[str, Any],
    tick: int,
    reward: float = 0.0,
    terminal: bool = False,
    truncated: bool = False,
    tick_hz: float = TICK_HZ,
) -> Moment:
    """A Moment of one child's senses; tick 0 is the first of an episode."""
    return Moment(tick / tick_hz, dict(senses), float(reward), tick == 0, bool(terminal or truncated), bool(terminal))


class RulesWorld(gymnasium.Env, Generic[State]):
    """One child in a world of Rules.

    Args:
        rules: the world's rules.
        seed: the first episode's, if `reset` gives none; later episodes count on from it.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, rules: Rules[State], seed: int = 0) -> None:
        self.rules = rules
        self.observation_space = rules.observation_space
        self.action_space = rules.action_space
        self._next_seed = seed
        self._state: State | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict]:
        """Start the episode of `seed`, by default the next number."""
        super().reset(seed=seed)
        seed = self._next_seed if seed is None else seed
        self._next_seed = seed + 1
        self._state = self.rules.initial(np.array([seed], np.int64))
        return row(self.rules.observe(self._state), 0), {"seed": seed}

    def step(self, action: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Act for one tick; effectors that are left out do nothing."""
        batch = {name: np.asarray(value)[None] for name, value in action.items()}
        self._state = self.rules.step(_started(self._state), batch)
        outcome = self.rules.outcome(self._state)
        flags = bool(outcome.terminal[0]), bool(outcome.truncated[0])
        return row(self.rules.observe(self._state), 0), float(outcome.reward[0]), *flags, {}

    def truth(self) -> dict[str, np.ndarray]:
        """The present truth, without the leading dimension; for lessons and exams only."""
        return {name: value[0] for name, value in self.rules.truth(_started(self._state)).items()}

    def state(self) -> State:
        """A copy of the present state."""
        return _started(self._state).copy()

    def restore(self, state: State) -> dict[str, Any]:
        """Continue from `state`; returns its senses."""
        self._state = state.copy()
        return row(self.rules.observe(self._state), 0)


class VectorWorld(VectorEnv, Generic[State]):
    """N children stepped together. An ended child is not reset by itself (re-seed all with `reset`).

    Senses are arrays [N, ...], `words` a list of N str ("" is absent).
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012

    def __init__(self, rules: Rules[State], n: int) -> None:
        self.rules = rules
        self.num_envs = n
        self.single_observation_space = rules.observation_space
        self.single_action_space = rules.action_space
        self._state: State | None = None
        self._next_seed = 0

    # Made on first use: with thousands of rows they take seconds, and worlds are made for every batch.
    @cached_property
    def observation_space(self) -> spaces.Space:  # type: ignore[override]
        """The senses of N children."""
        return batch_space(self.rules.observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> spaces.Space:  # type: ignore[override]
        """The effectors of N children."""
        return batch_space(self.rules.action_space, self.num_envs)

    def reset(
        self,
        seeds: np.ndarray | list[int] | None = None,
        *,
        seed: int | list[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start the episodes of `seeds`, int64 [N], by default the next numbers; `seed` s is Gymnasium's way and means
        s, s + 1, ..."""
        if seeds is None:
            first = self._next_seed if seed is None else seed
            seeds = np.array(first) if isinstance(first, list) else np.arange(self.num_envs) + first
        self.begin(seeds)
        return self.observe(), {}

    def begin(self, seeds: np.ndarray | list[int]) -> None:
        """As `reset`, without senses: a caller that needs the state alone, or senses later, saves the pictures."""
        seeds = np.asarray(seeds, np.int64)
        if seeds.shape != (self.num_envs,):
            raise WorldError(f"Expected one seed for each of {self.num_envs} children; got shape {list(seeds.shape)}.")
        self._state = self.rules.initial(seeds)
        self._next_seed = int(seeds.max(initial=-1)) + 1

    def step(
        self, actions: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Act for one tick, arrays [N, ...] by effector; returns senses, reward, terminated, truncated, {}."""
        self._state = self.rules.step(_started(self._state), actions)
        outcome = self.rules.outcome(self._state)
        return self.observe(), outcome.reward, outcome.terminal, outcome.truncated, {}

    def observe(self) -> dict[str, Any]:
        """The children's present senses."""
        return self.rules.observe(_started(self._state))

    def truth(self) -> dict[str, np.ndarray]:
        """The present truth, [N, ...]; for lessons and exams only."""
        return self.rules.truth(_started(self._state))

    def state(self) -> State:
        """A copy of the present state."""
        return _started(self._state).copy()

    def restore(self, state: State) -> dict[str, Any]:
        """Continue from `state`; returns its senses."""
        if len(state) != self.num_envs:
            raise WorldError(f"Expected a state of {self.num_envs} children; got {len(state)}.")
        self._state = state.copy()
        return self.observe()


def _started(state: State | None) -> State:
    if state is None:
        raise WorldError("The world has no state yet: call reset first.")
    return state
