"""MiniGrid's rooms with their missions: the view is the sense `board`, the mission `words`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from devmind.agent.batch import encode_words
from devmind.curriculum.episodes import identities
from devmind.worlds.gym_world import GymWorld
from devmind.worlds.minigrid import env_of, lent, room
from devmind.worlds.side_by_side import SideBySide

LARGEST = 32
"""Side in cells of the largest rooms."""


class Rooms(SideBySide):
    """One room for each seed, all at their beginning; `names` gives their kinds, in turn.

    The next call uses the same environments again, so only one object is in use at a time.
    """

    def __init__(self, names: tuple[str, ...], seeds: np.ndarray) -> None:
        super().__init__(_made(names, len(seeds)), seeds)
        self.missions = [str(env_of(world).mission) for world in self.worlds]

    def observe(self) -> dict[str, Any]:
        """The senses now, [N, ...]."""
        return {**super().observe(), "words": self.missions}

    def step(
        self, actions: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Act in the rooms whose episodes go on."""
        senses, *rest = super().step(actions)
        return {**senses, "words": self.missions}, *rest  # type: ignore[return-value]

    @property
    def most_steps(self) -> np.ndarray:
        """The steps after which each episode is over, int64 [N]."""
        return np.array([env_of(world).max_steps for world in self.worlds])


@lru_cache(maxsize=2)
def _made(names: tuple[str, ...], n: int) -> list[GymWorld]:
    return [room(names[number % len(names)]) for number in range(n)]


def begun(names: tuple[str, ...], seeds: np.ndarray) -> np.ndarray:
    """The identities of episodes, int64 [N]: all cells, the agent's pose and the mission; kinds in turn."""
    cells, places, missions = [], [], []
    for number, seed in enumerate(seeds.tolist()):
        world = lent(names[number % len(names)])
        world.reset(seed=seed)
        env = env_of(world)
        encoded = env.grid.encode()
        cells.append(np.pad(encoded, [(0, LARGEST - side) for side in encoded.shape[:2]] + [(0, 0)]))
        places.append([*env.agent_pos, env.agent_dir])
        missions.append(encode_words(str(env.mission)))
    return identities({"cells": np.stack(cells), "place": np.array(places, np.int64), "mission": np.stack(missions)})
