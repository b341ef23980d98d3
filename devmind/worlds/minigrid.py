"""MiniGrid's and BabyAI's rooms as worlds: what is seen as a board, MiniGrid's seven actions as the effector `choose`.

The environments are MiniGrid's own (Chevalier-Boisvert et al., 2023; 2019), of the extra `worlds`.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError, nearest
from devmind.worlds.gym_world import GymWorld

OBJECTS = 11
"""Kinds of cells that MiniGrid tells apart, from unseen to agent."""
PLANES = OBJECTS + 2
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
ACTIONS = 7
MISSING = "MiniGrid is not installed; it is in the extra 'worlds': pip install 'devmind[worlds]'"


def installed() -> bool:
    """Whether MiniGrid is there."""
    return find_spec("minigrid") is not None


class Board(gymnasium.ObservationWrapper):
    """The egocentric view 7x7x3 as planes int8 [13, 7, 7]: one for each kind of cell, then colour and state."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.observation_space = spaces.Box(0, 10, (PLANES, 7, 7), np.int8)

    def observation(self, observation: Any) -> np.ndarray:
        return planes(observation["image"])


def planes(image: np.ndarray) -> np.ndarray:
    """MiniGrid's views [..., 7, 7, 3] (x, y, of kind, colour and state) as planes int8 [..., 13, 7, 7]."""
    kind, colour, state = np.moveaxis(image.swapaxes(-2, -3), -1, 0)
    kinds = np.arange(OBJECTS)[:, None, None] == kind[..., None, :, :]
    return np.concatenate((kinds, colour[..., None, :, :], state[..., None, :, :]), -3).astype(np.int8)


def room(name: str) -> GymWorld:
    """The environment `name` ("MiniGrid-MemoryS7-v0", "BabyAI-GoToLocal-v0"): `board` is seen, `choose` is done.

    Raises:
        WorldError: MiniGrid is not installed, or has no such environment.
    """
    if not installed():
        raise WorldError(f"The environment '{name}' is MiniGrid's. {MISSING}.")
    import minigrid  # it registers its environments
    from minigrid.envs.babyai.core import roomgrid_level

    # BabyAI prints a line for each room that it draws anew.
    roomgrid_level.print = lambda *words: None  # type: ignore[attr-defined]
    known = [one for one in gymnasium.registry if one.startswith(("MiniGrid-", "BabyAI-"))]
    if name not in known:
        raise WorldError(f"{minigrid.__name__} has no environment '{name}'{nearest(name, known)}")
    return GymWorld(Board(gymnasium.make(name).unwrapped), sense="board", effector="choose")
