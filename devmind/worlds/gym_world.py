"""Gymnasium environments as worlds of senses and effectors, and as Rules if they can be copied.

Observations and actions are Box, Discrete, MultiDiscrete or MultiBinary spaces, or a Dict of these. Discrete
observations become one-hot vectors. Texts, sequences and graphs need a wrapper first.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from devmind.errors import MomentError, WorldError
from devmind.moment import STANDARD_SENSES, check_sense
from devmind.worlds.rules import Outcome, Struct

OBSERVATION = "observation"
"""The name of a single observation that is no standard sense."""
STEPPED = 5
"""Steps of an environment before a copy of it is compared."""

Convert = Callable[[Any], np.ndarray]


class GymWorld(gymnasium.Env):
    """Wraps any environment whose spaces are Box, Discrete, MultiDiscrete or MultiBinary, or Dicts of these.

    A vector becomes `body`, an RGB picture (uint8 [H, W, 3]) `sight`, planes of a board (int8 [C, H, W]) `board`,
    anything else `observation`; the entries of a Dict keep their names.

    Args:
        sense: name of the sense, for a single observation.
        effector: name of the effector, for a single action; its space stays the same.

    Raises:
        WorldError: a space is of another kind, or an entry of a Dict has the name of a standard sense but not its form.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, env: gymnasium.Env, sense: str | None = None, effector: str = "push") -> None:
        self.env = env
        self._single = not isinstance(env.observation_space, spaces.Dict)
        self._converters: dict[str, Convert] = {}
        senses: dict[str, spaces.Space] = {}
        for name, space in _entries(env.observation_space, OBSERVATION, "observe").items():
            adapted, convert = _sensed(space)
            named = (sense or _standard_name(adapted)) if self._single else name
            _check_form(named, adapted)
            senses[named], self._converters[named] = adapted, convert
        self.effectors = _entries(env.action_space, effector, "act by")
        self.observation_space = spaces.Dict(senses)
        self.action_space = spaces.Dict(dict(self.effectors))

    def senses(self, observation: Any) -> dict[str, np.ndarray]:
        """The environment's observation by sense."""
        parts = [observation] if self._single else [observation[name] for name in self._converters]
        return {name: convert(part) for (name, convert), part in zip(self._converters.items(), parts, strict=True)}

    def command(self, action: Mapping[str, Any]) -> Any:
        """The environment's action for arrays by effector; WorldError if one is missing."""
        for name in self.effectors:
            if name not in action:
                raise WorldError(f"Expected the effector '{name}'; got {sorted(action) or 'none'}.")
        given = {name: _commanded(space, action[name]) for name, space in self.effectors.items()}
        return given if isinstance(self.env.action_space, spaces.Dict) else next(iter(given.values()))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict]:
        """Reset the wrapped environment."""
        super().reset(seed=seed)
        observation, info = self.env.reset(seed=seed, options=options)
        return self.senses(observation), info

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Act with arrays by effector; WorldError if one is missing."""
        observation, reward, terminated, truncated, info = self.env.step(self.command(action))
        return self.senses(observation), float(reward), bool(terminated), bool(truncated), info

    def close(self) -> None:
        """Close the wrapped environment."""
        self.env.close()


def _entries(space: spaces.Space, name: str, use: str) -> dict[str, spaces.Space]:
    """The spaces to use by name; a space that is no Dict gets `name`."""
    entries = dict(space.spaces) if isinstance(space, spaces.Dict) else {name: space}
    for entry, one in entries.items():
        numeric = isinstance(one, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary)
        if not numeric or "." in entry:
            raise WorldError(
                f"GymWorld expected Box, Discrete, MultiDiscrete or MultiBinary to {use}, or a Dict of these (names "
                f"without a dot); got {one} as '{entry}'. Wrap the env first."
            )
    return entries


def _sensed(space: spaces.Space) -> tuple[spaces.Box, Convert]:
    """The Box of a sense, and the conversion of observations to it: a copy, as many environments give one array that
    they write each observation into."""
    if isinstance(space, spaces.Discrete):
        return _one_hots(np.array([space.n]), np.array([space.start]))
    if isinstance(space, spaces.MultiDiscrete):
        return _one_hots(space.nvec.ravel(), np.asarray(space.start).ravel())
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        return _zero_to_one(size), lambda x: np.array(x, np.float32).reshape(size)
    assert isinstance(space, spaces.Box)
    if len(space.shape) <= 1:
        low, high = (np.asarray(bound, np.float32).reshape(-1) for bound in (space.low, space.high))
        return spaces.Box(low, high, dtype=np.float32), lambda x: np.array(x, np.float32).reshape(-1)
    dtype = space.dtype
    return space, lambda x: np.array(x, dtype)


def _one_hots(sizes: np.ndarray, starts: np.ndarray) -> tuple[spaces.Box, Convert]:
    """One-hot vectors of choices with these sizes, side by side."""
    offsets = np.concatenate(([0], np.cumsum(sizes)[:-1])) - starts

    def convert(value: Any) -> np.ndarray:
        found = np.zeros(int(sizes.sum()), np.float32)
        found[np.asarray(value).ravel() + offsets] = 1.0
        return found

    return _zero_to_one(int(sizes.sum())), convert


def _zero_to_one(size: int) -> spaces.Box:
    return spaces.Box(0.0, 1.0, (size,), np.float32)


def _standard_name(space: spaces.Box) -> str:
    if len(space.shape) == 3 and space.shape[2] == 3 and space.dtype == np.uint8:
        return "sight"
    if len(space.shape) == 3 and space.dtype == np.int8:
        return "board"
    return "body" if len(space.shape) == 1 else OBSERVATION


def _check_form(name: str, space: spaces.Box) -> None:
    if name not in STANDARD_SENSES:
        return
    try:
        check_sense(name, np.zeros(space.shape, space.dtype))
    except MomentError as error:
        raise WorldError(f"{error} Give the sense another name, or wrap the env first.") from None


def _commanded(space: spaces.Space, value: Any) -> Any:
    """An array as the environment takes it: a Discrete one as an int."""
    if isinstance(space, spaces.Discrete):
        return int(np.asarray(value).reshape(-1)[0])
    return np.asarray(value).astype(space.dtype)


# -- as Rules --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One environment at one time; only copies of it are stepped.

    Two are equal if they come from the same seed and actions.
    """

    env: GymWorld
    senses: dict[str, np.ndarray]
    legal: np.ndarray | None
    history: tuple[bytes, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and self.history == other.history

    def __hash__(self) -> int:
        return hash(self.history)


@dataclass
class GymState(Struct):
    """env object [N], Snapshots; reward float32 [N] of the last step; terminal, truncated bool [N]."""

    env: np.ndarray
    reward: np.ndarray
    terminal: np.ndarray
    truncated: np.ndarray


class GymRules:
    """A registered Gymnasium environment as Rules: every step is made on a copy, so search and resuming work.

    Copies take time (CartPole: some 50 us; large tables or pictures: far more); Rules on arrays are faster. Gymnasium's
    environments of MuJoCo and Box2D are refused, as their copies are made anew (`EzPickle`). `legal` is the
    environment's own `action_mask`, if its info has one. Senses are those of `GymWorld`.

    Args:
        level: the environment's id, such as "CartPole-v1".

    Raises:
        WorldError: there is no such environment, its spaces do not fit, it cannot be played, or it cannot be copied.
    """

    name = "gymnasium"

    def __init__(self, level: str = "CartPole-v1") -> None:
        self._world = self._made(level)
        self.level = level
        self.effectors = self._world.effectors
        self.observation_space: Any = self._world.observation_space
        self.action_space: Any = self._world.action_space
        spec = self._world.env.spec
        self.horizon = None if spec is None else spec.max_episode_steps
        self._check_copies()

    def _made(self, level: str) -> GymWorld:
        """The environment that is copied."""
        try:
            env = gymnasium.make(level, disable_env_checker=True)
        except Exception as error:  # the environment is somebody else's, so it may be any
            raise WorldError(f"There is no Gymnasium environment '{level}' that can be made: {error}") from error
        return GymWorld(env)

    def _check_copies(self) -> None:
        """Raise WorldError unless the environment can be played, and a copy continues like the original.

        It is copied after some steps, as a copy that was made anew (`gymnasium.utils.EzPickle`) may be like the
        original at the beginning of an episode alone.
        """
        self.action_space.seed(0)
        try:
            _, info = self._world.reset(seed=0)
            self._masked = _mask(info) is not None
            for _ in range(STEPPED):
                *_, terminated, truncated, info = self._world.step(self._random_action(info))
                if terminated or truncated:
                    _, info = self._world.reset(seed=0)
        except Exception as error:  # as above
            raise WorldError(
                f"The environment '{self.level}' cannot be played ({error}): choose another one."
            ) from error
        action = self._random_action(info)
        try:
            twin = copy.deepcopy(self._world)
            (mine, *rest), (theirs, *others) = self._world.step(action), twin.step(action)
        except Exception as error:  # as above; a copy that was made anew may ask for a reset
            raise WorldError(
                f"The environment '{self.level}' cannot be copied ({error}): use it as GymWorld, which needs no copies."
            ) from error
        alike = rest[:3] == others[:3] and all(np.array_equal(mine[name], theirs[name], True) for name in mine)
        if not alike:
            raise WorldError(
                f"A copy of the environment '{self.level}' does not go on as the original does: use it as GymWorld."
            )

    def _random_action(self, info: Mapping[str, Any]) -> dict[str, Any]:
        """A random action, a legal one if the environment says which are."""
        mask = _mask(info)
        return {
            name: space.sample(mask=mask.astype(np.int8))
            if isinstance(space, spaces.Discrete) and mask is not None and mask.shape == (space.n,)
            else space.sample()
            for name, space in self.effectors.items()
        }

    def initial(self, seeds: np.ndarray) -> GymState:
        """Each environment reset with its seed."""
        found = np.empty(len(seeds), object)
        for i, seed in enumerate(seeds):
            env = copy.deepcopy(self._world)
            senses, info = env.reset(seed=int(seed))
            found[i] = Snapshot(env, senses, _mask(info), (str(int(seed)).encode(),))
        return GymState(found, np.zeros(len(seeds), np.float32), *(np.zeros(len(seeds), bool) for _ in range(2)))

    def legal(self, state: GymState) -> Mapping[str, np.ndarray]:
        """The environments' own masks, if they have masks and one Discrete action; all actions after the end."""
        discrete = {name: int(space.n) for name, space in self.effectors.items() if isinstance(space, spaces.Discrete)}
        if not self._masked or len(discrete) != 1:
            return {}
        ((effector, choices),) = discrete.items()
        legal = np.ones((len(state), choices), bool)
        for row in np.flatnonzero(~(state.terminal | state.truncated)):
            mask = state.env[row].legal
            if mask is not None and mask.any():
                legal[row] = mask
        return {effector: legal}

    def step(self, state: GymState, actions: Mapping[str, np.ndarray]) -> GymState:
        """One step of copies. If an effector is missing, no time passes; an ended child does not change."""
        new = replace(state.copy(), reward=np.zeros(len(state), np.float32))
        if any(name not in actions for name in self.effectors):
            return new
        for i in np.flatnonzero(~(state.terminal | state.truncated)):
            before: Snapshot = state.env[i]
            action = {name: np.asarray(actions[name][i]) for name in self.effectors}
            env = copy.deepcopy(before.env)
            senses, new.reward[i], new.terminal[i], new.truncated[i], info = env.step(action)
            made = b"".join(np.ascontiguousarray(value).tobytes() for value in action.values())
            new.env[i] = Snapshot(env, senses, _mask(info), (*before.history, made))
        return new

    def outcome(self, state: GymState) -> Outcome:
        """Reward and endings from the environments."""
        return Outcome(state.reward.copy(), state.terminal.copy(), state.truncated.copy())

    def observe(self, state: GymState) -> dict[str, Any]:
        """Senses by name, arrays [N, ...]."""
        return {name: np.stack([one.senses[name] for one in state.env]) for name in self.observation_space.spaces}

    def truth(self, state: GymState) -> dict[str, np.ndarray]:
        """Nothing: only the senses are known."""
        return {}


def _mask(info: Mapping[str, Any]) -> np.ndarray | None:
    mask = info.get("action_mask")
    return None if mask is None else np.asarray(mask).astype(bool)
