"""What somebody who writes a stage gets wrong ends in one sentence, early, and never in a silent wrong result."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from devmind.checkpointing import generations
from devmind.cli.plugins import _problem
from devmind.config import load
from devmind.curriculum import start
from devmind.curriculum.exam import Exam
from devmind.curriculum.examining import examine_skill
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.machine import step_s
from devmind.curriculum.rehearsal import mix_rehearsal
from devmind.curriculum.runner import run_stage
from devmind.curriculum.stage import Batches, Lesson, check_lessons
from devmind.curriculum.start import admit_stage, load_stage, starting_agent
from devmind.errors import ConfigError, ExamError, PluginError
from devmind.learners.gradient import GradientLearner, gradient_lesson
from devmind.learners.policy import Drill
from devmind.plugins import Plugin
from devmind.testing import tiny_agent
from devmind.testing.fakes import tiny_context
from tests.curriculum.lamp_stage import LampStage


@pytest.fixture
def found(monkeypatch):
    """Let a stage be found as the plugin "lamps"."""

    load_plugin = start.plugins.load

    def offer(stage):
        monkeypatch.setattr(start.plugins, "load", lambda *of: stage if of[0] == "stages" else load_plugin(*of))

    return offer


def with_members(**changes):
    stage = LampStage()
    for name, value in changes.items():
        setattr(stage, name, value)
    return stage


def skill(**changes):
    return replace(LampStage().skills[0], **changes)


class OfArguments(LampStage):
    def __init__(self, bound):
        super().__init__(bound)


@pytest.mark.parametrize(
    ("stage", "sentence"),
    [
        (with_members(name="lamp"), "'lamps' calls itself 'lamp'; its entry point and its `name` must be the same"),
        (with_members(requires="reflex"), "requires 'reflex'; expected a tuple of other stages' names"),
        (with_members(requires=("lamps",)), "requires ('lamps',); expected a tuple of other"),
        (with_members(skills=()), "has no tuple of skills; without an exam it would pass whatever it has learned"),
        (with_members(skills=skill()), "has no tuple of skills"),
        (with_members(skills=(skill(), skill(about="other"))), "has two skills named 'lamps-lit'; one's results would"),
        (with_members(skills=(skill(gate=Gate([])),)), "has no gate for its skill 'lamps-lit'"),
        (with_members(skills=(skill(gate=Threshold("lamps-lit", 0.9)),)), "has no gate for its skill 'lamps-lit'"),
        (object(), "has no 'name'; a stage has five members"),
        (OfArguments, "cannot be made: OfArguments.__init__() missing 1 required"),
    ],
)
def test_faulty_member_is_refused_before_the_run(found, stage, sentence):
    found(stage)
    with pytest.raises(PluginError) as refused:
        load_stage("lamps")
    assert sentence in str(refused.value)


def test_list_of_plugins_says_what_a_run_would_refuse(found):
    plugin = Plugin("stages", "lamps", "tests.curriculum.lamp_stage:LampStage", "their-package", "1.2")
    found(LampStage())
    assert _problem(plugin) is None
    found(with_members(skills=()))
    assert "has no tuple of skills" in (_problem(plugin) or "")


def test_members_that_hold_are_accepted(found):
    for stage in (
        LampStage(),
        with_members(requires=["reflex"]),
        with_members(skills=[skill(gate=lambda context: Gate([]))]),
    ):
        found(stage)
        assert load_stage("lamps") is stage


def test_required_stage_that_is_not_installed_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"requires a stage 'reflx', which is none; did you mean 'reflex'\?"):
        starting_agent(LampStage(requires=("reflx",)), load("tiny", {}), None, tmp_path)


@pytest.mark.parametrize(
    ("stage", "sentence"),
    [
        (LampStage(lesson_names=("one", "one")), "is there 2 times; give each lesson its own name"),
        (LampStage(steps=0), "has 0 steps; expected at least one"),
    ],
)
def test_faulty_lesson_is_refused_before_the_run(tmp_path, stage, sentence):
    with pytest.raises(ConfigError, match=sentence):
        check_lessons([stage], tiny_context(tmp_path))


def test_lesson_that_improves_an_unknown_skill_is_refused(tmp_path):
    lessons = [replace(lesson, skills=("lamps-lot",)) for lesson in LampStage().lessons(tiny_context(tmp_path))]
    with pytest.raises(ConfigError, match=r"improves the skill 'lamps-lot', which is none; did you mean 'lamps-lit'\?"):
        check_lessons([with_members(lessons=lambda context: lessons)], tiny_context(tmp_path))


@pytest.mark.parametrize("member", ["rehearses", "skills", "learns_from", "settings"])
def test_text_in_place_of_a_tuple_of_names_is_refused(member):
    with pytest.raises(ConfigError, match=rf"`{member}` of the lesson 'one' are names in a tuple; got the text 'walk'"):
        Lesson("one", None, None, 1, 1.0, **{member: "walk"})


def test_text_in_place_of_prefixes_or_levels_is_refused():
    """Regression: the letters of `trains="heads.lit."` were taken for prefixes, so the whole agent was trained."""
    with pytest.raises(ConfigError, match=r"Write \('heads.lit.',\)"):
        GradientLearner(tiny_agent(), None, seed=0, learning_rate=1e-3, trains="heads.lit.")
    with pytest.raises(ConfigError, match=r"levels of the drill in 'cartpole' are names in a tuple; got the text ''"):
        Drill("push", "cartpole", "", 4, 4)


def lamp_learner(trains, loss=None):
    agent, stage = tiny_agent(), LampStage()
    stage.admit(agent)
    return GradientLearner(agent, loss or stage.loss, seed=0, learning_rate=1e-3, trains=trains, steps=3)


def test_learner_of_a_part_that_the_agent_lacks_is_refused():
    with pytest.raises(ConfigError, match=r"is to train 'heads.lamps-lot', which this agent lacks; did you mean"):
        lamp_learner(("trunk.", "heads.lamps-lot.")).begin(0)
    lamp_learner(("trunk.", "heads.lamps-lit.", "heads.lamps-deep.read.", "encoders.body.")).begin(0)
    with pytest.raises(ConfigError, match="trains nothing"):
        _ = lamp_learner(("trunc.",)).optimizer


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda loss: loss.detach(), "no gradient: nothing that the lesson trains takes part"),
        (lambda loss: loss.expand(3), r"A loss is one number; got shape \[3\]"),
        (lambda loss: 0.5, "A loss is one number; got a float"),
    ],
)
def test_loss_of_which_nothing_is_learned_is_refused(tmp_path, change, sentence):
    context = tiny_context(tmp_path)
    batch = LampStage().lessons(context)[0].make_batches(None, context, 3).make(0)
    learner = lamp_learner(("heads.",), lambda agent, batch: (change(LampStage().loss(agent, batch)[0]), {}))
    learner.begin(0)
    with pytest.raises(ConfigError, match=sentence):
        learner.update(batch, 0)


class Diverging(LampStage):
    """From its third step on its loss is no number."""

    def loss(self, agent, batch):
        loss, scalars = super().loss(agent, batch)
        self.updates = getattr(self, "updates", 0) + 1
        return loss * (float("nan") if self.updates > 8 else 1.0), scalars


def test_lesson_that_diverges_ends_with_a_sentence_and_saves_no_nan(tmp_path, found):
    """Regression: it went on to its end, and an agent of NaN was examined and saved."""
    found(Diverging())
    config = load("tiny", {"checkpoint.every": "1 step", "loggers": (), "threads": 1, "device": "cpu"})
    with pytest.raises(ConfigError, match=r"lesson 'one' has made NaN or infinite numbers of .* by step \d+ of 12"):
        run_stage("lamps", config, out=tmp_path / "run")
    events = [json.loads(line) for line in (tmp_path / "run" / "journal.jsonl").read_text().splitlines()]
    assert "NaN" in events[-1]["fault"]
    saved = generations.load_newest(tmp_path / "run" / "checkpoints", None, print)
    assert saved is None or all(bool(value.isfinite().all()) for value in saved["agent"].values())


class Reporting(LampStage):
    def loss(self, agent, batch):
        return super().loss(agent, batch)[0], {"of each row": torch.zeros(3)}


def test_report_of_several_numbers_is_refused(tmp_path, found):
    found(Reporting())
    config = load("tiny", {"loggers": (), "threads": 1, "device": "cpu"})
    with pytest.raises(ConfigError, match=r"one number by name; 'of each row' has shape \[3\]"):
        run_stage("lamps", config, out=tmp_path / "run")


def test_lesson_without_a_learner_is_refused(tmp_path):
    lesson = replace(LampStage().lessons(tiny_context(tmp_path))[0], make_learner=lambda agent, context: object())
    with pytest.raises(ConfigError, match="make_learner of the lesson 'one' gives a Learner; got a object"):
        step_s(lesson, tiny_agent(), tiny_context(tmp_path), 3)


def test_lesson_of_fewer_batches_than_steps_is_refused(tmp_path):
    """Regression: it ended early, and was noted as done."""
    lesson = LampStage().lessons(tiny_context(tmp_path))[0]
    short = replace(lesson, make_batches=lambda agent, context, steps: Batches(lambda update: None, 2))
    with pytest.raises(ConfigError, match="'one' makes 2 batches for 12 steps"):
        mix_rehearsal(short, lamp_learner(("heads.",)), tiny_context(tmp_path), 12, (), 0)


def test_lesson_without_steps_for_a_size_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="'walk' has no steps for size tiny, only for nursery"):
        gradient_lesson(
            tiny_context(tmp_path), "walk", None, None, steps={"nursery": 9}, rows=4, learning_rate=1e-3, minutes=1
        )


def examined(change, tmp_path):
    stage, agent = LampStage(), tiny_agent()
    stage.admit(agent)
    measures = stage.examine(agent, None).in_full()
    return examine_skill(stage, skill(examine=lambda *_: change(measures)), agent, tiny_context(tmp_path))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda measures: None, "gave a NoneType; expected an Exam of Measures"),
        (lambda measures: measures[0], "gave a Measure; expected an Exam"),
        (lambda measures: Exam(measures[0]), "gave an Exam of Measure; expected a list of Measures"),
        (lambda measures: Exam([*measures, 0.5]), "gave an Exam of list; expected a list of Measures"),
        (lambda measures: Exam([*measures, *measures]), "gave two measures named 'lamps-lit'"),
        (lambda measures: Exam([replace(measures[0], floors={"a rule": np.nan})]), "compared with 'a rule' of nan"),
        (lambda measures: Exam([replace(measures[0], chance=np.nan)]), "compared with 'chance' of nan"),
    ],
)
def test_exam_of_no_clear_measures_is_refused(tmp_path, change, sentence):
    with pytest.raises(ExamError, match=sentence):
        examined(change, tmp_path)


def test_chance_at_the_ceiling_is_refused(tmp_path):
    measure = examined(lambda measures: Exam([replace(measures[0], chance=1.0)]), tmp_path).measures["lamps-lit"]
    with pytest.raises(ExamError, match="has 1 as chance and as ceiling"):
        _ = measure.skill_score
    with pytest.raises(ExamError, match="has 1 as chance and as ceiling"):
        measure.skill_scores()


def test_threshold_that_asks_nothing_is_refused():
    with pytest.raises(ExamError, match="'walk' asks for nothing; give a bound"):
        Threshold("walk", None)
    Threshold("walk", None, beats_floor=True)


def test_admission_that_does_not_look_is_told_apart():
    """Regression: the exam of such a stage asked for another name of the part."""
    agent, stage = tiny_agent(), LampStage()
    stage.admit = lambda agent: agent.add_encoder("body", stage="lamps")
    assert "body" in admit_stage(stage, agent).encoders
    stage.admit(agent)
    with pytest.raises(PluginError, match="`admit` must add only what is not there yet"):
        admit_stage(stage, agent)


@pytest.mark.parametrize("name", ["values", "type", "train"])
def test_names_that_torch_has_are_refused(name):
    agent = tiny_agent()
    agent.add_encoder("body")
    with pytest.raises(PluginError, match=f"No head of an agent can be named '{name}'"):
        agent.add_head(name, "head.categorical", tap="body", options={"classes": 2})
    assert name not in agent.heads


def test_options_that_a_part_does_not_take_are_refused():
    agent = tiny_agent()
    agent.add_encoder("body")
    for options in ({"clases": 2}, {}):
        with pytest.raises(PluginError, match=r"'lean' cannot be made as head.categorical with the options .*clas"):
            agent.add_head("lean", "head.categorical", tap="body", options=options)
    with pytest.raises(PluginError, match=r"'felt' cannot be made as encoder.vector with the options .*sice"):
        agent.add_encoder("felt", "encoder.vector", options={"sice": 3})
    assert set(agent.encoders) == {"body"}
