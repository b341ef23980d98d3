"""MiniGrid's rooms with their missions said: what is seen is the board, what is wanted the words."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from devmind.agent.batch import encode_words
from devmind.algorithms.grid_cells import COLOURS
from devmind.curriculum.episodes import identities
from devmind.worlds.gym_world import GymWorld
from devmind.worlds.minigrid import planes, room
from devmind.worlds.side_by_side import SideBySide

LARGEST = 32
"""Cells a side that a kind of rooms may have."""
STREWN, CARRIED = 0.1, 0.3
"""How likely a free cell of a lesson's room holds a thing, and how likely something is carried."""


class Rooms(SideBySide):
    """One room a seed, all beginning, each of the kind at its place in `names`, whose order goes round.

    What was made by the last call is used again, so only one is in use.
    """

    def __init__(self, names: tuple[str, ...], seeds: np.ndarray) -> None:
        super().__init__(_made(names, len(seeds)), seeds)
        self.missions = [str(_env(world).mission) for world in self.worlds]

    def observe(self) -> dict[str, Any]:
        """What is sensed now, [N, ...]."""
        return {**super().observe(), "words": self.missions}

    def step(
        self, actions: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Act in the rooms whose episodes go on."""
        senses, *rest = super().step(actions)
        return {**senses, "words": self.missions}, *rest  # type: ignore[return-value]

    @property
    def most_steps(self) -> np.ndarray:
        """After how many steps each episode is over, int64 [N]."""
        return np.array([_env(world).max_steps for world in self.worlds])


@lru_cache(maxsize=2)
def _made(names: tuple[str, ...], n: int) -> list[GymWorld]:
    return [room(names[number % len(names)]) for number in range(n)]


def _env(world: Any) -> Any:
    return world.env.unwrapped


def begun(names: tuple[str, ...], seeds: np.ndarray) -> np.ndarray:
    """Which episodes these are, int64 [N]: all cells, where somebody stands, and what is wanted; kinds in turn."""
    cells, places, missions = [], [], []
    for number, seed in enumerate(seeds.tolist()):
        world = _lent(names[number % len(names)])
        world.reset(seed=seed)
        env = _env(world)
        encoded = env.grid.encode()
        cells.append(np.pad(encoded, [(0, LARGEST - side) for side in encoded.shape[:2]] + [(0, 0)]))
        places.append([*env.agent_pos, env.agent_dir])
        missions.append(encode_words(str(env.mission)))
    return identities({"cells": np.stack(cells), "place": np.array(places, np.int64), "mission": np.stack(missions)})


def glances(names: tuple[str, ...], seeds: np.ndarray, each: int, rng: np.random.Generator) -> np.ndarray:
    """What is seen from `each` poses in one room a seed, int8 [N x each, 13, 7, 7], with things strewn about.

    Doors stand as chance will have it, and something or nothing is carried: every class of `cells` is met.
    """
    found = []
    for number, seed in enumerate(seeds.tolist()):
        world = _lent(names[number % len(names)])
        world.reset(seed=seed)
        env = _env(world)
        _strew(env, rng)
        places = [(x, y) for x in range(env.width) for y in range(env.height)]
        free = [place for place in places if _can_stand(env.grid.get(*place))] or [env.agent_pos]
        for _ in range(each):
            env.agent_pos, env.agent_dir = free[rng.integers(len(free))], int(rng.integers(4))
            env.carrying = _thing(rng) if rng.random() < CARRIED else None
            found.append(planes(env.gen_obs()["image"]))
    return np.stack(found)


@lru_cache
def _lent(name: str) -> GymWorld:
    return room(name)


def _thing(rng: np.random.Generator) -> Any:
    from minigrid.core.world_object import Ball, Box, Key

    return (Key, Ball, Box)[rng.integers(3)](COLOURS[rng.integers(len(COLOURS))])


def _can_stand(cell: Any) -> bool:
    return cell is None or bool(cell.can_overlap())


def _strew(env: Any, rng: np.random.Generator) -> None:
    """Things on free cells, and doors of any colour, open, closed or locked."""
    for x in range(env.width):
        for y in range(env.height):
            cell = env.grid.get(x, y)
            if cell is None and rng.random() < STREWN:
                env.grid.set(x, y, _thing(rng))
            elif cell is not None and cell.type == "door":
                cell.color, state = COLOURS[rng.integers(len(COLOURS))], int(rng.integers(3))
                cell.is_open, cell.is_locked = state == 0, state == 2
