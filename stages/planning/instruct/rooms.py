"""BabyAI's rooms with their missions as pages of text: said when an episode begins, and again if `every` says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from devmind.curriculum.episodes import identities
from devmind.worlds.minigrid import env_of, lent, room
from devmind.worlds.side_by_side import SideBySide
from stages.planning.instruct.symbols import Subgoals, of_instruction

TEXT = "text"


class Rooms(SideBySide):
    """One room of BabyAI for each seed; actions are the effector `choose`.

    Args:
        name: of the level; said: instructions in place of the rooms' missions, by which success is still judged.
        every: ticks from one saying to the next; None: the instruction is said once.
    """

    def __init__(
        self, name: str, seeds: np.ndarray, said: Sequence[str] | None = None, every: int | None = None
    ) -> None:
        super().__init__([room(name) for _ in seeds], seeds)
        self.missions = [str(env_of(world).mission) for world in self.worlds]
        self.said, self.every, self.tick = list(self.missions if said is None else said), every, 0

    def plans(self) -> list[Subgoals]:
        """The true plan of each mission, for references."""
        return [of_instruction(env_of(world).instrs) for world in self.worlds]

    def observe(self) -> dict[str, Any]:
        """The senses now, [N, ...]."""
        return self._with_text(super().observe())

    def step(
        self, actions: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Act in the rooms whose episodes go on."""
        senses, *rest = super().step(actions)
        self.tick += 1
        return self._with_text(senses), *rest  # type: ignore[return-value]

    def _with_text(self, senses: Mapping[str, Any]) -> dict[str, Any]:
        now = self.tick == 0 if self.every is None else self.tick % self.every == 0
        return {**senses, TEXT: self.said if now else [""] * self.num_envs}


def begun(name: str, seeds: np.ndarray) -> np.ndarray:
    """Identities of the episodes that the seeds begin, int64 [N]: from all cells, the agent's pose and the mission."""
    rooms, instructions = [], []
    for seed in seeds.tolist():
        world = lent(name)
        world.reset(seed=seed)
        env = env_of(world)
        rooms.append(np.r_[env.grid.encode().ravel(), *env.agent_pos, env.agent_dir].astype(np.int64))
        instructions.append(str(env.mission))
    return identities({"room": np.stack(rooms), "told": instructions})
