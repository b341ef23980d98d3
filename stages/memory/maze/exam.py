"""The exam of maze: turn, at the end of a corridor, as something at its start showed.

Three mazes: the passive T-Maze with a corridor of 100, longer than in any lesson, and MiniGrid's Memory rooms of sizes
7 and 13: all rooms that no lesson shows, each once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from devmind.acting import Policy, Senses, rollout
from devmind.agent.agent import Agent
from devmind.curriculum.episodes import of_lessons, of_worlds
from devmind.curriculum.exam import Exam, Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds
from devmind.worlds import minigrid
from devmind.worlds.minigrid import FORWARD, LEFT, RIGHT
from devmind.worlds.side_by_side import SideBySide
from devmind.worlds.tmaze import AHEAD, DOWN, UP
from stages.memory import short_term
from stages.memory.maze.rooms import LONGEST, UNSEEN_SIZES, exam_rooms, room_name
from stages.memory.short_term import NO_STORE, SHORT_OFF

LENGTH = 100
PHASES = f"{LENGTH - 7}-{LENGTH + 8}"
"""Corridors of about this length. Slots are written every 16 Moments, and the distance from the last write to the end
is a phase that may be lost by itself: after two nights only those of 98 to 102 were (docs/log.md, 2026-11-27)."""
T_MAZE, S7, S13 = "maze/corridor", "maze/MemoryS7", "maze/MemoryS13"
EPISODES, BESIDE = 1000, 400
"""Corridors of the score, and of each other row, as in memory_len. Rooms are all those kept for exams."""
SIZES = {S7: 7, S13: 13}
GATE = Gate(
    [Threshold(T_MAZE, 0.98), Threshold(S7, 0.95, when_absent="skip"), Threshold(S13, 0.90, when_absent="skip")]
)
SIDES = {"straight on, then left": LEFT, "straight on, then right": RIGHT}
ALL_ROOMS = "; all rooms that no lesson shows: other combinations of start, thing and side"
ABSENT = "MiniGrid is not installed (extra 'worlds'): its Memory rooms were not examined"


def examine(agent: Agent, context: Context) -> Exam:
    """Share of episodes that end at the right side: a corridor of 100, and MiniGrid's rooms if it is installed."""
    exams = [_exam(agent, context, T_MAZE, "" if minigrid.minigrid_installed() else f"; {ABSENT}")]
    if minigrid.minigrid_installed():
        exams += [
            _exam(agent, context, name, f"{ALL_ROOMS}; more than {LONGEST[size]} steps count as failed")
            for name, size in SIZES.items()
        ]
    return Exam.joined(exams)


@in_parts
def _exam(agent: Agent, context: Context, name: str, note: str) -> Parts:
    n = context.episodes(EPISODES, BESIDE)
    few = min(n, context.episodes(BESIDE))
    right = arrivals(context, name, n, short_term.agent_policy(agent))
    measure = Measure(
        name,
        "arrived",
        right,
        chance=0.5,
        rate=True,
        reference="0.5 without memory" + (" (Ni et al., 2023)" if name == T_MAZE else ""),
        note=NO_STORE + note,
        **_which(context, name, n),
    )
    yield [measure]
    rows = {SHORT_OFF: float(arrivals(context, name, few, short_term.agent_policy(agent, short_term=False)).mean())}
    rows |= _of_unseen_sizes(agent, context) if name == S13 else {}
    if name == T_MAZE:
        child = short_term.agent_policy(agent)
        rows[f"corridors of {PHASES}"] = float(arrivals(context, name, few, child, PHASES).mean())
    floors = {
        title: float(arrivals(context, name, few, policy).mean()) for title, policy in _floors(context, name).items()
    }
    yield [replace(measure, floors=floors, rows=rows)]


def _which(context: Context, name: str, n: int) -> dict[str, Any]:
    """The episodes of the values: drawn corridors, or all rooms kept from lessons."""
    if name != T_MAZE:
        return {"exhaustive": True}
    return {"episodes": of_worlds(context.make_world, "tmaze", str(LENGTH), exam_seeds(n, context.seed, name))}


def _of_unseen_sizes(agent: Agent, context: Context) -> dict[str, float]:
    """Share of solved rooms of sizes that no lesson has, all rooms of each size."""
    rows = {}
    for size in UNSEEN_SIZES:
        rooms = exam_rooms(context.seed, size)
        right = right_things(size, rooms, short_term.agent_policy(agent))
        rows[f"all {len(rooms)} rooms of size {size}, of which lessons have none"] = float(right.mean())
    return rows


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Corridors that lessons show, of every length, int64."""
    return of_lessons(context.make_world, n, context.seed, "tmaze", short_term.lesson_lengths())


def arrivals(context: Context, name: str, n: int, policy: Policy, length: str = str(LENGTH)) -> np.ndarray:
    """Whether each episode of a maze ended at the right side, float64 of 0 and 1: `n` corridors, or all exam rooms.

    Args:
        length: of the corridors, or their shortest and longest.
    """
    if name != T_MAZE:
        return right_things(SIZES[name], exam_rooms(context.seed, SIZES[name]), policy)
    seeds = exam_seeds(n, context.seed, name)
    # The goal earns 1, and all delays together cost less than 0.2.
    return (short_term.total_rewards(context, "tmaze", length, seeds, policy) > 0.5).astype(np.float64)


def _floors(context: Context, name: str) -> Mapping[str, Policy]:
    """A random walk, and the best players without memory: to the end, then always to one side."""
    if name != T_MAZE:
        sides = {title: straight_on(side) for title, side in SIDES.items()}
        return {"random": short_term.at_random(3, context.seed, name), **sides}
    ends = {"straight on, then up": _along_the_corridor(UP), "straight on, then down": _along_the_corridor(DOWN)}
    return {"random": short_term.at_random(4, context.seed, name), **ends}


def _along_the_corridor(side: int) -> Policy:
    return short_term.choosing(lambda senses, first: np.where(senses["signal"][:, 0] > 0, side, AHEAD))


def right_things(size: int, seeds: np.ndarray, policy: Policy) -> np.ndarray:
    """Whether the right thing was reached in each episode, float64 [N] of 0 and 1."""
    return short_term.in_groups(lambda group: _group(size, group, policy), seeds)


def _group(size: int, seeds: np.ndarray, policy: Policy) -> np.ndarray:
    world, right = SideBySide([minigrid.room(room_name(size)) for _ in seeds], seeds), np.zeros(len(seeds))
    for tick in rollout(policy, world, (LONGEST | UNSEEN_SIZES)[size]):
        right[tick.reward > 0] = 1.0
        if tick.ended.all():
            break
    world.close()
    return right


def straight_on(side: int) -> Policy:
    """Walk on while the cell ahead is free, then to one side: the best player without memory."""
    turned = np.zeros(0, bool)

    def act(senses: Senses, first: np.ndarray) -> np.ndarray:
        nonlocal turned
        turned = np.zeros(len(first), bool) if first.all() else turned
        blocked = senses["board"][:, 1, 5, 3] == 0  # the cell ahead is not empty
        turn = blocked & ~turned
        turned = turned | turn
        return np.where(turn, side, FORWARD)

    return short_term.choosing(act)
