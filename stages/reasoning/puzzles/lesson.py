"""The lesson puzzles: the cost of each press of Lights Out, from bounds that scrambles prove.

A scramble of k presses can be undone in k presses through any of them, and in k + 2 through any other press, which is
undone in the end. That bounds the cost of all presses at once, without search. For up to MOST presses hardly any bound
is above the fewest (presses that change nothing are at least twelve), so no network has to evaluate where a press
leads.

The head on the sense of puzzles alone learns; the trunk's head takes over what it knows (`glancing.CostLearner`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch
from devmind.agent.config import by_size
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import gradient_lesson
from devmind.seeding import numpy_rng
from devmind.worlds.lights_out import LightsOutRules
from stages.reasoning import parts
from stages.reasoning.glancing import PUZZLES_TRAIN, REHEARSAL_COST, CostLearner, Costs
from stages.reasoning.hindsight import attempt, hindsight_option, lights_renamed, pieces, put_among
from stages.reasoning.puzzles.reading import SIDE

MOST = 8
"""Presses of a scramble, at most."""
RULES = LightsOutRules(f"{SIDE}-{MOST}")
COSTS = Costs(parts.PRESSES, parts.PRESS_GLANCES, mean=5.0, spread=2.0)
HELD_OUT = 8
"""One pattern in HELD_OUT is kept for exams and never a lesson's."""
GLANCES = 8
"""Batches of an update for the sense of puzzles, besides its own batch."""
STEPS = {"tiny": 40, "nursery": 270, "child": 4000, "adult": 10000}
ROWS = by_size(96, tiny=64)
LEARNING_RATE = 3e-3
MINUTES = 0.8


def lesson(context: Context) -> Lesson:
    """Scrambles of 1 to 8 presses; the option `hindsight` takes a share from failed attempts."""
    again = hindsight_option(context, "puzzles")
    return gradient_lesson(
        context, "puzzles", COSTS.loss, make, steps=STEPS, rows=ROWS, learning_rate=LEARNING_RATE,
        minutes=MINUTES, trains=lambda agent: PUZZLES_TRAIN, control=(),
        learner=partial(PuzzleLearner, **again), skills=("puzzles",), rehearsal_cost=REHEARSAL_COST,
        settings=("batch", "learning_rate", *again),
    )  # fmt: skip


class PuzzleLearner(CostLearner):
    """Teaches the sense of puzzles with further scrambles."""

    costs = COSTS

    def views(self, batch: Any, step: int) -> Iterator[Batch]:
        """Scrambles with bounds as their targets."""
        rows = len(batch["first"])
        return further(
            rows, GLANCES, "puzzles", self.seed, step, self.agent if self.hindsight else None, self.hindsight
        )


def further(
    rows: int, batches: int, lesson: str, seed: int, step: int, agent: Agent | None = None, hindsight: float = 0.0
) -> Iterator[Batch]:
    """Batches of `rows` scrambles for the sense of puzzles, at an update of a lesson.

    Args:
        agent: its failed attempts give the share `hindsight` of the rows.
    """
    for turn in range(batches):
        rng = numpy_rng("lesson", lesson, "glance", seed, step, turn)
        lit, presses = scrambles(rows, rng, held_out=False)
        if agent is not None:
            again = in_hindsight(agent, round(hindsight * rows), rng)
            lit, presses = (put_among(*columns) for columns in zip((lit, presses), again, strict=True))
        yield cost_batch(lit, bounds(presses))


def in_hindsight(agent: Agent, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Up to `n` patterns int8 [m, 25] from failed attempts, and presses int8 [m, 25] that put them out."""
    starts, _ = scrambles(max(8, n // 4), rng, held_out=False)
    attempts = attempt(starts, press_lights, out, lambda lit: costs(agent, lit, COSTS.glance), MOST, rng)
    lit, start, first, last = pieces(attempts, lights_renamed)
    pressed = np.concatenate(
        [np.zeros((1, *starts.shape), np.int64), np.eye(RULES.cells, dtype=np.int64)[attempts.actions]]
    )
    pressed = pressed.cumsum(0)
    presses = ((pressed[last, start] - pressed[first, start]) % 2).astype(np.int8)
    rows = rng.permutation(np.flatnonzero(lit.any(-1) & ~for_exams(lit)))[:n]
    return lit[rows], presses[rows]


def press_lights(lit: np.ndarray, presses: np.ndarray) -> np.ndarray:
    """Lights int8 [N, 25] after one press each, int64 [N]."""
    return np.asarray(lit ^ RULES.turns[presses])


def out(lit: np.ndarray) -> np.ndarray:
    """Whether all lights are out, bool [N]."""
    return np.asarray(~lit.any(-1))


def costs(agent: Agent, lit: np.ndarray, head: str = "") -> np.ndarray:
    """The cost of each press and all that follows, float [N, 25], for lights int8 [N, 25]; see `Costs.of`."""
    return COSTS.of(agent, RULES.observe(RULES.of(lit))["puzzle"], head)


def scrambles(n: int, rng: np.random.Generator, held_out: bool) -> tuple[np.ndarray, np.ndarray]:
    """Lights int8 [n, 25] and the presses int8 [n, 25] that made them: 1 to 8, each number equally likely.

    Args:
        held_out: patterns kept for exams; else those for lessons.
    """
    chunks: list[tuple[np.ndarray, np.ndarray]] = []
    while sum(len(lit) for lit, _ in chunks) < n:
        many = rng.integers(1, MOST + 1, (2 * n if not held_out else 2 * HELD_OUT * n, 1))
        order = rng.random((len(many), RULES.cells)).argsort(1).argsort(1)
        presses = (order < many).astype(np.int8)
        lit = RULES.pressed(np.zeros_like(presses), presses)
        here = for_exams(lit) == held_out
        chunks.append((lit[here], presses[here]))
    lit, presses = (np.concatenate(column)[:n] for column in zip(*chunks, strict=True))
    return lit, presses


def for_exams(lit: np.ndarray) -> np.ndarray:
    """Which patterns int8 [N, 25] are kept for exams, bool [N]: one of eight, by a hash."""
    places = numpy_rng("lights out", "held out").integers(0, 2**31, lit.shape[1], dtype=np.int64)
    mixed = (lit.astype(np.int64) @ places) * 2_654_435_761 % 2**32
    return np.asarray((mixed >> 16) % HELD_OUT == 0)


def make(agent: Agent, context: Context, update: int, rows: int, steps: int = 0) -> dict[str, Any]:
    """Scrambles with their targets `cost` [rows, 1, 25]."""
    lit, presses = scrambles(rows, numpy_rng("lesson", "puzzles", context.seed, update), held_out=False)
    return cost_batch(lit, bounds(presses))


def cost_batch(lit: np.ndarray, cost: np.ndarray) -> Batch:
    """A batch of lights int8 [N, 25] with `cost` [N, 1, 25]."""
    return COSTS.batch(RULES.observe(RULES.of(lit))["puzzle"], cost)


def bounds(presses: np.ndarray) -> np.ndarray:
    """Upper bounds on the cost of each press, float [N, 25], if these presses int8 [N, 25] are a solution."""
    k = presses.sum(-1, keepdims=True, dtype=np.int64)
    return np.where(presses == 1, k, k + 2).astype(float)
