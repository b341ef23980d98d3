"""The lesson sliding: what each move of a sliding puzzle costs, by value iteration from mixed boards.

Approximate value iteration (Agostinelli et al. 2019): Q(s, a) = 1 + min Q(s'), where the network says what follows.
Boards are mixed by moves that go on from the goal, first few, then more, so what it is asked about next to the goal is
right before what hangs on it is learned. Who came by k moves can go back by k: that bounds all four costs. A move into
the edge changes nothing and costs 1, so every move has a cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import gradient_lesson
from devmind.seeding import numpy_rng
from devmind.worlds.sliding import MOVES, SlidingRules
from stages.reasoning import parts
from stages.reasoning.glancing import GLANCES, CostLearner, Costs
from stages.reasoning.puzzles.lesson import for_exams

MOST = {3: 40, 4: 80}
"""Sides that are taught in turn, and by how many moves their boards are mixed at most."""
FEW = 12
"""So few moves are nearly always the shortest way back."""
DEEPEST_AT = 0.7
"""The share of the lesson after which boards are mixed by up to MOST."""
COSTS = Costs(parts.SLIDES, parts.SLIDE_GLANCES, mean=20.0, spread=10.0)
STEPS = {"tiny": 40, "nursery": 600, "child": 20_000, "adult": 60_000}
ROWS, TINY_ROWS = 128, 32


def lesson(context: Context) -> Lesson:
    """Boards of 3 x 3 and of 4 x 4 in turn."""
    return gradient_lesson(
        context, "sliding", COSTS.loss, make, steps=STEPS, rows=ROWS, tiny_rows=TINY_ROWS, learning_rate=3e-3,
        minutes=3.5, trains=parts.trained, learner=SlidingLearner, skills=("sliding",),
    )  # fmt: skip


@lru_cache
def rules(side: int) -> SlidingRules:
    """Of a board of this side."""
    return SlidingRules(str(side))


class SlidingLearner(CostLearner):
    """The sense of boards learns from boards that are few moves away."""

    costs = COSTS

    def views(self, batch: Any, step: int) -> Iterator[Batch]:
        """Mixed by FEW moves at most, with their bounds as costs."""
        for turn in range(GLANCES):
            side, rng = side_of(step), numpy_rng("lesson", "sliding", "glance", self.seed, step, turn)
            tiles, bound = mixed(side, len(batch["first"]), FEW, rng, held_out=False)
            yield told(side, tiles, bound)


def side_of(update: int) -> int:
    """Which board an update is about."""
    return list(MOST)[update % len(MOST)]


def costs(agent: Agent, side: int, tiles: np.ndarray) -> np.ndarray:
    """What each move costs with all that follows, float [N, 4], for tiles int8 [N, side * side]."""
    return COSTS.of(agent, rules(side).observe(rules(side).of(tiles))["board"])


def mixed(side: int, n: int, most: int, rng: np.random.Generator, held_out: bool) -> tuple[np.ndarray, np.ndarray]:
    """Tiles int8 [n, cells] after 1 to `most` moves, and what each of the four moves costs at most, float [n, 4].

    Args:
        held_out: boards kept for exams; else those for lessons.
    """
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    while sum(len(tiles) for tiles, _ in kept) < n:
        moves = rng.integers(1, most + 1, 2 * n)
        tiles, back = rules(side).mixed(moves, rng)
        bound = np.repeat(moves[:, None] + 2.0, len(MOVES), 1)
        bound[np.arange(len(moves)), back] = moves
        # A move into the edge is lost, and then it is one back and all the others.
        bound[~rules(side).able(tiles)] -= 1
        here = (for_exams(tiles) == held_out) & ~rules(side).solved(tiles)
        kept.append((tiles[here], bound[here]))
    tiles, bound = (np.concatenate(column)[:n] for column in zip(*kept, strict=True))
    return tiles, bound


def make(agent: Agent, context: Context, update: int, rows: int, steps: int = 0) -> dict[str, Any]:
    """Mixed boards with their targets `cost` [rows, 1, 4]; the network is asked where every move leads to."""
    side = side_of(update)
    share = min(1.0, update / max(1.0, steps * DEEPEST_AT))
    most = round(FEW + share * (MOST[side] - FEW))
    rng = numpy_rng("lesson", "sliding", context.seed, update)
    tiles, bound = mixed(side, rows, most, rng, held_out=False)
    following = rules(side).slid(np.repeat(tiles, len(MOVES), 0), np.tile(np.arange(len(MOVES)), rows))
    solved = rules(side).solved(following)
    after = np.where(solved, 0.0, np.maximum(1.0, costs(agent, side, following).min(-1)))
    return told(side, tiles, np.minimum(bound, 1 + after.reshape(rows, -1)))


def told(side: int, tiles: np.ndarray, cost: np.ndarray) -> Batch:
    """A batch of tiles int8 [N, cells] with `cost` [N, 1, 4]."""
    return COSTS.batch(rules(side).observe(rules(side).of(tiles))["board"], cost)
