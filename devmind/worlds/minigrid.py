"""MiniGrid's and BabyAI's rooms as worlds: the view as the sense `board`, the seven actions as the effector `choose`.

The environments are MiniGrid's own (Chevalier-Boisvert et al., 2023; 2019), of the extra `worlds`. Their view is made
here, equal to `MiniGridEnv.gen_obs` number for number, in a quarter of the time: MiniGrid copies the cells into a new
grid, rotates it up to four times, walks it for shadows and encodes it. Here each cell is read in its place, and a cache
holds how light passes from one row of the view to the next (`image`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, wraps
from importlib.util import find_spec
from pathlib import Path
from types import MethodType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError, nearest
from devmind.worlds.gym_world import GymWorld
from devmind.worlds.side_by_side import SideBySide

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


def minigrid_installed() -> bool:
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
    if not minigrid_installed():
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
def shared_room(name: str) -> GymWorld:
    """A room of this kind, made once a thread and shared: a caller resets it, looks, and keeps nothing."""
    return room(name)


@lru_cache(maxsize=4)
def rooms_in_turn(names: tuple[str, ...], n: int) -> list[GymWorld]:
    """`n` rooms of these kinds in turn, made once: the next call with the same arguments has the same environments."""
    return [room(names[number % len(names)]) for number in range(n)]


class Rooms(SideBySide):
    """N rooms that are stepped together, with their missions as a sense.

    Args:
        worlds: each a `room`; seeds: of their episodes.
        sense: the sense of the missions, `text` or `words`.
        said: by row, what is said in place of the room's mission, by which success is still judged.
        every: ticks from one saying to the next; None: it is said in the first tick alone.

    Attributes:
        missions: the rooms' own.
    """

    def __init__(
        self,
        worlds: Sequence[GymWorld],
        seeds: Sequence[int] | np.ndarray,
        *,
        sense: str = "text",
        said: Sequence[str] | None = None,
        every: int | None = 1,
    ) -> None:
        super().__init__(worlds, seeds)
        self.missions = [str(env_of(world).mission) for world in self.worlds]
        self.sense, self.every, self.tick = sense, every, 0
        self.said = list(self.missions if said is None else said)

    @property
    def most_steps(self) -> np.ndarray:
        """The steps after which MiniGrid ends each episode, int64 [N]."""
        return np.array([env_of(world).max_steps for world in self.worlds])

    def observe(self) -> dict[str, Any]:
        """The senses now, [N, ...]."""
        return self._with_mission(super().observe())

    def step(
        self, actions: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Act in the rooms whose episodes go on."""
        senses, *rest = super().step(actions)
        self.tick += 1
        return self._with_mission(senses), *rest  # type: ignore[return-value]

    def _with_mission(self, senses: Mapping[str, Any]) -> dict[str, Any]:
        now = self.tick == 0 if self.every is None else self.tick % self.every == 0
        return {**senses, self.sense: self.said if now else [""] * self.num_envs}


def pose_in(env: Any) -> tuple[int, int, int]:
    """The agent's row, column and heading in MiniGrid's environment, as `devmind.algorithms.grid` has them."""
    return int(env.agent_pos[1]), int(env.agent_pos[0]), int(env.agent_dir)


def true_costs(env: Any) -> np.ndarray:
    """1 for the cells of an environment that can be entered, else 0, int64 [height, width]: see `grid.shortest`."""
    grid = env.grid
    return np.array([[int(_can_stand(grid.get(x, y))) for x in range(grid.width)] for y in range(grid.height)])


def glances(names: tuple[str, ...], seeds: np.ndarray, each: int, rng: np.random.Generator) -> np.ndarray:
    """Views from `each` poses in one room a seed, int8 [N x each, 13, 7, 7], with random things on free cells.

    Doors are in random states, and the agent carries something or nothing, so that all contents of cells occur.
    """
    found = []
    for number, seed in enumerate(seeds.tolist()):
        world = shared_room(names[number % len(names)])
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


Offsets = tuple[tuple[tuple[int, int], ...], ...]
"""By row of the view and place in it, the cell's offset from the child, x and y."""
_EMPTY = (1, 0, 0)
_UNSEEN = (0, 0, 0)


def seen_fast(env: Any) -> None:
    """Let MiniGrid's environment `env`, and copies of it, make observations by `image`."""
    env.gen_obs = MethodType(_observed, env)


def _observed(env: Any) -> dict[str, Any]:
    """Replaces `MiniGridEnv.gen_obs`."""
    return {"image": image(env), "direction": env.agent_dir, "mission": env.mission}


def image(env: Any) -> np.ndarray:
    """The egocentric view, uint8 [V, V, 3] (x, y, of kind, colour and state), as in `MiniGridEnv.gen_obs`."""
    side, x, y = env.agent_view_size, int(env.agent_pos[0]), int(env.agent_pos[1])
    cells, width, height = env.grid.grid, env.grid.width, env.grid.height
    outside, found = _wall(), []
    everything = (1 << side) - 1
    lit = 1 << side // 2
    for row in reversed(_offsets(int(env.agent_dir), side)):
        line, clear = [], 0
        for place, (right, down) in enumerate(row):
            at, below = x + right, y + down
            cell = cells[below * width + at] if 0 <= at < width and 0 <= below < height else outside
            line.append(cell)
            if cell is None or cell.see_behind():
                clear |= 1 << place
        shown, lit = (everything, everything) if env.see_through_walls else _spread(lit, clear, side)
        found.append([
            (_EMPTY if cell is None else cell.encode()) if shown >> place & 1 else _UNSEEN
            for place, cell in enumerate(line)
        ])  # fmt: skip
    # The child's own cell shows what it carries.
    found[0][side // 2] = env.carrying.encode() if env.carrying else _EMPTY
    return np.array(found[::-1], np.uint8).swapaxes(0, 1)


@cache
def _wall() -> Any:
    """The cell outside of the grid."""
    from minigrid.core.world_object import Wall

    return Wall()


@cache
def _offsets(direction: int, side: int) -> Offsets:
    """Offsets of the cells in view of a child that looks in this direction (0: along x, then clockwise)."""
    ahead = ((1, 0), (0, 1), (-1, 0), (0, -1))[direction]
    right = (-ahead[1], ahead[0])
    return tuple(
        tuple(
            (
                ahead[0] * (side - 1 - row) + right[0] * (place - side // 2),
                ahead[1] * (side - 1 - row) + right[1] * (place - side // 2),
            )
            for place in range(side)
        )
        for row in range(side)
    )


@cache
def _spread(lit: int, clear: int, side: int) -> tuple[int, int]:
    """How light spreads in a row and on to the next, as in `Grid.process_vis`: first to the right, then to the left.

    Args:
        lit: cells lit from the row before, a bit each; clear: cells that let light through.

    Returns:
        The visible cells of this row, and the lit cells of the next.
    """
    above = 0
    for places, step in ((range(side - 1), 1), (range(side - 1, 0, -1), -1)):
        for place in places:
            if lit >> place & clear >> place & 1:
                lit |= 1 << place + step
                above |= 1 << place | 1 << place + step
    return lit, above
