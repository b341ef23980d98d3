"""CartPole as Rules: a pole on a cart, kept upright by pushing left or right.

The dynamics are those of Barto, Sutton and Anderson (1983), "Neuronlike adaptive elements that can solve difficult
learning control problems", without friction, as Gymnasium's CartPole-v1 has them: the same start for the same seed, the
same Euler step of 20 ms, the same endings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError
from devmind.worlds.rules import Outcome, Struct

GRAVITY = 9.8
POLE_MASS = 0.1
TOTAL_MASS = 1.1
HALF_LENGTH = 0.5
PUSH_FORCE = 10.0
STEP_S = 0.02
POSITION_LIMIT = 2.4
ANGLE_LIMIT_RAD = math.radians(12)
MAX_STEPS = 500


@dataclass
class CartPoleState(Struct):
    """Position and speed of cart and pole, float64 [N] each; `tick` int64 [N] counts steps; `over` bool [N]: the
    episode had ended before the last step."""

    position: np.ndarray
    speed: np.ndarray
    angle_rad: np.ndarray
    turn_rad_s: np.ndarray
    tick: np.ndarray
    over: np.ndarray


class CartPoleRules:
    """`body` is [position, speed, angle_rad, turn_rad_s]; `push` is 0 (left) or 1 (right); a missing one is no push.

    Reward 1 for each step, also that of the fall. Terminal beyond 2.4 units or 12 degrees, truncated after 500 steps.
    An ended child does not change and earns nothing.

    Raises:
        WorldError: the level is not "", the only one.
    """

    name = "cartpole"
    horizon = MAX_STEPS

    def __init__(self, level: str = "") -> None:
        if level:
            raise WorldError(f"The world 'cartpole' has one level, ''; got '{level}'. Leave the level out.")
        self.level = level
        self.observation_space = spaces.Dict({"body": spaces.Box(-np.inf, np.inf, (4,), np.float32)})
        self.action_space = spaces.Dict({"push": spaces.Discrete(2)})

    def initial(self, seeds: np.ndarray) -> CartPoleState:
        """Four numbers uniform in ±0.05 for each seed, as `CartPole-v1` draws them for `reset(seed=...)`."""
        starts = np.empty((4, len(seeds)))
        for child, seed in enumerate(seeds):
            starts[:, child] = np.random.default_rng(int(seed)).uniform(-0.05, 0.05, 4)
        position, speed, angle_rad, turn_rad_s = starts
        return CartPoleState(
            position, speed, angle_rad, turn_rad_s, np.zeros(len(seeds), np.int64), np.zeros(len(seeds), bool)
        )

    def legal(self, state: CartPoleState) -> Mapping[str, np.ndarray]:
        """Both pushes are always legal."""
        return {}

    def step(self, state: CartPoleState, actions: Mapping[str, np.ndarray]) -> CartPoleState:
        """20 ms later."""
        push = actions.get("push")
        force = 0.0 if push is None else PUSH_FORCE * (2.0 * np.asarray(push) - 1.0)
        sin, cos = np.sin(state.angle_rad), np.cos(state.angle_rad)
        drive = (force + POLE_MASS * HALF_LENGTH * np.square(state.turn_rad_s) * sin) / TOTAL_MASS
        turning = (GRAVITY * sin - cos * drive) / (HALF_LENGTH * (4 / 3 - POLE_MASS * np.square(cos) / TOTAL_MASS))
        speeding = drive - POLE_MASS * HALF_LENGTH * turning * cos / TOTAL_MASS
        over = self._fallen(state) | (state.tick >= MAX_STEPS)
        moved_s = np.where(over, 0.0, STEP_S)
        return CartPoleState(
            state.position + moved_s * state.speed,
            state.speed + moved_s * speeding,
            state.angle_rad + moved_s * state.turn_rad_s,
            state.turn_rad_s + moved_s * turning,
            state.tick + ~over,
            over,
        )

    def outcome(self, state: CartPoleState) -> Outcome:
        """Reward and endings; both endings are true if the pole falls in step 500."""
        earned = ~state.over & (state.tick > 0)
        return Outcome(earned.astype(np.float32), self._fallen(state), state.tick >= MAX_STEPS)

    def observe(self, state: CartPoleState) -> dict[str, Any]:
        """The four numbers as float32 [N, 4]."""
        return {"body": self._motion(state).astype(np.float32)}

    def truth(self, state: CartPoleState) -> dict[str, np.ndarray]:
        """The same in full precision, float64 [N, 4], and the steps survived, int64 [N]."""
        return {"motion": self._motion(state), "survived": state.tick.copy()}

    @staticmethod
    def _motion(state: CartPoleState) -> np.ndarray:
        return np.stack((state.position, state.speed, state.angle_rad, state.turn_rad_s), axis=1)

    @staticmethod
    def _fallen(state: CartPoleState) -> np.ndarray:
        return (np.abs(state.position) > POSITION_LIMIT) | (np.abs(state.angle_rad) > ANGLE_LIMIT_RAD)
