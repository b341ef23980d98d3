"""MiniGrid's and BabyAI's rooms as worlds: the view as the sense `board`, the seven actions as the effector `choose`.

The environments are MiniGrid's own (Chevalier-Boisvert et al., 2023; 2019), of the extra `worlds`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError, nearest
from devmind.worlds.gym_world import GymWorld
from devmind.worlds.minigrid_view import seen_fast

OBJECTS = 11
"""MiniGrid's kinds of cells, from unseen to agent."""
PLANES = OBJECTS + 2
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
ACTIONS = 7
STREWN, CARRIED = 0.1, 0.3
"""In rooms of `glances`: the probability that a free cell holds a thing, and that the agent carries one."""
_WORDS = (
    "go to pick up put next open door key ball box red green blue purple yellow grey a an the in front of behind on "
    "you your left right then after and"
)
INSTRUCTION_WORDS = frozenset(_WORDS.split())
"""Every word of BabyAI's instructions, and "an"."""
MISSING = "MiniGrid is not installed; it is in the extra 'worlds': pip install 'devmind[worlds]'"


def installed() -> bool:
    """Whether MiniGrid is installed."""
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
        WorldError: MiniGrid is not installed, has no such environment, or lacks a file of it.
    """
    if not installed():
        raise WorldError(f"The environment '{name}' is MiniGrid's. {MISSING}.")
    import minigrid  # it registers its environments
    from minigrid.envs.babyai.core import roomgrid_level

    # BabyAI prints a line for each room that it draws again.
    roomgrid_level.print = lambda *words: None  # type: ignore[attr-defined]
    known = [one for one in gymnasium.registry if one.startswith(("MiniGrid-", "BabyAI-"))]
    if name not in known:
        raise WorldError(f"{minigrid.__name__} has no environment '{name}'{nearest(name, known)}")
    env = gymnasium.make(name).unwrapped
    pattern = getattr(getattr(env, "config", None), "pattern_path", None)
    if pattern is not None and not Path(pattern).is_file():
        raise WorldError(
            f"MiniGrid was installed without '{Path(pattern).name}', from which it makes '{name}'; choose another room."
        )
    seen_fast(env)
    return GymWorld(Board(env), sense="board", effector="choose")


def env_of(world: gymnasium.Env) -> Any:
    """MiniGrid's own environment in a `room`: grid, mission, the agent's place."""
    return world.env.unwrapped  # type: ignore[attr-defined]


def one_a_thread(make: Callable[[str], GymWorld]) -> Callable[[str], GymWorld]:
    """`make` with a cache for each thread. A room is changed by whoever resets or steps it, and a thread may make the
    next batch of a lesson while another one holds an exam."""
    made = threading.local()

    @wraps(make)
    def of(name: str) -> GymWorld:
        rooms: dict[str, GymWorld] = made.__dict__
        if name not in rooms:
            rooms[name] = make(name)
        return rooms[name]

    return of


@one_a_thread
def lent(name: str) -> GymWorld:
    """A room of this kind, made once a thread and shared: a caller resets it, looks, and keeps nothing."""
    return room(name)


def glances(names: tuple[str, ...], seeds: np.ndarray, each: int, rng: np.random.Generator) -> np.ndarray:
    """Views from `each` poses in one room a seed, int8 [N x each, 13, 7, 7], with random things on free cells.

    Doors are in random states, and the agent carries something or nothing, so that all contents of cells occur.
    """
    found = []
    for number, seed in enumerate(seeds.tolist()):
        world = lent(names[number % len(names)])
        world.reset(seed=seed)
        env = env_of(world)
        _strew(env, rng)
        places = [(x, y) for x in range(env.width) for y in range(env.height)]
        free = [place for place in places if _can_stand(env.grid.get(*place))] or [env.agent_pos]
        for _ in range(each):
            env.agent_pos, env.agent_dir = free[rng.integers(len(free))], int(rng.integers(4))
            env.carrying = _thing(rng) if rng.random() < CARRIED else None
            found.append(planes(env.gen_obs()["image"]))
    return np.stack(found)


def _thing(rng: np.random.Generator) -> Any:
    from minigrid.core.world_object import Ball, Box, Key

    return (Key, Ball, Box)[rng.integers(3)](_colour(rng))


def _colour(rng: np.random.Generator) -> str:
    from minigrid.core.constants import COLOR_TO_IDX

    return str(list(COLOR_TO_IDX)[rng.integers(len(COLOR_TO_IDX))])


def _can_stand(cell: Any) -> bool:
    return cell is None or bool(cell.can_overlap())


def _strew(env: Any, rng: np.random.Generator) -> None:
    """Put things on free cells, and doors of any colour, open, closed or locked."""
    for x in range(env.width):
        for y in range(env.height):
            cell = env.grid.get(x, y)
            if cell is None and rng.random() < STREWN:
                env.grid.set(x, y, _thing(rng))
            elif cell is not None and cell.type == "door":
                cell.color, state = _colour(rng), int(rng.integers(3))
                cell.is_open, cell.is_locked = state == 0, state == 2
