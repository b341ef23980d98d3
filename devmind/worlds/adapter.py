"""Adapters that make Gymnasium worlds of Rules: one child, or many stepped together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Generic

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from devmind.errors import WorldError, nearest
from devmind.moment import TICK_HZ, Moment
from devmind.seeding import EXAM_SEEDS_FROM
from devmind.worlds.rules import Rules, State, rules_of


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


class FlatWorld(gymnasium.Env):
    """One child in a world of Rules with the spaces that libraries of reinforcement learning take: a Dict of Boxes that
    are always there to observe, and one Box to act.

    Args:
        level: of the world, by default the world's own.
        senses: observed, by default all but `words`, which are text.
        effectors: acted by, in this order, by default all; the others do nothing. Their Boxes are joined to one.
        world: an entry of the plugin group `worlds` whose senses are always there and whose effectors are Boxes.
        max_ticks: an episode is cut off then, where the level has no end of its own.

    Raises:
        WorldError: a world, level, sense or effector is unknown, or one of them is no Box.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": TICK_HZ}  # noqa: RUF012

    def __init__(
        self,
        level: str | None = None,
        senses: Sequence[str] | None = None,
        effectors: Sequence[str] | None = None,
        world: str = "nursery",
        max_ticks: int = 200,
        render_mode: str | None = None,
    ) -> None:
        rules = rules_of(world, level)
        self.inner: RulesWorld[Any] = RulesWorld(rules)
        self.render_mode, self.max_ticks, self._tick = render_mode, max_ticks, 0
        self._senses = _boxes("sense", rules.observation_space, senses)
        self._effectors = _boxes("effector", rules.action_space, effectors)
        self.observation_space = spaces.Dict(dict(self._senses))
        self.action_space = spaces.Box(
            np.concatenate([box.low.ravel() for box in self._effectors.values()]),
            np.concatenate([box.high.ravel() for box in self._effectors.values()]),
            dtype=np.float32,
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict]:
        """Start the episode of `seed`; without one, of a seed that the last given one determines."""
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(EXAM_SEEDS_FROM)) if seed is None else seed
        senses, info = self.inner.reset(seed=drawn)
        self._tick = 0
        return self._seen(senses), info

    def step(self, action: np.ndarray) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Act for one tick by the joined effectors, float32 [D]."""
        sizes = [int(np.prod(box.shape)) for box in self._effectors.values()]
        parts = np.split(np.asarray(action, np.float32), np.cumsum(sizes)[:-1])
        given = {
            name: part.reshape(box.shape) for (name, box), part in zip(self._effectors.items(), parts, strict=True)
        }
        senses, reward, terminated, truncated, info = self.inner.step(given)
        self._tick += 1
        return self._seen(senses), reward, terminated, truncated or self._tick >= self.max_ticks, info

    def render(self) -> np.ndarray | None:
        """The picture that people are shown, uint8 [H, W, 3]; the agent's sight where a world has no other."""
        if self.render_mode is None:
            return None
        state, rules = self.inner.state(), self.inner.rules
        picture = getattr(rules, "picture", None)
        return picture(state)[0] if picture else rules.observe(state)["sight"][0]

    def _seen(self, senses: Mapping[str, Any]) -> dict[str, Any]:
        return {name: np.clip(senses[name], box.low, box.high) for name, box in self._senses.items()}


def _boxes(kind: str, space: spaces.Space, names: Sequence[str] | None) -> dict[str, spaces.Box]:
    known = dict(space.spaces) if isinstance(space, spaces.Dict) else {}
    chosen = [name for name in known if not isinstance(known[name], spaces.Text)] if names is None else names
    found: dict[str, spaces.Box] = {}
    for name in chosen:
        if name not in known:
            raise WorldError(f"There is no {kind} named '{name}' in this world{nearest(name, known)}")
        box = known[name]
        if not isinstance(box, spaces.Box):
            raise WorldError(f"The {kind} '{name}' is a {type(box).__name__}, and a Box was expected.")
        found[name] = box
    return found


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
