"""Lights Out as Rules: a press toggles a light and its neighbours; the puzzle is solved when all are out.

Presses commute, and the same press twice cancels out, so a solution is a set of presses. Not every pattern has one: on
a board of 5 x 5 only one in four (Anderson and Feil 1998, "Turning lights out with linear algebra").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError
from devmind.seeding import numpy_rng
from devmind.worlds.rules import Outcome, Struct

SIDES = range(2, 11)


@dataclass
class Lights(Struct):
    """lit int8 [N, side * side], 1 where a light is on; earned float32 [N] by the last press; over bool [N]: it was
    solved before that."""

    lit: np.ndarray
    earned: np.ndarray
    over: np.ndarray


class LightsOutRules:
    """The sense `puzzle` int8 [1, side, side], the effector `press`; a press costs 1 until all lights are out.

    The level is the side, and optionally the largest number of presses of a scramble: "5" (as many as lights) or "5-8".

    Raises:
        WorldError: the level is neither, or there is no such light.
    """

    name = "lights_out"
    horizon = None

    def __init__(self, level: str = "5") -> None:
        self.level = level
        side, _, most = level.partition("-")
        if not (side.isdecimal() and int(side) in SIDES and (most.isdecimal() or most == "")):
            raise WorldError(
                f"The level of the world 'lights_out' is a side from {SIDES[0]} to {SIDES[-1]}, such as '5', or with "
                f"the most presses of a scramble, '5-8'; got '{level}'."
            )
        self.side = int(side)
        self.cells = self.side**2
        self.most = min(int(most or self.cells), self.cells)
        if self.most < 1:
            raise WorldError(f"A scramble has at least one press; got '{level}'.")
        self.turns = turns(self.side)
        self.observation_space = spaces.Dict({"puzzle": spaces.Box(0, 1, (1, self.side, self.side), np.int8)})
        self.action_space = spaces.Dict({"press": spaces.Discrete(self.cells)})

    def initial(self, seeds: np.ndarray) -> Lights:
        """Scrambles of 1 to `most` presses at different places, by the seed."""
        pressed = np.zeros((len(seeds), self.cells), np.int8)
        for row, seed in enumerate(seeds):
            rng = numpy_rng(self.name, self.level, int(seed))
            pressed[row, rng.permutation(self.cells)[: rng.integers(1, self.most + 1)]] = 1
        return self.of(self.pressed(np.zeros_like(pressed), pressed))

    def of(self, lit: np.ndarray) -> Lights:
        """States with these lights on, int8 [N, side * side]."""
        n = len(lit)
        return Lights(np.asarray(lit, np.int8).copy(), np.zeros(n, np.float32), np.zeros(n, bool))

    def pressed(self, lit: np.ndarray, presses: np.ndarray) -> np.ndarray:
        """The lights after a set of presses, both int8 [N, side * side]."""
        return ((lit + presses.astype(np.int64) @ self.turns) % 2).astype(np.int8)

    def legal(self, state: Lights) -> Mapping[str, np.ndarray]:
        """Every light can be pressed."""
        return {}

    def step(self, state: Lights, actions: Mapping[str, np.ndarray]) -> Lights:
        """One press; a solved puzzle does not change."""
        over = _solved(state.lit)
        if "press" not in actions:
            return Lights(state.lit.copy(), np.zeros(len(state), np.float32), over)
        presses = np.asarray(actions["press"])
        if not ((presses >= 0) & (presses < self.cells)).all():
            raise WorldError(f"A press of 'lights_out' is one of the lights 0 to {self.cells - 1}.")
        turned = self.turns[presses]
        lit = np.where(over[:, None], state.lit, state.lit ^ turned)
        return Lights(lit, np.where(over, 0, -1).astype(np.float32), over)

    def outcome(self, state: Lights) -> Outcome:
        """-1 a press, also for the last; terminal when all lights are out."""
        solved = _solved(state.lit)
        return Outcome(state.earned.copy(), solved, np.zeros_like(solved))

    def observe(self, state: Lights) -> dict[str, Any]:
        """int8 [N, 1, side, side]."""
        return {"puzzle": state.lit.reshape(-1, 1, self.side, self.side).copy()}

    def truth(self, state: Lights) -> dict[str, np.ndarray]:
        """Nothing: the puzzle is fully visible."""
        return {}


def _solved(lit: np.ndarray) -> np.ndarray:
    return np.asarray(~lit.any(-1))


def turns(side: int) -> np.ndarray:
    """The lights that each press toggles, int8 [presses, lights]."""
    row, column = np.divmod(np.arange(side**2), side)
    apart = abs(row[:, None] - row) + abs(column[:, None] - column)
    return (apart <= 1).astype(np.int8)
