"""The laws of the stage."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from devmind.testing import check_learner, tiny_agent, tiny_context
from devmind.testing.parts import check_rehearsed
from stages.reasoning.lessons import FORMED, OFTEN
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
    if name != "values":  # of which nothing can be undone
        check_rehearsed(lesson, agent, context)


def test_lessons_of_nursery_take_thirty_minutes_at_most(tmp_path) -> None:
    context = tiny_context(tmp_path)
    context = replace(context, config=context.config.model_copy(update={"size": "nursery"}))
    lessons = ReasoningStage().lessons(context)
    assert lessons[-1].name == "review"
    assert sum(lesson.minutes for lesson in lessons) <= 30.0 + 1e-6


def test_the_review_goes_over_all_that_the_stage_can_undo(tmp_path) -> None:
    stage, agent, context = ReasoningStage(), tiny_agent(), tiny_context(tmp_path)
    stage.admit(agent)
    *taught, review = stage.lessons(context)
    apart = {"procedures", "navigate", "puzzles", "sliding", "values"}
    assert set(review.skills) == {skill for one in taught for skill in one.skills} - apart
    batches = review.make_batches(agent, context, 26)
    rounds = Counter(batches.make(update)["of"] for update in range(len(taught) - len(apart) + len(OFTEN)))
    assert {name for name, times in rounds.items() if times == 2} == OFTEN
    assert set(rounds.values()) == {1, 2}


def test_lessons_behind_those_that_form_the_sense_of_positions_change_it_little(tmp_path) -> None:
    stage, agent, context = ReasoningStage(), tiny_agent(), tiny_context(tmp_path)
    stage.admit(agent)
    agent.config.stages = [stage.name]
    lessons = {lesson.name: lesson for lesson in stage.lessons(context)}
    forming = ("navigate", "puzzles", "sliding", "tictactoe", "connect4")
    assert list(lessons)[:4] == ["navigate", "puzzles", "sliding", "values"]
    assert list(lessons)[-2:] == ["explain", "review"]
    for name, lesson in lessons.items():
        learner = lesson.make_learner(agent, context)
        of = {id(p): group["rate"] for group in learner.optimizer.param_groups for p in group["params"]}
        named = {key: of[id(p)] for key, p in learner.trained_parameters()}
        sense = [rate for key, rate in named.items() if key.startswith("encoders.position.")]
        others = [rate for key, rate in named.items() if key.startswith("heads.tictactoe_policy.")]
        if sense and others:
            share = 1.0 if name in forming else FORMED["encoders.position."]
            assert sense == pytest.approx([share * others[0]] * len(sense)), name
