"""The laws of the stage."""

from __future__ import annotations

import pytest

from devmind.testing import check_learner, tiny_agent, tiny_context
from devmind.testing.parts import check_rehearsed
from stages.reasoning.stage import ReasoningStage

SELF_PLAY_OF_MINUTES = pytest.param("othello", marks=[pytest.mark.slow, pytest.mark.timeout(900)])


@pytest.mark.parametrize(
    "name", ["tictactoe", "connect4", SELF_PLAY_OF_MINUTES, "puzzles", "sliding", "values", "imagine", "procedures"]
)
def test_a_lesson_goes_on_where_it_was_stopped_and_can_be_rehearsed(name: str, tmp_path) -> None:
    stage, agent, context = ReasoningStage(), tiny_agent(), tiny_context(tmp_path)
    stage.admit(agent)
    agent.config.stages = [stage.name]
    (lesson,) = [one for one in stage.lessons(context) if one.name == name]
    check_learner(lesson, agent, context, steps=2)
    check_rehearsed(lesson, agent, context)
