"""ReplayedWorld: a recorded session as a world in which actions change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError
from devmind.moment import Moment, Sense
from devmind.sessions.reader import Recorded, Session

_KNOWN_RANGES = {"periphery": (0.0, 1.0), "sound": (-1.0, 1.0)}


class ReplayedWorld(gym.Env[Any, Any]):
    """Gives the Moments of a session in turn; `step` ignores its action.

    `observation_space` and `action_space` hold everything recorded. An observation has the senses of its Moment, so an
    absent sense is absent. `info` has `time_s`, `tick` (index in the session) and `last_action`: the recorded Action
    before it, None at the start of an episode or without a recorded one. `reset(seed=...)` goes to the first episode,
    `reset()` to the next one, in a circle.

    Raises:
        WorldError: the session is empty, a sense has several shapes, or `step` is called after the end.
    """

    def __init__(self, session: Session | str | Path) -> None:
        self.session = session if isinstance(session, Session) else Session(session)
        self._episodes = self.session.episodes()
        if not self._episodes:
            raise WorldError(f"The session '{self.session.path}' holds no Moment, so there is nothing to replay.")
        self.observation_space = _space_of(self.session.senses)
        self.action_space = _space_of(self.session.effectors)
        self._episode = -1
        self._tick: int | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Sense], dict[str, Any]]:
        """The first Moment of an episode."""
        super().reset(seed=seed)
        self._episode = 0 if seed is not None else (self._episode + 1) % len(self._episodes)
        self._tick = self._episodes[self._episode].start
        self._steps = self.session.read(self._tick, self._episodes[self._episode].stop)
        moment, self._action = next(self._steps)
        return dict(moment.senses), self._info(moment, None)

    def step(self, action: dict[str, Any]) -> tuple[dict[str, Sense], float, bool, bool, dict[str, Any]]:
        """The next Moment; truncated if the recording stops before the end of the episode."""
        if self._tick is None:
            raise WorldError("The episode is over, or was not begun; call reset first.")
        led_here, self._tick = self._action, self._tick + 1
        if self._tick not in self._episodes[self._episode]:
            raise WorldError("This episode was recorded as a single Moment; call reset for the next one.")
        moment, self._action = next(self._steps)
        over = moment.last or self._tick == self._episodes[self._episode].stop - 1
        info = self._info(moment, led_here)
        if over:
            self._tick = None
        return dict(moment.senses), moment.reward, moment.terminal, over and not moment.terminal, info

    def _info(self, moment: Moment, last_action: Any) -> dict[str, Any]:
        return {"time_s": moment.time_s, "tick": self._tick, "last_action": last_action}


def _space_of(recorded: dict[str, Recorded]) -> spaces.Dict:
    """One space per name: Text for words, Box for arrays."""
    found: dict[str, spaces.Space[Any]] = {}
    for name, what in recorded.items():
        if len(what.kinds) > 1:
            shapes = ", ".join(f"{dtype} {list(shape)}" for dtype, shape in sorted(what.kinds))
            raise WorldError(
                f"'{name}' was recorded in several forms ({shapes}); a world needs one: split the session."
            )
        ((dtype, shape),) = what.kinds
        found[name] = _text(what) if dtype == "str" else _box(name, np.dtype(dtype), shape)
    return spaces.Dict(found)


def _text(what: Recorded) -> spaces.Text:
    return spaces.Text(max(1, what.longest), min_length=0, charset=frozenset(what.letters) or " ")


def _box(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> spaces.Box:
    low: Any
    high: Any
    if dtype.kind == "f":
        low, high = _KNOWN_RANGES.get(name, (-np.inf, np.inf))
    elif dtype.kind == "b":
        low, high = 0, 1
    else:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return spaces.Box(low, high, shape, dtype.type)
