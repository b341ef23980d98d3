"""The exam of memory_len: a sign seen once is named 100 steps later, which is more than any lesson had."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from devmind.acting import Policy
from devmind.agent.agent import Agent
from devmind.curriculum.episodes import of_lessons, of_worlds
from devmind.curriculum.exam import Exhibit, Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds
from devmind.worlds.memory_len import LENGTHS
from stages.memory import short_term
from stages.memory.short_term import LONGEST_TAUGHT, NO_STORE, SHORT_OFF

NAME = "memory_len"
LENGTH = 100
EPISODES, BESIDE = 1000, 400
"""Episodes of the score (what retention wants where one costs less than 50 ms), and of each other row."""
GATE = Gate([Threshold(NAME, 0.9)])


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """Share correct at length 100; the whole curve, memory off, and floors in a full exam."""
    n = context.episodes(EPISODES, BESIDE)
    few, short = min(n, context.episodes(BESIDE)), short_term.agent_policy(agent)
    correct = right_answers(context, LENGTH, n, short)
    measure = Measure(
        NAME,
        "correct",
        correct,
        chance=0.5,
        rate=True,
        reference="0.5 without memory (bsuite: Osband et al., 2020)",
        note=f"{NO_STORE}; lessons have {LONGEST_TAUGHT} steps at most",
        episodes=of_worlds(context.make_world, NAME, str(LENGTH), exam_seeds(n, context.seed, NAME, LENGTH)),
    )
    yield [measure]
    curve = {length: correct if length == LENGTH else right_answers(context, length, few, short) for length in LENGTHS}
    off = right_answers(context, LENGTH, few, short_term.agent_policy(agent, short_term=False))
    rows = {SHORT_OFF: float(off.mean())} | {f"length {k}": float(v.mean()) for k, v in curve.items()}
    players = {"random": short_term.at_random(2, context.seed, NAME), "always the same": short_term.always(1)}
    floors = {name: float(right_answers(context, LENGTH, few, policy).mean()) for name, policy in players.items()}
    yield [replace(measure, floors=floors, rows=rows, exhibits=(_shown(curve),))]


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Episodes that lessons show, of every length, int64."""
    return of_lessons(context.make_world, n, context.seed, NAME, short_term.lesson_lengths())


def right_answers(context: Context, length: int, n: int, policy: Policy) -> np.ndarray:
    """Whether each of `n` exam episodes of `length` was answered rightly, float64 [n] of 0 and 1."""
    seeds = exam_seeds(n, context.seed, NAME, length)
    return (short_term.total_rewards(context, NAME, str(length), seeds, policy) > 0).astype(np.float64)


def _shown(curve: dict[int, np.ndarray]) -> Exhibit:
    text = ", ".join(f"{length}: {values.mean():.2f}" for length, values in curve.items())
    good = curve[LENGTH].mean() >= 0.9
    return Exhibit("example" if good else "failure", f"correct by length: {text}")
