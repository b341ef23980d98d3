"""The lesson connect4: policy and value from self-play."""

from __future__ import annotations

import numpy as np

from devmind.curriculum.stage import Context, Lesson
from devmind.seeding import numpy_rng
from stages.reasoning.games import CONNECT4
from stages.reasoning.judged import by_chance
from stages.reasoning.selfplay import Play, selfplay_lesson

STEPS = {"tiny": 20, "nursery": 420, "child": 6000, "adult": 20000}
PLAY = Play(games=64, again=32, opening=24, capacity=40_000)
"""Games begin anywhere in their first half: good players meet few of the positions that an exam asks about."""


def lesson(context: Context) -> Lesson:
    """Some thousand games against itself, most begun in the middle."""
    return selfplay_lesson(
        context, CONNECT4, PLAY, steps=STEPS, rows=256, learning_rate=2e-3, minutes=14.0, rehearses=("tictactoe",)
    )


def taught(context: Context, n: int) -> np.ndarray:
    """Positions that games of lessons begin with, int64 [n]: what is met further on is the agent's own choice."""
    rng = numpy_rng("lesson", "connect4", context.seed, "episodes")
    return CONNECT4.canonical(by_chance(CONNECT4, n, PLAY.opening, rng))[0]
