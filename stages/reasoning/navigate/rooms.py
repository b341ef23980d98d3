"""MiniGrid's rooms with their missions: the view is the sense `board`, the mission `words`."""

from __future__ import annotations

import numpy as np

from devmind.agent.batch import encode_words
from devmind.curriculum.episodes import identities
from devmind.worlds.minigrid import Rooms, env_of, rooms_in_turn, shared_room

LARGEST = 32
"""Side in cells of the largest rooms."""


def mission_rooms(names: tuple[str, ...], seeds: np.ndarray) -> Rooms:
    """One room for each seed, all at their beginning; `names` gives their kinds, in turn.

    The next call uses the same environments again, so only one object is in use at a time.
    """
    return Rooms(rooms_in_turn(names, len(seeds)), seeds, sense="words")


def episode_names(names: tuple[str, ...], seeds: np.ndarray) -> np.ndarray:
    """The identities of episodes, int64 [N]: all cells, the agent's pose and the mission; kinds in turn."""
    cells, places, missions = [], [], []
    for number, seed in enumerate(seeds.tolist()):
        world = shared_room(names[number % len(names)])
        world.reset(seed=seed)
        env = env_of(world)
        encoded = env.grid.encode()
        cells.append(np.pad(encoded, [(0, LARGEST - side) for side in encoded.shape[:2]] + [(0, 0)]))
        places.append([*env.agent_pos, env.agent_dir])
        missions.append(encode_words(str(env.mission)))
    return identities({"cells": np.stack(cells), "place": np.array(places, np.int64), "mission": np.stack(missions)})
