"""Any Gymnasium environment as a world of the standard senses and effectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError


class GymWorld(gymnasium.Env):
    """Wraps an environment of one vector, picture or board and one action.

    Args:
        env: observations are a vector (any Box of one dimension), an RGB picture (uint8 [H, W, 3]) or the planes of a
            board (int8 [C, H, W]).
        sense: name of the sense; by default `sight` for a picture, `board` for a board and `body` for a vector.
        effector: name of the effector; Discrete and Box actions keep their space under it.

    Raises:
        WorldError: the observation is no vector, picture or board, or the action neither Discrete nor Box.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, env: gymnasium.Env, sense: str | None = None, effector: str = "push") -> None:
        space = env.observation_space
        if not isinstance(space, spaces.Box) or not (_is_picture(space) or _is_board(space) or len(space.shape) == 1):
            raise WorldError(
                f"GymWorld expected a vector, an RGB picture or an int8 board to observe; got {space}. "
                "Wrap the env first."
            )
        if not isinstance(env.action_space, (spaces.Box, spaces.Discrete)):
            raise WorldError(f"GymWorld expected Discrete or Box actions; got {env.action_space}. Wrap the env first.")
        self.env = env
        self.sense = sense or ("sight" if _is_picture(space) else "board" if _is_board(space) else "body")
        self.effector = effector
        if len(space.shape) == 1:
            space = spaces.Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)
        self._dtype = space.dtype
        self.observation_space = spaces.Dict({self.sense: space})
        self.action_space = spaces.Dict({effector: env.action_space})

    def _senses(self, observation: Any) -> dict[str, np.ndarray]:
        return {self.sense: np.asarray(observation, self._dtype)}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict]:
        """Reset the wrapped environment."""
        super().reset(seed=seed)
        observation, info = self.env.reset(seed=seed, options=options)
        return self._senses(observation), info

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Act with the array under the effector's name; WorldError when it is missing."""
        if self.effector not in action:
            raise WorldError(f"Expected the effector '{self.effector}'; got {sorted(action) or 'none'}.")
        command = np.asarray(action[self.effector])
        inner = self.env.action_space
        choice = int(command.reshape(-1)[0]) if isinstance(inner, spaces.Discrete) else command.astype(inner.dtype)
        observation, reward, terminated, truncated, info = self.env.step(choice)
        return self._senses(observation), float(reward), bool(terminated), bool(truncated), info

    def close(self) -> None:
        """Close the wrapped environment."""
        self.env.close()


def _is_picture(space: spaces.Box) -> bool:
    return len(space.shape) == 3 and space.shape[2] == 3 and space.dtype == np.uint8


def _is_board(space: spaces.Box) -> bool:
    return len(space.shape) == 3 and space.dtype == np.int8
