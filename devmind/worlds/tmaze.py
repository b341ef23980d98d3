"""The passive T-Maze as Rules: a sign at the start shows which way to turn at the end of a long corridor.

The task is tmaze-passive of Ni, Ma, Eysenbach and Bacon (2023, "When Do Transformers Shine in RL?", section 4), after
Bakker (2001), written anew: positions in the corridor differ in distractors alone. An episode has L + 1 steps, so that
only the straight way reaches the junction in time. The last step earns 1 on the side of the sign. In the original the
corridor shows 0; here it shows random numbers of less than half the sign's size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError
from devmind.seeding import numpy_rng
from devmind.worlds.memory_len import distractors, whole_number
from devmind.worlds.rules import Outcome, Struct

PENALTY = 0.1
"""The largest loss of an episode for delay, shared among its steps."""
AHEAD, UP, BACK, DOWN = range(4)
_MOVES = np.array([[1, 0], [0, 1], [-1, 0], [0, -1], [0, 0]])


@dataclass
class TMazeState(Struct):
    """goal int64 [N], +1 or -1; x, y int64 [N] the child's place; tick int64 [N]; reward float32 [N] of the last step.

    shown bool [N]: the sign is in view. distractors float32 [N, the longest length + 2], by tick. length int64 [N].
    """

    goal: np.ndarray
    x: np.ndarray
    y: np.ndarray
    tick: np.ndarray
    reward: np.ndarray
    shown: np.ndarray
    distractors: np.ndarray
    length: np.ndarray


class TMazeRules:
    """`signal` is [at the junction or beyond it, sign at the start or side at the end, distractors between];
    `choose` ahead, up, back, down.

    The level is the corridor's length L, as text, or the shortest and the longest, as '93-108': each seed draws
    one. A step behind the straight walk costs 0.1 / L; the goal earns 1.

    Raises:
        WorldError: the level is not a positive whole number, nor two of them in rising order.
    """

    name = "tmaze"

    def __init__(self, level: str = "10") -> None:
        first, between, last = level.partition("-")
        self.level, self.shortest = level, whole_number(first, self.name)
        self.longest = whole_number(last, self.name) if between else self.shortest
        if self.longest < self.shortest:
            raise WorldError(f"Of the lengths '{level}' of the world '{self.name}' the first one is the longer.")
        self.horizon = self.longest + 1
        self.observation_space = spaces.Dict({"signal": spaces.Box(-1.0, 1.0, (2,), np.float32)})
        self.action_space = spaces.Dict({"choose": spaces.Discrete(4)})

    def initial(self, seeds: np.ndarray) -> TMazeState:
        """One fair side a seed; the child is at the sign."""
        goal = np.array([2 * numpy_rng(self.name, int(seed)).integers(2) - 1 for seed in seeds], np.int64)
        n, zeros = len(seeds), np.zeros(len(seeds), np.int64)
        unmeant = distractors(self.name, seeds, self.longest + 2)
        more = [numpy_rng(self.name, "length", int(seed)).integers(self.horizon - self.shortest) for seed in seeds]
        length = self.shortest + np.array(more, np.int64).reshape(n)
        rewards, shown = np.zeros(n, np.float32), np.ones(n, bool)
        return TMazeState(goal, zeros, zeros.copy(), zeros.copy(), rewards, shown, unmeant, length)

    def legal(self, state: TMazeState) -> Mapping[str, np.ndarray]:
        """All moves are legal; a move into a wall does nothing."""
        return {}

    def step(self, state: TMazeState, actions: Mapping[str, np.ndarray]) -> TMazeState:
        """One move; an ended child stays and earns nothing."""
        chosen = np.asarray(actions.get("choose", np.full(len(state), 4)))
        move = _MOVES[np.where((chosen >= 0) & (chosen < 4), chosen, 4)]
        length = state.length
        going = state.tick <= length
        x, y = state.x + move[:, 0], state.y + move[:, 1]
        corridor = (y == 0) & (x >= 0) & (x <= length)
        free = going & (corridor | ((x == length) & (np.abs(y) == 1)))
        x, y = np.where(free, x, state.x), np.where(free, y, state.y)
        tick = state.tick + going
        last = going & (tick == length + 1)
        late = going & ~last & (x < tick)
        reward = np.where(last, y == state.goal, late * (-PENALTY / length)).astype(np.float32)
        unseen = np.zeros(len(state), bool)
        return TMazeState(state.goal.copy(), x, y, tick, reward, unseen, state.distractors.copy(), length.copy())

    def outcome(self, state: TMazeState) -> Outcome:
        """The episode is over after L + 1 steps, by its own rules."""
        ended = state.tick > state.length
        return Outcome(state.reward.copy(), ended, np.zeros_like(ended))

    def observe(self, state: TMazeState) -> dict[str, Any]:
        """float32 [N, 2]."""
        at_end = state.x == state.length
        unmeant = state.distractors[np.arange(len(state)), state.tick]
        flag = np.where(at_end, state.y, np.where(state.shown, state.goal, unmeant))
        return {"signal": np.stack((at_end, flag), 1).astype(np.float32)}

    def truth(self, state: TMazeState) -> dict[str, np.ndarray]:
        """`choice` int64 [N]: the move to the goal; `asked` bool [N]: whether it takes memory; `flag` int64 [N]."""
        asked = (state.x == state.length) & (state.y == 0)
        turn = np.where(state.goal > 0, UP, DOWN)
        return {"choice": np.where(asked, turn, AHEAD), "asked": asked, "told": (state.goal > 0).astype(np.int64)}
