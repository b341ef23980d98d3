"""The skill maze: to turn, at the end of a way, as something at its start told.

Three mazes: the passive T-Maze with a corridor of 100, longer than in any lesson, and MiniGrid's Memory rooms of sizes
7 and 13: all of those rooms that no lesson shows, each once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from devmind.acting import Policy
from devmind.agent.agent import Agent
from devmind.curriculum.episodes import of_lessons, of_worlds
from devmind.curriculum.exam import Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, numpy_rng
from devmind.worlds import minigrid
from devmind.worlds.tmaze import AHEAD, DOWN, UP
from stages.memory import imitation, matching, playing, remembering
from stages.memory.remembering import NO_STORE, SHORT_OFF

LENGTH = 100
T_MAZE, S7, S13 = "maze/corridor", "maze/MemoryS7", "maze/MemoryS13"
EPISODES = 400
SIZES = {S7: 7, S13: 13}
GATE = Gate(
    [Threshold(T_MAZE, 0.98), Threshold(S7, 0.95, when_absent="skip"), Threshold(S13, 0.90, when_absent="skip")]
)
ALL_ROOMS = "; all rooms that no lesson shows: other combinations of start, thing and side"
ABSENT = "MiniGrid is not installed (extra 'worlds'): its Memory rooms were not examined"


def lesson_batch(context: Context, update: int, size: int, longest: int) -> dict[str, Any]:
    """T-Mazes with one length of corridor, drawn by (seed, update) up to `longest`; half are of the longest third."""
    rng = numpy_rng(context.seed, "tmaze", "length", update)
    low = 1 if rng.random() < 0.5 else max(1, 2 * longest // 3)
    return imitation.episode_batch(context, "tmaze", str(rng.integers(low, longest + 1)), update, size)


def examine(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """Which share of episodes ended at the right side: a corridor of 100, and MiniGrid's rooms where it is there."""
    measures = [_measure(agent, context, level, T_MAZE, "" if minigrid.installed() else f"; {ABSENT}")]
    if minigrid.installed():
        measures += [
            _measure(
                agent, context, level, name, f"{ALL_ROOMS}; more than {matching.LONGEST[size]} steps count as failed"
            )
            for name, size in SIZES.items()
        ]
    return measures


def _measure(agent: Agent, context: Context, level: str, name: str, note: str) -> Measure:
    n = playing.episodes(context, level, EPISODES)
    right = arrived(context, name, n, playing.child(agent))
    rows: dict[str, float] = {}
    floors: dict[str, float] = {}
    if level == "full":
        rows = {SHORT_OFF: float(arrived(context, name, n, playing.child(agent, short_term=False)).mean())}
        floors = {
            title: float(arrived(context, name, n, policy).mean()) for title, policy in _floors(context, name).items()
        }
    return Measure(
        name,
        "arrived",
        right,
        chance=0.5,
        ceiling=1.0,
        floors=floors,
        rate=True,
        reference="0.5 without memory" + (" (Ni et al., 2023)" if name == T_MAZE else ""),
        note=NO_STORE + note,
        rows=rows,
        **_which(context, name, n),
    )


def _which(context: Context, name: str, n: int) -> dict[str, Any]:
    """What the values are of: drawn corridors, or all rooms that were kept from lessons."""
    if name != T_MAZE:
        return {"exhaustive": True}
    return {"episodes": of_worlds(context.make_world, "tmaze", str(LENGTH), exam_seeds(n, context.seed, name))}


def taught(context: Context, n: int) -> np.ndarray:
    """Corridors that lessons show, of every length, int64."""
    return of_lessons(context.make_world, n, context.seed, "tmaze", remembering.lengths_taught())


def arrived(context: Context, name: str, n: int, policy: Policy) -> np.ndarray:
    """Whether each episode of a maze ended at the right side, float64 of 0 and 1: `n` corridors, or all exam rooms."""
    if name != T_MAZE:
        return matching.reached(SIZES[name], matching.exam_rooms(context.seed, SIZES[name]), policy)
    seeds = exam_seeds(n, context.seed, name)
    # The goal earns 1, and all dawdling together costs less than 0.2.
    return (playing.total_rewards(context, "tmaze", str(LENGTH), seeds, policy) > 0.5).astype(np.float64)


def _floors(context: Context, name: str) -> Mapping[str, Policy]:
    """A random walk, and the best that can be done without remembering: on to the end, then always to one side."""
    if name != T_MAZE:
        sides = {title: matching.straight_on(side) for title, side in matching.SIDES.items()}
        return {"random": playing.at_random(3, context.seed, name), **sides}
    ends = {"straight on, then up": _straight_on(UP), "straight on, then down": _straight_on(DOWN)}
    return {"random": playing.at_random(4, context.seed, name), **ends}


def _straight_on(side: int) -> Policy:
    return playing.choosing(lambda senses, first: np.where(senses["signal"][:, 0] > 0, side, AHEAD))
