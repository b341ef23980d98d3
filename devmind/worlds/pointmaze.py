"""OGBench's PointMaze as Rules: a point moves through a maze to a goal (Park et al., 2025, "OGBench").

Mazes, tasks, physics and success are OGBench's own (extra `worlds`): its MuJoCo model is stepped, for all rows in one
call. The state of a point is its place alone. So a row is a place, a goal and a count of ticks, and rows can be copied,
searched and resumed, unlike OGBench's environment. Two events are added to OGBench: a passage closes (a cell becomes a
wall, which the agent notices only by running into it), or the goal moves to another place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError, nearest
from devmind.seeding import numpy_rng
from devmind.worlds.rules import Outcome, Struct
from devmind.worlds.spaces import effector

MAZES = ("arena", "medium", "large", "giant")
TASKS = "-tasks"
"""Suffix of a maze's name: OGBench's own tasks instead of any two cells."""
CLOSING, BLOCKED, MOVING = "-closing", "-blocked", "-moving"
"""Suffixes of a maze's name: a cell on all shortest paths closes during the episode, and another path is left; the
same, and no path is left; the goal moves elsewhere."""
APART = 4
"""Cells from start to goal, at least, in episodes with an event."""
EARLIEST, LATEST = 0.2, 0.6
"""When the event happens, as a share of the ticks that the oracle takes to the door, or to the goal."""
SOONEST = 3
"""Cells from the start to the door, at least, so that the agent is not there before it closes."""
NEVER = np.iinfo(np.int64).max
UNIT = 10.0
"""A 1 of the senses `body` and `goal`, in OGBench's units."""
CELL = 4.0
"""Side of a cell, in OGBench's units."""
PACE, RADIUS, REACH = 0.2, 0.7, 1.0
"""The distance of a command of 1 in a tick, the point's radius, and the distance of success (OGBench's units)."""
MAX_TICKS = 1000
FRAMES = 5
"""Physics steps a tick."""
NO_BOXES = 1 << 14
"""MuJoCo's flag `mjDSBL_MIDPHASE`."""
MISSING = "OGBench is not installed; it is in the extra 'worlds': pip install 'devmind[worlds]'"


Cell = tuple[int, int]
"""Row and column."""


@dataclass
class Walk(Struct):
    """The state of N rows.

    Attributes:
        at, goal: float64 [N, 2] in OGBench's units. tick: int64 [N]. over: bool [N], ended before this tick.
        door: int64 [N, 2], the cell that closes; shut: bool [N], whether it has closed.
        next_goal: float64 [N, 2], where the goal moves.
        when: int64 [N], the tick of the event; a door closes as soon after it as its cell is empty. NEVER without an
            event.
    """

    at: np.ndarray
    goal: np.ndarray
    tick: np.ndarray
    over: np.ndarray
    door: np.ndarray
    shut: np.ndarray
    next_goal: np.ndarray
    when: np.ndarray


@dataclass(frozen=True)
class Maze:
    """One of OGBench's mazes: its walls bool [rows, columns], its tasks ((row, column), (row, column)), its model."""

    walls: np.ndarray
    tasks: tuple[tuple[tuple[int, int], tuple[int, int]], ...]
    model: Any

    @property
    def free(self) -> np.ndarray:
        """Free cells, int64 [F, 2] of row and column."""
        return np.argwhere(~self.walls)

    def cells(self, at: np.ndarray) -> np.ndarray:
        """Row and column of places [..., 2] (x, y), int64 [..., 2]."""
        return np.floor((np.asarray(at)[..., ::-1] + 1.5 * CELL) / CELL).astype(np.int64)

    def centres(self, cells: np.ndarray) -> np.ndarray:
        """Middles (x, y) of cells [..., 2], float64 [..., 2]."""
        return np.asarray(cells)[..., ::-1] * CELL - CELL

    def inside(self, at: np.ndarray) -> np.ndarray:
        """Whether places [..., 2] lie in free cells, bool [...]."""
        cells, (rows, columns) = self.cells(at), self.walls.shape
        row, column = cells[..., 0], cells[..., 1]
        within = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
        return np.asarray(within & ~self.walls[row * within, column * within])

    def steps_to(self, cell: tuple[int, int], without: tuple[int, int] | None = None) -> np.ndarray:
        """Path length from each cell to `cell`, int64 [rows, columns], in cells; -1 without a path.

        Args:
            without: a closed cell.
        """
        found, walls = np.full(self.walls.shape, -1), self.walls.copy()
        if without is not None:
            walls[without] = True
        found[cell] = 0
        queue = deque([cell])
        while queue:
            row, column = queue.popleft()
            for place in ((row - 1, column), (row, column - 1), (row + 1, column), (row, column + 1)):
                if not walls[place] and found[place] < 0:
                    found[place] = found[row, column] + 1
                    queue.append(place)
        return found

    def closed(self, cell: tuple[int, int]) -> Any:
        """OGBench's model with a wall in this cell: one from a corner of the outer wall, which no point can touch."""
        model = copy(self.model)
        geom = model.geom("block_0_0")
        geom.pos[:2] = self.centres(np.array(cell))
        # Bounding boxes of static parts were computed with the model, so they are not used.
        model.opt.disableflags |= NO_BOXES
        return model


def ogbench_installed() -> bool:
    """Whether OGBench is installed."""
    return find_spec("ogbench") is not None


@lru_cache(maxsize=len(MAZES))
def maze(name: str) -> Maze:
    """The maze `name`.

    Raises:
        WorldError: OGBench is not installed, or there is no such maze.
    """
    if name not in MAZES:
        raise WorldError(f"There is no maze '{name}'{nearest(name, MAZES)}")
    if not ogbench_installed():
        raise WorldError(f"The maze '{name}' is OGBench's. {MISSING}.")
    from ogbench.locomaze.maze import make_maze_env

    env = make_maze_env("point", "maze", maze_type=name)
    Path(env.unwrapped.fullpath).unlink()  # OGBench leaves its model's temporary file behind
    tasks = tuple((tuple(task["init_ij"]), tuple(task["goal_ij"])) for task in env.task_infos)
    return Maze(env.maze_map.astype(bool), tasks, env.model)


class PointMazeRules:
    """`body` is the place and `goal` the goal, both float32 [2] (x, y) in tens of OGBench's units; `maze` is the
    maze as one-hot vector; `walk` [2] is the movement in a tick, where 1 is 0.2 units.

    Reward 1 within 1 unit of the goal, which ends the episode; truncated after 1,000 ticks.

    Args:
        level: a maze ("medium"), from any cell to any other; with "-tasks" its five tasks in turn, by the seed. Start
            and goal are drawn around the middles of their cells, as in OGBench. "-closing", "-blocked" and "-moving"
            add an event (see `CLOSING`, `BLOCKED`, `MOVING`).

    Raises:
        WorldError: there is no such level, or OGBench is not installed.
    """

    name = "pointmaze"
    horizon = MAX_TICKS

    def __init__(self, level: str = "medium") -> None:
        happens = [f"{one}{what}" for what in (CLOSING, BLOCKED, MOVING) for one in MAZES if one != "arena"]
        known = [*MAZES, *(f"{one}{TASKS}" for one in MAZES), *happens]
        if level not in known:
            raise WorldError(f"The world 'pointmaze' has no level '{level}'{nearest(level, known)}")
        self.level, (self.maze_name, *_) = level, level.split("-")
        self.maze = maze(self.maze_name)
        place = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        which = spaces.Box(0.0, 1.0, (len(MAZES),), np.float32)
        self.observation_space = spaces.Dict({"body": place, "goal": place, "maze": which})
        self.action_space = spaces.Dict({"walk": effector(2)})
        self._data: Any = None
        self._closed: dict[Cell, Any] = {}

    def initial(self, seeds: np.ndarray) -> Walk:
        """Start, goal and event of each seed."""
        rows = [self._draw(numpy_rng("pointmaze", self.level, int(seed)), int(seed)) for seed in seeds]
        cells = np.array([[start, goal, door, elsewhere] for start, goal, door, elsewhere, _, _ in rows]).reshape(
            -1, 4, 2
        )
        ends = self.maze.centres(cells[:, [0, 1, 3]]) + np.array([aside for *_, aside in rows]).reshape(-1, 3, 2)
        state = self.between(ends[:, 0], ends[:, 1])
        state.door[:], state.next_goal[:] = cells[:, 2], ends[:, 2]
        state.when[:] = np.array([when for *_, when, _ in rows], np.int64)
        return state

    def _draw(self, rng: np.random.Generator, seed: int) -> tuple[Any, ...]:
        """Start, goal, door, the goal's next cell, the event's tick, and offsets from the middles of cells [3, 2]."""
        tasks, free, aside = self.maze.tasks, self.maze.free, np.zeros((3, 2))
        while True:
            start, goal = map(_cell, free[rng.choice(len(free), 2, replace=False)])
            if self.level.endswith(TASKS):
                start, goal = tasks[seed % len(tasks)]
            door, elsewhere, when = (0, 0), goal, NEVER
            if self.level.endswith((CLOSING, BLOCKED, MOVING)):
                found = self._happening(start, goal, rng)
                if found is None:
                    continue
                door, elsewhere, cells = found
                when = int(rng.uniform(EARLIEST, LATEST) * cells * CELL / PACE)
            aside[:2] = rng.uniform(-CELL / 4, CELL / 4, (2, 2))
            aside[2] = rng.uniform(-CELL / 4, CELL / 4, 2) if when != NEVER else aside[1]
            return start, goal, door, elsewhere, when, aside

    def _happening(self, start: Cell, goal: Cell, rng: np.random.Generator) -> tuple[Cell, Cell, int] | None:
        """The door, the goal's next cell, and the path length to the event; None if no event is possible."""
        to, since = self.maze.steps_to(goal), self.maze.steps_to(start)
        whole = to[start]
        if whole < APART:
            return None
        if self.level.endswith(MOVING):
            others = [cell for cell in map(_cell, self.maze.free) if min(to[cell], since[cell]) >= APART]
            return ((0, 0), others[int(rng.integers(len(others)))], whole) if others else None
        on_the_way = (to + since == whole) & (to >= 0)
        # The only cell at this distance from the start on any shortest path, so every shortest plan passes it.
        lone = [
            cell
            for cell in map(_cell, np.argwhere(on_the_way))
            if SOONEST <= since[cell] < whole and (on_the_way & (since == since[cell])).sum() == 1
        ]
        wanted = self.level.endswith(CLOSING)
        doors = [door for door in lone if (self.maze.steps_to(goal, without=door)[start] >= 0) == wanted]
        if not doors:
            return None
        door = doors[int(rng.integers(len(doors)))]
        return door, goal, int(since[door])

    def between(self, start: np.ndarray, goal: np.ndarray) -> Walk:
        """N walks from `start` to `goal`, both [N, 2] in OGBench's units.

        Raises:
            WorldError: one of them is not a free place in the maze.
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
        ends, none = (np.array(start, float), np.array(goal, float)), np.zeros(n, bool)
        never = np.full(n, NEVER)
        return Walk(*ends, np.zeros(n, np.int64), none, np.zeros((n, 2), np.int64), none.copy(), ends[1].copy(), never)

    def legal(self, state: Walk) -> Mapping[str, np.ndarray]:
        """Every movement is legal."""
        return {}

    def step(self, state: Walk, actions: Mapping[str, np.ndarray]) -> Walk:
        """One tick of OGBench's physics; a missing command is zero."""
        over = self._ended(state)
        walk = np.asarray(actions.get("walk", np.zeros((len(state), 2))), np.float64)
        if not np.isfinite(walk).all():
            raise WorldError("A command `walk` is two finite numbers in -1..1 a row; got NaN or infinity.")
        at, going = state.at.copy(), np.flatnonzero(~over)
        tick = state.tick + ~over
        shut, goal = state.shut.copy(), state.goal.copy()
        due = (tick >= state.when) & ~over
        if self.level.endswith(MOVING):
            goal[due] = state.next_goal[due]
        else:
            # A door waits until its cell is empty.
            shut |= due & (np.abs(at - self.maze.centres(state.door)).max(1) > CELL / 2 + RADIUS)
        if len(going):
            at[going] = self._settled(
                at[going] + PACE * np.clip(walk[going], -1.0, 1.0), state.door[going], shut[going]
            )
        return replace(state.copy(), at=at, goal=goal, tick=tick, over=over, shut=shut)

    def _settled(self, at: np.ndarray, door: np.ndarray, shut: np.ndarray) -> np.ndarray:
        """Where points that were moved to `at` [N, 2] come to rest. Only walls push: points that touch none stay."""
        corners = np.array([(-1, -1), (-1, 1), (1, -1), (1, 1)]) * (RADIUS + 0.01)
        by_a_wall = ~self.maze.inside(at[:, None] + corners).all(1)
        by_a_door = shut & (np.abs(at - self.maze.centres(door)).max(1) < CELL / 2 + RADIUS + 0.01)
        near = np.flatnonzero(by_a_wall | by_a_door)
        if len(near):
            at = at.copy()
            cells = [_cell(one) if closed else None for one, closed in zip(door[near], shut[near], strict=True)]
            at[near] = self._pushed(at[near], [self._model(cell) for cell in cells])
        return at

    def _model(self, door: Cell | None) -> Any:
        """OGBench's model, with a wall in the cell `door`."""
        if door is None:
            return self.maze.model
        if door not in self._closed:
            self._closed[door] = self.maze.closed(door)
        return self._closed[door]

    def _pushed(self, at: np.ndarray, models: list[Any]) -> np.ndarray:
        """Where points that were moved to `at` [N, 2] come to rest after walls push them back."""
        import mujoco
        from mujoco import rollout

        if self._data is None:
            self._data = mujoco.MjData(self.maze.model)
        mujoco.mj_resetData(self.maze.model, self._data)
        begin = np.zeros((len(at), mujoco.mj_stateSize(self.maze.model, mujoco.mjtState.mjSTATE_FULLPHYSICS)))
        begin[:, 1:3] = at  # after the time; velocities are zero
        states, _ = rollout.rollout(
            models, [self._data], begin, np.zeros((len(at), FRAMES, self.maze.model.nu)), nstep=FRAMES
        )
        return np.asarray(states[:, -1, 1:3])

    def outcome(self, state: Walk) -> Outcome:
        """1 for reaching the goal, and the end of the episode."""
        there = self._there(state)
        return Outcome((there & ~state.over & (state.tick > 0)).astype(np.float32), there, state.tick >= MAX_TICKS)

    def observe(self, state: Walk) -> dict[str, Any]:
        """Place, goal and maze."""
        which = np.zeros((len(state), len(MAZES)), np.float32)
        which[:, MAZES.index(self.maze_name)] = 1.0
        return {
            "body": (state.at / UNIT).astype(np.float32),
            "goal": (state.goal / UNIT).astype(np.float32),
            "maze": which,
        }

    def truth(self, state: Walk) -> dict[str, np.ndarray]:
        """Place and goal in full precision, the door's cell, and whether it is shut."""
        return {"at": state.at.copy(), "goal": state.goal.copy(), "door": state.door.copy(), "shut": state.shut.copy()}

    def _there(self, state: Walk) -> np.ndarray:
        near = np.linalg.norm(state.at - state.goal, axis=1) <= REACH
        return np.asarray(near & (state.tick > 0))

    def _ended(self, state: Walk) -> np.ndarray:
        return self._there(state) | (state.tick >= MAX_TICKS)


def _cell(row_and_column: np.ndarray) -> Cell:
    row, column = row_and_column
    return int(row), int(column)


def oracle_way(name: str, at: np.ndarray, goal: np.ndarray, doors: Sequence[Cell | None] | None = None) -> np.ndarray:
    """The command [N, 2] of OGBench's oracle: towards the middle of the next cell on a shortest path, length 1.

    In the goal's own cell OGBench's oracle goes to the middle, which may miss the goal; here it goes to the goal.
    Without a path it stays.

    Args:
        at, goal: [N, 2] in OGBench's units.
        doors: a closed cell for each row.
    """
    where, way = maze(name), np.zeros((len(at), 2))
    closed = [None] * len(at) if doors is None else doors
    for row, (cell, last, door) in enumerate(zip(where.cells(at), where.cells(goal), closed, strict=True)):
        steps = _steps_to(name, (int(last[0]), int(last[1])), door)
        if steps[tuple(cell)] < 0:
            continue
        around = [tuple(cell + step) for step in ((-1, 0), (0, -1), (1, 0), (0, 1))]
        nearer = [one for one in around if 0 <= steps[one] < steps[tuple(cell)]]
        aim = goal[row] if not nearer else where.centres(np.array(min(nearer, key=lambda one: steps[one])))
        way[row] = aim - at[row]
    return way / (np.linalg.norm(way, axis=1, keepdims=True) + 1e-6)


@lru_cache(maxsize=4096)
def _steps_to(name: str, cell: Cell, without: Cell | None) -> np.ndarray:
    return maze(name).steps_to(cell, without)
