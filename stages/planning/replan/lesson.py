"""The lesson `replan`: where trips have been, and how it feels to run into a wall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.config import by_size
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import gradient_lesson, sum_losses
from devmind.seeding import numpy_rng
from devmind.worlds.pointmaze import CELL, PACE, RADIUS, UNIT, Maze, PointMazeRules
from stages.planning import parts
from stages.planning.parts import STRIDE
from stages.planning.planner import FADES, SIDES, PlannerHead
from stages.planning.route.lesson import LEVELS, oracle_trips
from stages.planning.route.trips import Trips, one_hot

STEPS = {"tiny": 20, "nursery": 800, "child": 2000, "adult": 2000}
ROWS = by_size(64, tiny=16)
TICKS = 32
"""Ticks of each walker."""
GOING, NEARBY = 0.7, 1.2
"""Share of walkers that aim at places, and the places' distance along each axis at most, in cells."""
SLIPS = (0.0, 0.05, 0.3)
"""Standard deviations of the noise on commands."""
TRAINS = tuple(f"heads.{parts.ROUTE}.{part}" for part in ("space", "stopped", "counts"))


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    return gradient_lesson(
        context, "replan", loss, make, steps=STEPS, rows=ROWS, learning_rate=4e-3, minutes=1.5,
        trains=lambda agent: TRAINS, skills=("replan",),
    )  # fmt: skip


def make(agent: Agent, context: Context, update: int, rows: int, steps: int = 0) -> dict[str, Tensor]:
    """`rows` walkers in one maze, the mazes in turn."""
    mazes = LEVELS[context.config.size]
    rules = PointMazeRules(mazes[update % len(mazes)])
    return batch(oracle_trips(context), rules, rows, numpy_rng(context.seed, "replan", update))


def batch(trips: list[Trips], rules: PointMazeRules, rows: int, rng: np.random.Generator) -> dict[str, Tensor]:
    """What `rows` walkers feel in `TICKS` ticks [rows, TICKS], and places where trips were.

    Walkers begin anywhere. For some ticks each heads straight for a place nearby, as an agent that follows a plan does,
    or keeps a command; the commands of some are noisy. So they run into walls, slide along them and get stuck at
    corners. The targets are which of the four neighbouring cells are walls.
    """
    at = _anywhere(rules.maze, rows, rng)
    state = rules.between(at, at)
    state.goal[:] = 1000.0  # nowhere, so that none arrives
    command, aim, going = _commands(rows, rng), at, rng.random(rows) < GOING
    slips = rng.choice(SLIPS, (rows, 1))
    pushed, moved = np.zeros((2, rows, 2))
    felt: list[tuple[np.ndarray, ...]] = []
    for tick in range(TICKS):
        anew = (rng.random(rows) < 0.06 if tick else np.ones(rows, bool))[:, None]
        command = np.where(anew, _commands(rows, rng), command)
        aim = np.where(anew, state.at + rng.uniform(-NEARBY * CELL, NEARBY * CELL, (rows, 2)), aim)
        towards = (aim - state.at) / (STRIDE * PACE)
        towards = towards / np.maximum(1.0, np.linalg.norm(towards, axis=1, keepdims=True))
        commanded = np.clip(np.where(going[:, None], towards, command) + rng.normal(0, 1, (rows, 2)) * slips, -1, 1)
        before = state.at
        state = rules.step(state, {"walk": commanded})
        pushed = FADES * pushed + (1 - FADES) * commanded
        moved = FADES * moved + (1 - FADES) * (state.at - before) / PACE
        beside = state.at[:, None] + CELL * np.array(SIDES)
        felt.append((pushed, moved, state.at / UNIT, ~rules.maze.inside(beside)))
    targets = {
        name: torch.from_numpy(np.stack([one[k] for one in felt], 1).astype(np.float32))
        for k, name in enumerate(("pushed", "moved", "at", "wall"))
    }
    trip_index = rng.integers(len(trips), size=4 * rows)
    been = np.stack([trips[k].at[rng.integers(len(trips[k].at))] for k in trip_index])
    mazes = np.stack([one_hot(trips[k].maze) for k in trip_index])
    return targets | {"been": torch.from_numpy(been.astype(np.float32)), "maze": torch.from_numpy(mazes)}


def _anywhere(where: Maze, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Places [rows, 2] at which a point touches no wall, corners too, where the cause of a stop is hard to tell."""
    free = where.free[rng.integers(len(where.free), size=8 * rows)]
    at = where.centres(free) + rng.uniform(-CELL / 2, CELL / 2, (8 * rows, 2))
    corners = np.array([(-1, -1), (-1, 1), (1, -1), (1, 1)]) * RADIUS
    fits = at[where.inside(at[:, None] + corners).all(1)]
    return fits[:rows] if len(fits) >= rows else _anywhere(where, rows, rng)


def _commands(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Commands [rows, 2] of length 0 to 1: half along an axis, half in any direction."""
    angle = np.where(rng.random(rows) < 0.5, rng.integers(4, size=rows) * np.pi / 2, rng.uniform(0, 2 * np.pi, rows))
    return np.asarray(rng.uniform(0.0, 1.0, (rows, 1)) ** 0.5 * np.stack((np.cos(angle), np.sin(angle)), 1))


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Nats of which cells are walls, and of where the agent can be."""
    head = agent.head(parts.ROUTE)
    assert isinstance(head, PlannerHead)
    return sum_losses(head.belief_losses({name: value.to(agent.device) for name, value in batch.items()}))
