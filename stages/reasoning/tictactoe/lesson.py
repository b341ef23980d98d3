"""The lesson tictactoe: policy and value from self-play."""

from __future__ import annotations

from devmind.curriculum.stage import Context, Lesson
from stages.reasoning.games import TICTACTOE
from stages.reasoning.selfplay import Play, selfplay_lesson

STEPS = {"tiny": 30, "nursery": 180, "child": 300, "adult": 600}
PLAY = Play(games=40, again=40, opening=7)


def lesson(context: Context) -> Lesson:
    """Some thousand games against itself."""
    return selfplay_lesson(context, TICTACTOE, PLAY, steps=STEPS, rows=96, learning_rate=3e-3, minutes=1.0)
