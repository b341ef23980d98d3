"""OGBench's PointMaze as Rules: a point finds its way through a maze to a goal (Park et al., 2025, "OGBench").

Mazes, tasks, physics and success are OGBench's own (of the extra `worlds`): its MuJoCo model is stepped, for all rows
in one call. A point has no memory but its place, so a row is a place, a goal and a count of ticks, and rows can be
copied, searched and resumed, which OGBench's environment cannot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError, nearest
from devmind.seeding import numpy_rng
from devmind.worlds.rules import Outcome, Struct
from devmind.worlds.spaces import effector

MAZES = ("arena", "medium", "large", "giant")
TASKS = "-tasks"
"""Behind a maze's name: OGBench's own tasks in place of any two cells."""
UNIT = 10.0
"""What a 1 of the senses `body` and `goal` stands for, in OGBench's units."""
CELL = 4.0
"""Side of a cell, in OGBench's units."""
PACE, RADIUS, REACH = 0.2, 0.7, 1.0
"""How far a command of 1 goes in a tick, the point's radius, and how near counts as there (OGBench's units)."""
MAX_TICKS = 1000
FRAMES = 5
"""Steps of the physics in a tick."""
MISSING = "OGBench is not installed; it is in the extra 'worlds': pip install 'devmind[worlds]'"


@dataclass
class Walk(Struct):
    """at, goal float64 [N, 2] in OGBench's units; tick int64 [N]; over bool [N]: it had ended before this tick."""

    at: np.ndarray
    goal: np.ndarray
    tick: np.ndarray
    over: np.ndarray


@dataclass(frozen=True)
class Maze:
    """One of OGBench's mazes: its walls bool [rows, columns], its tasks ((row, column), (row, column)), its model."""

    walls: np.ndarray
    tasks: tuple[tuple[tuple[int, int], tuple[int, int]], ...]
    model: Any

    @property
    def free(self) -> np.ndarray:
        """Cells that are no wall, int64 [F, 2] of row and column."""
        return np.argwhere(~self.walls)

    def cells(self, at: np.ndarray) -> np.ndarray:
        """Row and column of places [..., 2] (x, y), int64 [..., 2]."""
        return np.floor((np.asarray(at)[..., ::-1] + 1.5 * CELL) / CELL).astype(np.int64)

    def centres(self, cells: np.ndarray) -> np.ndarray:
        """Middles (x, y) of cells [..., 2], float64 [..., 2]."""
        return np.asarray(cells)[..., ::-1] * CELL - CELL

    def inside(self, at: np.ndarray) -> np.ndarray:
        """Whether places [..., 2] lie in cells that are no wall, bool [...]."""
        cells, shape = self.cells(at), np.array(self.walls.shape)
        within = ((cells >= 0) & (cells < shape)).all(-1)
        row, column = np.moveaxis(np.clip(cells, 0, shape - 1), -1, 0)
        return np.asarray(within & ~self.walls[row, column])

    def steps_to(self, cell: tuple[int, int]) -> np.ndarray:
        """Cells to walk from each cell to `cell`, int64 [rows, columns]; -1 where there is no way."""
        found = np.full(self.walls.shape, -1)
        found[cell] = 0
        queue = deque([cell])
        while queue:
            row, column = queue.popleft()
            for place in ((row - 1, column), (row, column - 1), (row + 1, column), (row, column + 1)):
                if not self.walls[place] and found[place] < 0:
                    found[place] = found[row, column] + 1
                    queue.append(place)
        return found


def installed() -> bool:
    """Whether OGBench is there."""
    return find_spec("ogbench") is not None


@lru_cache(maxsize=len(MAZES))
def maze(name: str) -> Maze:
    """The maze `name`.

    Raises:
        WorldError: OGBench is not installed, or there is no such maze.
    """
    if name not in MAZES:
        raise WorldError(f"There is no maze '{name}'{nearest(name, MAZES)}")
    if not installed():
        raise WorldError(f"The maze '{name}' is OGBench's. {MISSING}.")
    from ogbench.locomaze.maze import make_maze_env

    env = make_maze_env("point", "maze", maze_type=name)
    tasks = tuple((tuple(task["init_ij"]), tuple(task["goal_ij"])) for task in env.task_infos)
    return Maze(env.maze_map.astype(bool), tasks, env.model)


class PointMazeRules:
    """`body` is where one is, `goal` where to go, both float32 [2] (x, y) in tens of OGBench's units; `maze` says which
    maze it is, a 1 at its number; `walk` [2] is the way of a tick, a command of 1 being 0.2 units.

    Reward 1 on coming within 1 unit of the goal, which ends the episode; truncated after 1,000 ticks.

    Args:
        level: a maze ("medium"): from any cell to any other; with "-tasks" its five tasks in turn, by the seed. Start
            and goal are drawn around the middles of their cells, as OGBench does.

    Raises:
        WorldError: there is no such level, or OGBench is not installed.
    """

    name = "pointmaze"
    horizon = MAX_TICKS

    def __init__(self, level: str = "medium") -> None:
        known = [*MAZES, *(f"{one}{TASKS}" for one in MAZES)]
        if level not in known:
            raise WorldError(f"The world 'pointmaze' has no level '{level}'{nearest(level, known)}")
        self.level, self.maze_name = level, level.removesuffix(TASKS)
        self.maze = maze(self.maze_name)
        place = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        which = spaces.Box(0.0, 1.0, (len(MAZES),), np.float32)
        self.observation_space = spaces.Dict({"body": place, "goal": place, "maze": which})
        self.action_space = spaces.Dict({"walk": effector(2)})
        self._data: Any = None

    def initial(self, seeds: np.ndarray) -> Walk:
        """Start and goal of each seed."""
        ends = np.zeros((len(seeds), 2, 2))
        for row, seed in enumerate(seeds):
            rng = numpy_rng("pointmaze", self.level, int(seed))
            tasks, free = self.maze.tasks, self.maze.free
            drawn = free[rng.choice(len(free), 2, replace=False)]
            cells = np.array(tasks[int(seed) % len(tasks)]) if self.level.endswith(TASKS) else drawn
            ends[row] = self.maze.centres(cells) + rng.uniform(-CELL / 4, CELL / 4, (2, 2))
        return self.between(ends[:, 0], ends[:, 1])

    def between(self, start: np.ndarray, goal: np.ndarray) -> Walk:
        """N walks from `start` to `goal`, both [N, 2] in OGBench's units.

        Raises:
            WorldError: one of them is no place in the maze.
        """
        for what, places in (("start", start), ("goal", goal)):
            for x, y in np.asarray(places, np.float64):
                if not np.isfinite([x, y]).all():
                    raise WorldError(f"A {what} is two finite numbers x,y; got {x:g},{y:g}.")
                if not self.maze.inside(np.array([x, y])):
                    rows, columns = self.maze.walls.shape
                    raise WorldError(
                        f"The {what} {x:g},{y:g} is inside a wall of the maze '{self.maze_name}', or outside of it: x "
                        f"goes from 0 to {(columns - 3) * CELL:g}, y from 0 to {(rows - 3) * CELL:g}, in cells of "
                        f"{CELL:g} around multiples of {CELL:g}."
                    )
        n = len(start)
        return Walk(np.array(start, float), np.array(goal, float), np.zeros(n, np.int64), np.zeros(n, bool))

    def legal(self, state: Walk) -> Mapping[str, np.ndarray]:
        """Every way is legal."""
        return {}

    def step(self, state: Walk, actions: Mapping[str, np.ndarray]) -> Walk:
        """One tick of OGBench's physics; a command that is left out is zero."""
        over = self._ended(state)
        walk = np.asarray(actions.get("walk", np.zeros((len(state), 2))), np.float64)
        if not np.isfinite(walk).all():
            raise WorldError("A command `walk` is two finite numbers in -1..1 a row; got NaN or infinity.")
        at, going = state.at.copy(), np.flatnonzero(~over)
        if len(going):
            at[going] = self._settled(at[going] + PACE * np.clip(walk[going], -1.0, 1.0))
        return replace(state.copy(), at=at, tick=state.tick + ~over, over=over)

    def _settled(self, at: np.ndarray) -> np.ndarray:
        """Where points that were moved to `at` [N, 2] come to rest. Who touches no wall stays: nothing else pushes."""
        corners = np.array([(-1, -1), (-1, 1), (1, -1), (1, 1)]) * (RADIUS + 0.01)
        near = np.flatnonzero(~self.maze.inside(at[:, None] + corners).all(1))
        if len(near):
            at = at.copy()
            at[near] = self._pushed(at[near])
        return at

    def _pushed(self, at: np.ndarray) -> np.ndarray:
        """Where points that were moved to `at` [N, 2] come to rest, walls pushing them back."""
        import mujoco
        from mujoco import rollout

        if self._data is None:
            self._data = mujoco.MjData(self.maze.model)
        mujoco.mj_resetData(self.maze.model, self._data)
        begin = np.zeros((len(at), mujoco.mj_stateSize(self.maze.model, mujoco.mjtState.mjSTATE_FULLPHYSICS)))
        begin[:, 1:3] = at  # behind the time; velocities are zero
        states, _ = rollout.rollout(
            self.maze.model, [self._data], begin, np.zeros((len(at), FRAMES, self.maze.model.nu)), nstep=FRAMES
        )
        return np.asarray(states[:, -1, 1:3])

    def outcome(self, state: Walk) -> Outcome:
        """1 for coming to the goal; the end of the episode."""
        there = self._there(state)
        return Outcome((there & ~state.over & (state.tick > 0)).astype(np.float32), there, state.tick >= MAX_TICKS)

    def observe(self, state: Walk) -> dict[str, Any]:
        """Place, goal and which maze."""
        which = np.zeros((len(state), len(MAZES)), np.float32)
        which[:, MAZES.index(self.maze_name)] = 1.0
        return {
            "body": (state.at / UNIT).astype(np.float32),
            "goal": (state.goal / UNIT).astype(np.float32),
            "maze": which,
        }

    def truth(self, state: Walk) -> dict[str, np.ndarray]:
        """Place and goal in full precision."""
        return {"at": state.at.copy(), "goal": state.goal.copy()}

    def _there(self, state: Walk) -> np.ndarray:
        near = np.linalg.norm(state.at - state.goal, axis=1) <= REACH
        return np.asarray(near & (state.tick > 0))

    def _ended(self, state: Walk) -> np.ndarray:
        return self._there(state) | (state.tick >= MAX_TICKS)


def oracle_way(name: str, at: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """The command [N, 2] of OGBench's oracle: towards the middle of the next cell on a shortest way, length 1.

    In the goal's own cell OGBench's oracle goes to its middle, which may miss the goal; here it goes to the goal.

    Args:
        at, goal: [N, 2] in OGBench's units.
    """
    where, way = maze(name), np.zeros((len(at), 2))
    for row, (cell, last) in enumerate(zip(where.cells(at), where.cells(goal), strict=True)):
        steps = _steps_to(name, int(last[0]), int(last[1]))
        around = [tuple(cell + step) for step in ((-1, 0), (0, -1), (1, 0), (0, 1))]
        nearer = [one for one in around if 0 <= steps[one] < steps[tuple(cell)]]
        aim = goal[row] if not nearer else where.centres(np.array(min(nearer, key=lambda one: steps[one])))
        way[row] = aim - at[row]
    return way / (np.linalg.norm(way, axis=1, keepdims=True) + 1e-6)


@lru_cache(maxsize=1024)
def _steps_to(name: str, row: int, column: int) -> np.ndarray:
    return maze(name).steps_to((row, column))
