"""The lesson othello: policy and value from self-play."""

from __future__ import annotations

import numpy as np

from devmind.curriculum.stage import Context, Lesson
from devmind.seeding import numpy_rng
from stages.reasoning.games import OTHELLO
from stages.reasoning.judged import by_chance
from stages.reasoning.selfplay import Play, selfplay_lesson

STEPS = {"tiny": 10, "nursery": 60, "child": 4000, "adult": 12000}
PLAY = Play(games=32, again=16, opening=20, capacity=40_000)


def lesson(context: Context) -> Lesson:
    """Some hundred games against itself: enough to play, not to play well."""
    return selfplay_lesson(
        context, OTHELLO, PLAY, steps=STEPS, rows=128, learning_rate=2e-3, minutes=1.5,
        rehearses=("tictactoe", "connect4"),
    )  # fmt: skip


def taught(context: Context, n: int) -> np.ndarray:
    """Positions that games of lessons begin with, int64 [n]: what is met further on is the agent's own choice."""
    rng = numpy_rng("lesson", "othello", context.seed, "episodes")
    return OTHELLO.canonical(by_chance(OTHELLO, n, PLAY.opening, rng))[0]
