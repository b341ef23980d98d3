"""The skill memory_len: a sign seen once is named N steps later. Its batches, its exam, its gate.

Lessons go up to `LONGEST_TAUGHT`, the exam asks after more steps than any lesson had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from devmind.acting import Policy
from devmind.agent.agent import Agent
from devmind.curriculum.episodes import of_lessons, of_worlds
from devmind.curriculum.exam import Exhibit, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, numpy_rng
from devmind.worlds.memory_len import LENGTHS
from stages.memory import imitation, playing

NAME = "memory_len"
LONGEST_TAUGHT = 60
"""Steps at most between a sign and its question in lessons, also of the maze."""
LENGTH = 100
EPISODES = 400
GATE = Gate([Threshold(NAME, 0.9)])
SHORT_OFF = "short-term memory off"
NO_STORE = "no store is asked in this test: long-term memory alone is as memory off, both is as short-term alone"


def lesson_batch(context: Context, update: int, size: int, longest: int) -> dict[str, Any]:
    """Episodes of one length, drawn by (seed, update) up to `longest`; half of them are of the longest third."""
    rng = numpy_rng(context.seed, NAME, "length", update)
    low = 1 if rng.random() < 0.5 else max(1, 2 * longest // 3)
    return imitation.episode_batch(context, NAME, str(rng.integers(low, longest + 1)), update, size)


def examine(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """Correct at length 100 in 400 episodes; the whole curve, memory off, and floors in a full exam."""
    n, short = playing.episodes(context, level, EPISODES), playing.child(agent)
    correct = answered(context, LENGTH, n, short)
    rows: dict[str, float] = {}
    floors: dict[str, float] = {}
    exhibits: tuple[Exhibit, ...] = ()
    if level == "full":
        curve = {length: correct if length == LENGTH else answered(context, length, n, short) for length in LENGTHS}
        off = answered(context, LENGTH, n, playing.child(agent, short_term=False))
        rows = {SHORT_OFF: float(off.mean())} | {f"length {k}": float(v.mean()) for k, v in curve.items()}
        players = {"random": playing.at_random(2, context.seed, NAME), "always the same": playing.always(1)}
        floors = {name: float(answered(context, LENGTH, n, policy).mean()) for name, policy in players.items()}
        exhibits = (_shown(curve),)
    return [
        Measure(
            NAME,
            "correct",
            correct,
            chance=0.5,
            ceiling=1.0,
            floors=floors,
            rate=True,
            reference="0.5 without memory (bsuite: Osband et al., 2020)",
            note=f"{NO_STORE}; lessons have {LONGEST_TAUGHT} steps at most",
            rows=rows,
            episodes=of_worlds(context.make_world, NAME, str(LENGTH), exam_seeds(n, context.seed, NAME, LENGTH)),
            exhibits=exhibits,
        )
    ]


def taught(context: Context, n: int) -> np.ndarray:
    """Episodes that lessons show, of every length, int64."""
    return of_lessons(context.make_world, n, context.seed, NAME, lengths_taught())


def lengths_taught() -> list[str]:
    """The levels of lessons."""
    return [str(length) for length in range(1, LONGEST_TAUGHT + 1)]


def answered(context: Context, length: int, n: int, policy: Policy) -> np.ndarray:
    """Whether each of `n` exam episodes of `length` was answered rightly, float64 [n] of 0 and 1."""
    seeds = exam_seeds(n, context.seed, NAME, length)
    return (playing.total_rewards(context, NAME, str(length), seeds, policy) > 0).astype(np.float64)


def _shown(curve: dict[int, np.ndarray]) -> Exhibit:
    text = ", ".join(f"{length}: {values.mean():.2f}" for length, values in curve.items())
    good = curve[LENGTH].mean() >= 0.9
    return Exhibit("example" if good else "failure", f"correct by length: {text}")
