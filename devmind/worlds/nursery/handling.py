"""Spawns and success of the levels `handle/*`: a thing is pushed to a pillar, grasped and lifted, or put into a box.

The room and a word define the task. The word is the colour of the thing. With a yellow pillar the thing is to be pushed
there, with a white box it is to be put in, and with neither it is to be lifted. Nothing else is yellow or white.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from devmind.worlds.nursery.chance import uniform
from devmind.worlds.nursery.goals import of_target
from devmind.worlds.nursery.spawning import CANDIDATES, empty_room, put_clear, put_object, settle
from devmind.worlds.nursery.state import BOX, COLOUR_NAMES, CYLINDER, NurseryState

PUSH, GRASP, PUT_IN = "push", "grasp", "put-in"
TASKS = (PUSH, GRASP, PUT_IN)
HORIZON = 40
GOAL, ASKED, OTHER = 0, 1, 2
"""Slots: the pillar or the box, the named thing, and another thing."""
PILLAR_COLOUR, BOX_COLOUR = COLOUR_NAMES.index("yellow"), COLOUR_NAMES.index("white")
ON_PILLAR_M = 0.1
"""A thing is at the pillar if their middles are at most so far apart, seen from above."""
LIFTED_M = -0.05
"""A thing is lifted if its middle is above this; all begin below."""
BOX_SIZE_M = 0.09


def spawn(task: str) -> Callable[[np.ndarray], NurseryState]:
    """First states of `handle/TASK`: two things within reach, and the pillar or box of the task."""

    def begin(seeds: np.ndarray) -> NurseryState:
        state = empty_room(seeds)
        state.tilt[:] = -25.0
        _colour(state, PILLAR_COLOUR if task == PUSH else BOX_COLOUR)
        side = np.where(uniform(seeds, "side") < 0.5, 1.0, -1.0)
        state.size[:, ASKED] = uniform(seeds, "size", 0.045, 0.06)
        state.size[:, OTHER] = uniform(seeds, "other size", 0.04, 0.055)
        if task == PUSH:
            at, goal = _push(state, side)
        else:
            at = _point(seeds, "asked", (0.44, 0.6), (0.05, 0.22), (-0.36, -0.14), side)
            goal = _point(seeds, "goal", (0.48, 0.6), (0.08, 0.24), (-0.36, -0.2), -side)
        if task != GRASP:
            put_object(state, GOAL, goal)
        put_object(state, ASKED, at)
        free = _point(seeds, "other", (0.44, 0.62), (-0.3, 0.3), (-0.36, -0.12), side, (CANDIDATES,))
        put_clear(state, OTHER, free, 0.12)
        state.graspable[:, ASKED] = state.graspable[:, OTHER] = task != PUSH
        state.pushable[:, ASKED] = state.pushable[:, OTHER] = task == PUSH
        state.shape[:, GOAL] = BOX if task == PUT_IN else CYLINDER
        state.size[:, GOAL] = BOX_SIZE_M if task == PUT_IN else 0.04
        state.yaw[:, GOAL] = 0.0
        state.target[:] = ASKED
        return settle(state)

    return begin


def task_done(task: str) -> Callable[[NurseryState], np.ndarray]:
    """Whether the task of `handle/TASK` is done, bool [N]."""

    def judge(state: NurseryState) -> np.ndarray:
        at, held = of_target(state, state.position), state.held == state.target
        if task == GRASP:
            return np.asarray(held & (at[:, 2] >= LIFTED_M))
        off = at - state.position[:, GOAL]
        if task == PUSH:
            return np.asarray(~held & (np.hypot(off[:, 0], off[:, 1]) <= ON_PILLAR_M))
        return np.asarray(~held & (np.abs(off) <= state.size[:, [GOAL]]).all(1))

    return judge


def reward(task: str) -> Callable[[NurseryState, NurseryState, bool], np.ndarray]:
    """1 at the tick in which the task gets done."""
    judge = task_done(task)
    return lambda before, after, closing: (judge(after) & ~judge(before)).astype(np.float64)


def held_out(truth: Mapping[str, np.ndarray]) -> np.ndarray:
    """Whether a room has a combination that no lesson shows, bool [N]: a named blue or green thing on the left side."""
    rows = np.arange(len(truth["target"]))
    colour = truth["colour"][rows, truth["target"]]
    unseen = np.isin(colour, [COLOUR_NAMES.index("blue"), COLOUR_NAMES.index("green")])
    return np.asarray(unseen & (truth["position"][rows, truth["target"], 1] > 0))


def _push(state: NurseryState, side: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of the thing and of the pillar, which is further off and up to 35 degrees aside."""
    seeds = state.seed
    at = _point(seeds, "asked", (0.4, 0.46), (0.03, 0.2), (-0.34, -0.2), side)
    way = np.deg2rad(uniform(seeds, "way", -35.0, 35.0))
    far = uniform(seeds, "far", 0.17, 0.22)
    goal = at + far[:, None] * np.stack((np.cos(way), np.sin(way), np.zeros(len(seeds))), 1)
    return at, goal


def _point(
    seeds: np.ndarray,
    name: str,
    x: tuple[float, float],
    y: tuple[float, float],
    z: tuple[float, float],
    side: np.ndarray,
    shape: tuple[int, ...] = (),
) -> np.ndarray:
    """Points [N, *shape, 3] with y on that side, 1 left and -1 right."""
    left = side.reshape(-1, *[1] * len(shape)) * uniform(seeds, f"{name} y", *y, shape)
    return np.stack((uniform(seeds, f"{name} x", *x, shape), left, uniform(seeds, f"{name} z", *z, shape)), -1)


def _colour(state: NurseryState, goal: int) -> None:
    """Give the pillar or box the colour `goal`; no other present thing is yellow or white."""
    free = np.setdiff1d(np.arange(len(COLOUR_NAMES)), (PILLAR_COLOUR, BOX_COLOUR))
    order = np.argsort(uniform(state.seed, "colour of things", shape=(len(free),)), axis=1)
    state.colour[:, GOAL], state.colour[:, -1] = goal, PILLAR_COLOUR + BOX_COLOUR - goal
    state.colour[:, 1:-1] = free[order]
