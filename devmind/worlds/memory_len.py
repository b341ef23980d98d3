"""memory_len as Rules: a sign is shown once, and the question for it comes N steps later.

The protocol is that of bsuite's memory_len with one bit (Osband et al., 2020, "Behaviour Suite for Reinforcement
Learning", appendix), written anew: the context is +1 or -1 in the first Moment and 0 afterwards, the time to the
question is shown in every Moment, and the choice made in the last Moment earns 1 when it names the context, else -1.
There are two differences. bsuite gives the first Moment twice; here it comes once, so the sign is exactly N steps old
at the question. In bsuite the context is 0 after the first Moment; here it shows distractors, numbers of less than
half the sign's size, so that the agent must choose what to remember, and no two episodes are alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError
from devmind.seeding import numpy_rng
from devmind.worlds.rules import Outcome, Struct

LENGTHS = (*range(1, 11), 12, 14, 17, 20, 25, 30, 35, 40, 50, 60, 70, 80, 90, 100)
"""Lengths of the sweep: bsuite's, and 35."""


DISTRACTING = 0.5
"""The largest size of a distractor; the sign is 1."""


@dataclass
class MemoryLenState(Struct):
    """context int64 [N], 0 or 1; distractors float32 [N, length + 1]; tick int64 [N] counts steps; reward float32 [N]:
    earned by the last step.
    """

    context: np.ndarray
    distractors: np.ndarray
    tick: np.ndarray
    reward: np.ndarray


class MemoryLenRules:
    """`signal` is [time to the question 1..0, index of the bit asked for (always 0), context and then distractors];
    `choose` is 0 or 1.

    The level is the length N, as text. An episode has N + 1 Moments; choices before the last one do not count.

    Raises:
        WorldError: the level is not a positive whole number.
    """

    name = "memory_len"

    def __init__(self, level: str = "10") -> None:
        self.level, self.length = level, whole_number(level, self.name)
        self.horizon = self.length + 1
        self.observation_space = spaces.Dict({"signal": spaces.Box(-1.0, 1.0, (3,), np.float32)})
        self.action_space = spaces.Dict({"choose": spaces.Discrete(2)})

    def initial(self, seeds: np.ndarray) -> MemoryLenState:
        """One fair bit a seed, and the distractors."""
        context = np.array([numpy_rng(self.name, int(seed)).integers(2) for seed in seeds], np.int64)
        n = len(seeds)
        shown = distractors(self.name, seeds, self.length + 1)
        return MemoryLenState(context, shown, np.zeros(n, np.int64), np.zeros(n, np.float32))

    def legal(self, state: MemoryLenState) -> Mapping[str, np.ndarray]:
        """Both choices are always legal."""
        return {}

    def step(self, state: MemoryLenState, actions: Mapping[str, np.ndarray]) -> MemoryLenState:
        """The next Moment; an ended child stays and earns nothing. No choice, or one above 1, is wrong."""
        chosen = np.asarray(actions.get("choose", np.full(len(state), -1)))
        asked = state.tick == self.length
        reward = np.where(asked, np.where(chosen == state.context, 1.0, -1.0), 0.0).astype(np.float32)
        return replace(state.copy(), tick=np.minimum(state.tick + 1, self.length + 2), reward=reward)

    def outcome(self, state: MemoryLenState) -> Outcome:
        """1 or -1 after the last Moment, which is terminal."""
        ended = state.tick > self.length
        return Outcome(state.reward.copy(), ended, np.zeros_like(ended))

    def observe(self, state: MemoryLenState) -> dict[str, Any]:
        """float32 [N, 3]."""
        left = np.maximum(0.0, 1.0 - state.tick / self.length)
        shown = state.distractors[np.arange(len(state)), np.minimum(state.tick, self.length)]
        context = np.where(state.tick == 0, 2.0 * state.context - 1.0, shown)
        return {"signal": np.stack((left, np.zeros(len(state)), context), 1).astype(np.float32)}

    def truth(self, state: MemoryLenState) -> dict[str, np.ndarray]:
        """`choice` int64 [N]: the right one, at every tick; `asked` bool [N]: whether it counts; `told`."""
        return {"choice": state.context.copy(), "asked": state.tick == self.length, "told": state.context.copy()}


def distractors(world: str, seeds: np.ndarray, ticks: int) -> np.ndarray:
    """Random numbers float32 [N, ticks] in -DISTRACTING..DISTRACTING, for each seed by itself."""
    drawn = [numpy_rng(world, "distractors", int(s)).uniform(-DISTRACTING, DISTRACTING, ticks) for s in seeds]
    return np.stack(drawn).astype(np.float32)


def whole_number(level: str, world: str) -> int:
    """The level as a positive whole number."""
    if not level.isdecimal() or int(level) < 1:
        raise WorldError(f"The level of the world '{world}' is a length such as '10'; got '{level}'.")
    return int(level)
