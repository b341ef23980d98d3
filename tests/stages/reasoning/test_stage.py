"""The laws of the stage."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from devmind.agent.text import add_text
from devmind.config import load
from devmind.curriculum.ablation import control, trained_by_controls
from devmind.curriculum.stage import Context, check_lessons
from devmind.errors import ConfigError
from devmind.learners.gradient import owned_parts
from devmind.testing import tiny_agent, tiny_context
from stages.reasoning.games import CONNECT4
from stages.reasoning.lessons import FORMED, OFTEN, selfplay_lesson
from stages.reasoning.selfplay import SelfPlayByMuon
from stages.reasoning.stage import ReasoningStage


def test_lessons_of_nursery_take_at_most_thirty_minutes(tmp_path) -> None:
    context = tiny_context(tmp_path)
    context = replace(context, config=context.config.model_copy(update={"size": "nursery"}))
    lessons = ReasoningStage().lessons(context)
    assert lessons[-1].name == "review"
    assert sum(lesson.minutes for lesson in lessons) <= 30.0 + 1e-6


def said(context: Context, *options: str) -> Context:
    """The context of a run with these --set options."""
    return replace(context, config=load("tiny", sets=[f"lessons.{option}" for option in options]))


def test_a_configuration_chooses_the_search_of_self_play_and_hindsight(tmp_path) -> None:
    stage, agent = ReasoningStage(), tiny_agent()
    stage.admit(agent)
    agent.config.stages = [stage.name]
    context = said(
        tiny_context(tmp_path),
        "tictactoe.options.rollouts=30", "sliding.options.hindsight=0.5",
    )  # fmt: skip
    check_lessons([stage], context)
    learners = {one.name: one.make_learner(agent, context) for one in stage.lessons(context)}
    play = learners["tictactoe"].play
    assert (play.rollouts, play.games) == (30, 8)
    assert learners["othello"].play.rollouts == 0, "of which nothing was said"
    assert (learners["sliding"].hindsight, learners["puzzles"].hindsight) == (0.5, 0.0)
    assert learners["review"].of["tictactoe"].play == play, "it is rehearsed as it was taught"


@pytest.mark.parametrize(("size", "rollouts"), [("nursery", 2000), ("child", 0)])
def test_connect_4_is_taught_by_rollouts_on_cpus(size: str, rollouts: int, tmp_path) -> None:
    agent, context = tiny_agent(), tiny_context(tmp_path)
    ReasoningStage().admit(agent)
    context = replace(context, config=load(size, sets=["device=cpu"]))
    lesson = selfplay_lesson(context, CONNECT4, rows=8, learning_rate=1e-3, minutes=1.0)
    learner = lesson.make_learner(agent, context)
    assert (learner.play.rollouts, type(learner)) == (rollouts, SelfPlayByMuon)


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("tictactoe.options.gamse=9", r"The lesson 'tictactoe' has no option 'gamse'; did you mean 'games'\?"),
        ("navigate.options.games=9", "The lesson 'navigate' has no option 'games'; known are: grow,"),
        ("connect4.options.games=many", "lessons.connect4.options.games is 8 by default.*; got 'many'"),
        ("connect4.options.games=true", "takes a value of that type; got True"),
        ("connect4.options.games=2.5", "takes a value of that type; got 2.5"),
        ("connect4.options.simulations=0", "expects simulations of at least 1; got 0"),
        ("othello.options.rollouts=-1", "expects rollouts of at least 0; got -1"),
        ("puzzles.options.hindsight=-1", "in hindsight is from 0 to 1; got -1.0"),
        ("values.batch=9", "The lesson 'values' has no batch that can be set"),
        ("review.batch=9", "The lesson 'review' has no batch that can be set"),
    ],
)
def test_an_invalid_lesson_option_raises_a_config_error(option: str, sentence: str, tmp_path) -> None:
    with pytest.raises(ConfigError, match=sentence):
        check_lessons([ReasoningStage()], said(tiny_context(tmp_path), option))


def test_the_review_covers_every_lesson_that_the_stage_can_undo(tmp_path) -> None:
    stage, agent, context = ReasoningStage(), tiny_agent(), tiny_context(tmp_path)
    stage.admit(agent)
    *taught, review = stage.lessons(context)
    apart = {"procedures", "navigate", "puzzles", "sliding", "values"}
    assert set(review.skills) == {skill for one in taught for skill in one.skills} - apart
    batches = review.make_batches(agent, context, 26)
    rounds = Counter(batches.make(update)["of"] for update in range(len(taught) - len(apart) + len(OFTEN)))
    assert {name for name, times in rounds.items() if times == 2} == OFTEN
    assert set(rounds.values()) == {1, 2}


def test_a_twin_starts_the_whole_stage_anew_and_no_control_trains_the_trunk(tmp_path) -> None:
    """What a lesson without a control taught would stay in the twin with the taught trunk's values."""
    stage, agent, context = ReasoningStage(), tiny_agent(), tiny_context(tmp_path)
    add_text(agent, stage="language")
    stage.admit(agent)
    agent.config.stages = ["language", stage.name]
    own = owned_parts(agent, stage.name)
    assert set(trained_by_controls(agent, stage, context)) == {
        name for name in agent.state_dict() if name.startswith((*own, "heads.text."))
    }
    for lesson in stage.lessons(context):
        assert lesson.control is not None
        learner, of_twin = lesson.make_learner(agent, context), control(lesson, agent, context)
        trunk = {name for name, _ in learner.trained_parameters() if name.startswith("trunk.")}
        named = {name for name, _ in of_twin.trained_parameters()}
        writes = {name for name in named if name.startswith("heads.text.")}
        assert bool(writes) == (lesson.name in ("explain", "review"))
        assert named - writes == {name for name, _ in learner.trained_parameters()} - trunk
        assert of_twin.slowed == learner.slowed


def test_lessons_after_the_forming_ones_change_the_position_sense_little(tmp_path) -> None:
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
        # Parameters that Muon steps have a rate of their own kind.
        named = {key: of[id(p)] for key, p in learner.trained_parameters() if learner.kind(key, p) != "orthogonal"}
        sense = [rate for key, rate in named.items() if key.startswith("encoders.position.")]
        others = [rate for key, rate in named.items() if key.startswith("heads.tictactoe_policy.")]
        if sense and others:
            share = 1.0 if name in forming else FORMED["encoders.position."]
            assert sense == pytest.approx([share * others[0]] * len(sense)), name
