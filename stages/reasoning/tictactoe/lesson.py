"""The lesson tictactoe: policy and value from self-play."""

from __future__ import annotations

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Batches, Context, Lesson
from stages.reasoning import parts
from stages.reasoning.games import TICTACTOE
from stages.reasoning.selfplay import Play, SelfPlay

STEPS = {"tiny": 30, "nursery": 180, "child": 300, "adult": 600}
ROWS = {"tiny": 64}
PLAY = Play(games=40, again=40, opening=7)
MINUTES = 1.0
LEARNING_RATE = 3e-3


def lesson(context: Context) -> Lesson:
    """Some thousand games against itself."""
    changed, size = context.config.lessons.get("tictactoe"), context.config.size
    rows = (changed and changed.batch) or ROWS.get(size, 96)
    rate = (changed and changed.learning_rate) or LEARNING_RATE

    def learner(agent: Agent, context: Context) -> SelfPlay:
        return SelfPlay(agent, TICTACTOE, PLAY, seed=context.seed, learning_rate=rate, trains=parts.trained(agent))

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: {"update": update, "rows": context.rows(rows)}, steps)

    return Lesson("tictactoe", learner, batches, STEPS[size], MINUTES, skills=("tictactoe",))
