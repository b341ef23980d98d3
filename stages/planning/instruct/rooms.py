"""BabyAI's rooms with their missions as pages of text: said when an episode begins, and again if `every` says so."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from devmind.curriculum.episodes import identities
from devmind.worlds import minigrid
from devmind.worlds.minigrid import env_of, room, shared_room
from stages.planning.instruct.symbols import Subgoals, of_instruction

TEXT = "text"


class Rooms(minigrid.Rooms):
    """One room of BabyAI for each seed; actions are the effector `choose`.

    Args:
        name: of the level; said, every: as in MiniGrid's `Rooms`, but the mission is said once by default.
    """

    def __init__(
        self, name: str, seeds: np.ndarray, said: Sequence[str] | None = None, every: int | None = None
    ) -> None:
        super().__init__([room(name) for _ in seeds], seeds, sense=TEXT, said=said, every=every)

    def plans(self) -> list[Subgoals]:
        """The true plan of each mission, for references."""
        return [of_instruction(env_of(world).instrs) for world in self.worlds]


def episode_names(name: str, seeds: np.ndarray) -> np.ndarray:
    """Identities of the episodes that the seeds begin, int64 [N]: from all cells, the agent's pose and the mission."""
    rooms, instructions = [], []
    for seed in seeds.tolist():
        world = shared_room(name)
        world.reset(seed=seed)
        env = env_of(world)
        rooms.append(np.r_[env.grid.encode().ravel(), *env.agent_pos, env.agent_dir].astype(np.int64))
        instructions.append(str(env.mission))
    return identities({"room": np.stack(rooms), "told": instructions})
