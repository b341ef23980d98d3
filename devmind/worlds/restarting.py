"""A world whose rows start the next episode when one is over, for policies that practise without a pause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic

import numpy as np
from gymnasium.vector import AutoresetMode

from devmind.seeding import EXAM_SEEDS_FROM
from devmind.worlds.adapter import VectorWorld
from devmind.worlds.rules import State


class Restarting(VectorWorld[State], Generic[State]):
    """As `VectorWorld`, but a row that ends gives the first Moment of its next episode in the same step.

    The last observation of the ended episode is then `info["final_obs"]`, as in Gymnasium's same-step autoreset.

    Args:
        world: the first state is a copy of its state.
        starts: draws the seeds of new episodes, from those of lessons.

    Attributes:
        finished: lengths in ticks, since this world was made, of the episodes that have ended.
        reached: the state after the last step, before restarts, if an episode ended in it; else None.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, world: VectorWorld[State], starts: np.random.Generator) -> None:
        super().__init__(world.rules, world.num_envs)
        self._state, self._starts = world.state(), starts
        self.finished: list[int] = []
        self.reached: State | None = None
        self._lengths = np.zeros(world.num_envs, np.int64)

    def step(
        self, actions: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Act for one tick; rows whose episode ends with it start a new one."""
        senses, reward, terminated, truncated, info = super().step(actions)
        self._lengths += 1
        ended, self.reached = np.flatnonzero(terminated | truncated), None
        if not len(ended):
            return senses, reward, terminated, truncated, info
        self.finished += self._lengths[ended].tolist()
        self._lengths[ended] = 0
        fresh = self.rules.initial(self._starts.integers(0, EXAM_SEEDS_FROM, len(ended)))
        self.reached, state = self._state, self.state()
        state.put(ended, fresh)
        self._state = state
        return self.observe(), reward, terminated, truncated, {**info, "final_obs": senses}
