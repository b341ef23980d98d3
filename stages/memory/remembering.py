"""The skill memory_len: a sign seen once is named N steps later. Its batches, its exam, its gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.exam import Exhibit, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, numpy_rng
from devmind.worlds.memory_len import LENGTHS
from stages.memory import imitation, playing

NAME = "memory_len"
LENGTH = 50
EPISODES = 400
GATE = Gate([Threshold(NAME, 0.9)])
NOT_ASKED = "no store is asked in this test: long-term memory alone is as memory off, both is as short"


def lesson_batch(context: Context, update: int, size: int, longest: int) -> dict[str, Any]:
    """Episodes of one length, drawn by (seed, update) up to `longest`; half of them are of the longest third."""
    rng = numpy_rng(context.seed, NAME, "length", update)
    low = 1 if rng.random() < 0.5 else max(1, 2 * longest // 3)
    return imitation.episode_batch(context, NAME, str(rng.integers(low, longest + 1)), update, size)


def examine(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """Correct at length 50 in 400 episodes; the whole curve, memory off, and floors in a full exam."""
    n = context.episodes(EPISODES) if level == "full" else max(8, context.episodes(EPISODES) // 5)
    correct = _correct(agent, context, LENGTH, n)
    rows: dict[str, float] = {}
    floors: dict[str, float] = {}
    exhibits: tuple[Exhibit, ...] = ()
    if level == "full":
        curve = {length: correct if length == LENGTH else _correct(agent, context, length, n) for length in LENGTHS}
        rows = {"short-term memory off": float(_correct(agent, context, LENGTH, n, short_term=False).mean())}
        rows |= {f"length {length}": float(values.mean()) for length, values in curve.items()}
        floors = _floors(context, n)
        exhibits = (_curve(curve),)
    return [
        Measure(
            NAME,
            "correct",
            correct,
            chance=0.5,
            ceiling=1.0,
            floors=floors,
            rate=True,
            reference="0.5 without memory; bsuite's random agent (Osband et al., 2020)",
            note=NOT_ASKED,
            rows=rows,
            exhibits=exhibits,
        )
    ]


def _correct(agent: Agent, context: Context, length: int, n: int, short_term: bool = True) -> np.ndarray:
    """Whether each of `n` episodes of `length` was answered rightly, float64 [n] of 0 and 1."""
    seeds = exam_seeds(n, context.seed, NAME, length)
    total = playing.returns(
        context, NAME, str(length), seeds, lambda size: playing.Child(agent, size, short_term=short_term)
    )
    return (total > 0).astype(np.float64)


def _floors(context: Context, n: int) -> dict[str, float]:
    """A random choice, and the same choice always, on the exam's own episodes."""
    seeds = exam_seeds(n, context.seed, NAME, LENGTH)
    players = {"random": playing.at_random(2, context.seed, NAME), "always the same": playing.always(1)}
    played = {name: playing.returns(context, NAME, str(LENGTH), seeds, make) for name, make in players.items()}
    return {name: float((total > 0).mean()) for name, total in played.items()}


def _curve(curve: dict[int, np.ndarray]) -> Exhibit:
    worst = min(curve, key=lambda length: float(curve[length].mean()))
    text = ", ".join(f"{length}: {values.mean():.2f}" for length, values in curve.items())
    kind = "example" if curve[worst].mean() > 0.75 else "failure"
    return Exhibit(kind, f"correct by length: {text}")  # type: ignore[arg-type]
