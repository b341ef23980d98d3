"""Steps are fixed at the start on any machine; the forecast is measured; only a user cuts a lesson."""

from __future__ import annotations

import itertools
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from devmind.config import LessonConfig
from devmind.curriculum import childhood, machine, plan, runner, stage_run, teaching
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.journal import Journal
from devmind.curriculum.stage import Context, Skill
from devmind.curriculum.teaching import Interrupted
from devmind.errors import ConfigError
from devmind.learners.gradient import GradientLearner
from devmind.testing import tiny_agent, tiny_context
from tests import unmeasured
from tests.curriculum.lamp_stage import LampStage
from tests.curriculum.test_run import STAGES, Killed, config, interrupt_at, weights

SPEED = {"one": 2.0, "two": 4.0, "third": 1.0}
"""Steps a second that the plan is given here: 12 steps of both lessons take 9 seconds."""


@pytest.fixture(autouse=True)
def own_stages(monkeypatch):
    for module in (runner, stage_run, childhood):
        monkeypatch.setattr(module, "load_stage", STAGES.__getitem__)
    monkeypatch.setattr(childhood, "_in_new_process", runner.examine_childhood)  # another process has no lamps stage


@pytest.fixture
def speeds(monkeypatch):
    """The speeds that the plan takes as measured, and the lessons for which it asked."""
    told, asked = dict(SPEED), []

    def step_s(lesson, *rest):
        asked.append(lesson.name)
        return 1 / told[lesson.name]

    monkeypatch.setattr(plan, "step_s", step_s)
    told["asked"] = asked
    return told


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def die():
    raise Killed


def stop(monkeypatch, folder, at, act=interrupt, **changes):
    """A run of the lamps that is stopped at `(lesson, step)`."""
    with monkeypatch.context() as patch:
        interrupt_at(patch, at, act)
        with pytest.raises((Interrupted, Killed)):
            runner.run_stage("lamps", config(**changes), out=folder)


def rows(result):
    return {row["name"]: (row["status"], row["done"]) for row in json.loads(result.results.read_text())["lessons"]}


def events(folder, *kinds):
    return list(Journal(folder / "journal.jsonl").events(*kinds))


# -- steps


def test_clock_does_not_end_a_lesson(tmp_path, monkeypatch, speeds):
    """Each look at the clock is three hours later."""
    hours = itertools.count(0.0, 3 * 3600.0)
    monkeypatch.setattr(teaching.time, "monotonic", lambda: next(hours))
    result = runner.run_stage("lamps", config(), out=tmp_path / "run")
    monkeypatch.undo()
    assert rows(result) == {"one": ("done", 12), "two": ("done", 12)}
    assert all(row["seconds"] > 12 * 3 * 3600 for row in events(tmp_path / "run", "lesson_done"))


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({}, {"one": 12, "two": 12}),
        ({"minutes": 9 / 60}, {"one": 12, "two": 12}),
        ({"minutes": 3 / 60}, {"one": 4, "two": 4}),
        ({"minutes": 18 / 60}, {"one": 24, "two": 24}),
        ({"minutes": 1e-6}, {"one": 1, "two": 1}),
        ({"minutes": 7.5 / 60, "lessons": {"one": {"steps": 12}}}, {"one": 12, "two": 6}),
        ({"lessons": {"one": {"steps": 3}}}, {"one": 3, "two": 12}),
    ],
)
def test_minutes_scale_all_lessons_by_one_factor(tmp_path, speeds, changes, steps):
    stage = LampStage()
    context = Context(config(**changes), 0, "cpu", tmp_path, None)
    made = begun(stage, context)
    assert made.steps == steps
    assert [event["steps"] for event in events(tmp_path, "plan")] == [steps]


def begun(stage, context, saved=None):
    agent = tiny_agent()
    stage.admit(agent)
    lessons = stage.lessons(context)
    made = plan.LessonPlan(stage.name, lessons, (), context, Journal(context.out / "journal.jsonl"))
    made.begin(lessons, saved, lambda: agent, lambda shorter: plan.gates_of(stage, shorter, context))
    return made


def test_resumed_run_is_measured_again_and_keeps_its_steps(tmp_path, monkeypatch, speeds):
    folder, changes = tmp_path / "run", {"minutes": 6 / 60}
    straight = runner.run_stage("lamps", config(**changes), out=tmp_path / "straight")
    stop(monkeypatch, folder, ("two", 3), **changes)
    speeds |= {"one": 0.01, "two": 100.0}
    speeds["asked"].clear()
    result = runner.run_stage("lamps", config(**changes), out=folder)
    assert speeds["asked"] == ["two"], "what is over is not measured again"
    assert [event["steps"] for event in events(folder, "plan")] == [{"one": 8, "two": 8}]
    first, second = events(folder, "machine")
    assert first["steps_per_s"] == {"one": 2.0, "two": 4.0}
    assert second["steps_per_s"] == {"two": 100.0}
    assert (first["minutes"], second["minutes"]) == (0.1, 0.0)
    assert rows(result) == {"one": ("done", 8), "two": ("done", 8)}
    assert weights(result) == weights(straight)


def test_twin_takes_the_steps_of_the_run(tmp_path, monkeypatch, speeds):
    """Not those of its own measurement, and as few as the run if a lesson was cut."""
    with monkeypatch.context() as patch:
        interrupt_at(patch, ("one", 5), interrupt)
        with pytest.raises(Interrupted):
            runner.run_stage("lamps", config(), out=tmp_path / "run", ablate=True)
    runner.run_stage("lamps", config(), out=tmp_path / "run", ablate=True, cut=True)
    made = {e["lesson"]: e["steps"] for e in events(tmp_path / "run" / "twin" / "run", "lesson_done")}
    assert made == {"one": 5, "two": 12}


# -- rehearsals


@pytest.fixture
def raised(tmp_path, speeds):
    """An agent with a stage to continue from."""
    return runner.run_stage("lamps", config(), out=tmp_path / "runs" / "lamps").agent


def test_rehearsal_frequency_follows_from_lesson_minutes_and_is_kept_in_the_journal(
    tmp_path, monkeypatch, raised, speeds
):
    """A rehearsal takes 0.35 of an equally long step: one after every two steps is 0.15 of the time."""
    straight = runner.run_stage("later", config(), out=tmp_path / "runs" / "later", agent=raised)
    (settled,) = events(straight.out, "plan")
    assert settled["steps"] == {"third": 12}
    assert settled["rehearsal_every"] == {"third": 3}
    assert settled["rehearsal_share"]["third"] == pytest.approx(0.35 / 2.35, abs=1e-3)
    (machine_,) = events(straight.out, "machine")
    assert machine_["minutes"] == pytest.approx(12 * 2.35 / 2 / 60, abs=0.006), (
        "steps are its own, the time is all of it"
    )
    (done,) = events(straight.out, "lesson_done")
    assert (done["steps"], done["rehearsals"]) == (12, 6)

    speeds["third"] = 0.01  # a machine that is a hundred times slower
    slow = runner.run_stage("later", config(), out=tmp_path / "runs" / "slow", agent=raised)
    assert weights(slow) == weights(straight)

    folder = tmp_path / "runs" / "stopped"
    with monkeypatch.context() as patch:
        interrupt_at(patch, ("third", 7), interrupt)
        with pytest.raises(Interrupted):
            runner.run_stage("later", config(), out=folder, agent=raised)
    resumed = runner.run_stage("later", config(), out=folder, agent=raised)
    assert [event["rehearsal_every"] for event in events(folder, "plan")] == [{"third": 3}]
    assert weights(resumed) == weights(straight)


def test_report_shows_training_rehearsals_and_measurements(tmp_path, raised, monkeypatch):
    stage, said = STAGES["later"], "Beats one lamp after the other: 0.2 fewer."
    lessons = stage.lessons
    monkeypatch.setattr(stage, "lessons", lambda context: [replace(one, compared=said) for one in lessons(context)])
    result = runner.run_stage("later", config(), out=tmp_path / "runs" / "later", agent=raised)
    (lesson,) = json.loads(result.results.read_text())["lessons"]
    assert lesson["rehearsals"] == 6
    assert 0 < lesson["rehearsal_share"] < 1
    assert set(lesson["trained"]) >= {"trunk", "readout", "heads.later-lit", "heads.lamps-deep"}
    assert "encoders.body" not in lesson["trained"]
    assert "heads.lamps-lit" not in lesson["trained"]
    assert lesson["compared"] == said
    assert f"Later stages rehearse it. Measured: {said}" in result.report.read_text()


def test_learner_without_rehearsals_is_refused_before_the_first_step(tmp_path, monkeypatch, raised):
    monkeypatch.undo()
    for module in (runner, stage_run, childhood):
        monkeypatch.setattr(module, "load_stage", STAGES.__getitem__)
    monkeypatch.setattr(childhood, "_in_new_process", runner.examine_childhood)  # another process has no lamps stage
    monkeypatch.setattr(GradientLearner, "mixes", False)
    with pytest.raises(ConfigError, match="'third' should rehearse 'one', but its learner"):
        runner.run_stage("later", config(), out=tmp_path / "runs" / "later", agent=raised)
    assert not events(tmp_path / "runs" / "later", "plan", "progress")


# -- forecast


def test_machine_is_in_the_journal_and_the_results(tmp_path, monkeypatch):
    unmeasured.measured(monkeypatch)
    result = runner.run_stage("lamps", config(), out=tmp_path / "run")
    (event,) = events(tmp_path / "run", "machine")
    assert event["gflops"] > 0.1
    assert event["cores"] >= 1
    assert set(event["steps_per_s"]) == {"one", "two"}
    expected_s = sum(12 / speed for speed in event["steps_per_s"].values())
    assert event["minutes"] == pytest.approx(expected_s / 60, abs=0.006)
    run = json.loads(result.results.read_text())["run"]
    assert (run["gflops"], run["cores"]) == ([event["gflops"]], event["cores"])
    assert "GFLOP/s" in result.report.read_text()


def test_measured_time_of_a_lesson_changes_the_forecast(tmp_path, speeds, capsys):
    """A lesson took three times its forecast, so the rest will, too."""
    made = begun(LampStage(), Context(config(), 0, "cpu", tmp_path, None))
    _, two = made.lessons
    made.correct_forecast("one", 12, 18.0, [two])
    (forecast,) = events(tmp_path, "forecast")
    assert forecast["minutes"] == pytest.approx(9 / 60)
    assert forecast["steps_per_s"]["two"] == pytest.approx(4 / 3, abs=1e-3)
    assert "About 9 s of lessons are left." in capsys.readouterr().err
    assert made.steps == {"one": 12, "two": 12}


def test_forecast_names_few_gates(tmp_path, speeds, capsys):
    """A quarter of `reflex` puts 27 gates at risk: nobody reads so many names."""
    context = Context(config(minutes=3 / 60), 0, "cpu", tmp_path, None)
    made = plan.LessonPlan(
        "lamps", list(LampStage().lessons(context)), (), context, Journal(tmp_path / "journal.jsonl")
    )
    names = [f"gate {number}" for number in range(11)]
    made.begin(made.lessons, None, tiny_agent, lambda shorter: names)
    assert f"may fail for it: {', '.join(names[:8])} and 3 more." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "saved", "sentences"),
    [
        ({}, None, ["This machine (2 cores of 31 GFLOP/s) needs about 9 s for the lessons of 'lamps'."]),
        (
            {"minutes": 3 / 60},
            None,
            [
                "needs about 9 s for the lessons of 'lamps'; --minutes 0.05 teaches 33 % of their steps, in about 3 s.",
                "All lessons are shorter than planned, and these gates may fail for it: lamps-lit.",
            ],
        ),
        ({"minutes": 18 / 60}, None, ["; --minutes 0.3 teaches 2 times their steps, in about 18 s."]),
        ({"lessons": {"one": {"steps": 2}}}, None, ["needs about 4 s", "The lesson one is shorter than planned"]),
        ({}, {"lesson": "two", "update": 8}, ["needs about 1 s more for the lessons of 'lamps'."]),
    ],
)
def test_forecast_is_printed(tmp_path, speeds, capsys, monkeypatch, changes, saved, sentences):
    monkeypatch.setattr(plan, "measure_machine", lambda device: machine.Machine("cpu", 2, 2, 31.2))
    context = Context(config(**changes), 0, "cpu", tmp_path, None)
    made = begun(LampStage(), context)
    if saved:
        capsys.readouterr()
        made.begin(made.lessons[1:], saved, tiny_agent)
    told = capsys.readouterr().err
    assert not [sentence for sentence in sentences if sentence not in told], told
    assert ("may fail" in told) == any("shorter" in sentence for sentence in sentences)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "0 s"), (40, "40 s"), (100, "2 minutes"), (2904, "48 minutes"), (9000, "2.5 hours")]
)
def test_forecast_is_rounded_to_its_accuracy(seconds, said):
    assert plan.about(seconds) == said


def test_gates_of_lessons_are_those_of_their_skills(tmp_path):
    def skill(name, *thresholds):
        return Skill(name, LampStage().examine, Gate(thresholds))

    hear = skill("hear", Threshold("hear", 0.9), Threshold("hear/speech", 0.9, when_absent="skip"))
    stage, names = SimpleNamespace(skills=[skill("see", Threshold("see", 0.9)), hear]), SimpleNamespace
    context = Context(config(), 0, "cpu", tmp_path, None)
    assert plan.gates_of(stage, [names(skills=("hear",))], context) == ["hear"]
    assert plan.gates_of(stage, [names(skills=("hear",))], replace(context, data=tmp_path)) == ["hear", "hear/speech"]
    assert plan.gates_of(stage, [names(skills=("hear",)), names(skills=())], context) == ["see", "hear"]


# -- measuring


def test_run_resumes_after_a_stop_during_measuring(tmp_path, monkeypatch):
    unmeasured.measured(monkeypatch)
    loss = LampStage.loss

    def stopped(self, agent, batch):
        os.kill(os.getpid(), signal.SIGINT)
        return loss(self, agent, batch)

    with monkeypatch.context() as patch:
        patch.setattr(LampStage, "loss", stopped)
        with pytest.raises(Interrupted):
            runner.run_stage("lamps", config(), out=tmp_path / "run")
    assert not events(tmp_path / "run", "plan")
    assert runner.run_stage("lamps", config(), out=tmp_path / "run").passed


# -- cutting


def test_cut_continues_with_the_next_lesson_and_is_reported(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    stop(monkeypatch, folder, ("one", 5))
    result = runner.run_stage("lamps", config(), out=folder, cut=True)
    assert rows(result) == {"one": ("cut", 5), "two": ("done", 12)}
    assert "The lesson one was cut</b> after 5 of 12 steps" in result.report.read_text()
    assert all(event["seconds"] > 0 for event in events(folder, "lesson_done"))
    again = runner.run_stage("lamps", config(), out=folder, cut=True)
    assert again.already_finished


def test_run_after_a_cut_equals_one_without_a_stop(tmp_path, monkeypatch):
    results = []
    for name in ("straight", "stopped"):
        stop(monkeypatch, tmp_path / name, ("one", 5))
        if name == "stopped":
            with monkeypatch.context() as patch:
                interrupt_at(patch, ("two", 3), interrupt)
                with pytest.raises(Interrupted):
                    runner.run_stage("lamps", config(), out=tmp_path / name, cut=True)
        results.append(runner.run_stage("lamps", config(), out=tmp_path / name, cut=name == "straight"))
    straight, stopped = results
    assert rows(stopped) == rows(straight) == {"one": ("cut", 5), "two": ("done", 12)}
    assert weights(stopped) == weights(straight)


def test_killed_cut_stays_cut(tmp_path, monkeypatch):
    """Killed after the cut and before the next lesson's first checkpoint; nothing more is left to cut."""
    folder = tmp_path / "run"
    stop(monkeypatch, folder, ("one", 5))
    with monkeypatch.context() as patch:
        interrupt_at(patch, ("glimpse", 0), die)
        with pytest.raises(Killed):
            runner.run_stage("lamps", config(), out=folder, cut=True)
    with pytest.raises(ConfigError, match="no lesson was stopped in its middle; give the same command without --cut"):
        runner.run_stage("lamps", config(), out=folder, cut=True)
    assert rows(runner.run_stage("lamps", config(), out=folder)) == {"one": ("cut", 5), "two": ("done", 12)}


@pytest.mark.parametrize("at", [None, ("two", 12), ("exam", 0)])
def test_cut_without_a_begun_lesson_is_refused(tmp_path, monkeypatch, at):
    folder = tmp_path / "run"
    if at:
        stop(monkeypatch, folder, at, interrupt if at[0] in SPEED else die)
    before = sorted(folder.rglob("*"))
    with pytest.raises(ConfigError, match="--cut continues with the lesson after the stopped one"):
        runner.run_stage("lamps", config(), out=folder, cut=True)
    assert sorted(folder.rglob("*")) == before


def test_curriculum_cuts_the_lesson_of_its_current_stage(tmp_path, monkeypatch):
    walk = runner.Curriculum(["later"], config(), tmp_path / "c")
    with monkeypatch.context() as patch:
        interrupt_at(patch, ("third", 4), interrupt)
        with pytest.raises(Interrupted):
            walk.run()
    lamps, later = runner.Curriculum.resume(tmp_path / "c", cut=True)
    assert rows(lamps) == {"one": ("done", 12), "two": ("done", 12)}
    assert rows(later) == {"third": ("cut", 4)}


def test_minutes_below_those_of_lessons_with_set_steps_are_refused(tmp_path, speeds):
    changes = {"minutes": 5 / 60, "lessons": {"one": {"steps": 12}}}
    with pytest.raises(ConfigError, match="The lessons whose steps are named take 6 s here"):
        runner.run_stage("lamps", config(**changes), out=tmp_path / "run")


def test_a_lesson_without_a_gradient_says_what_that_saved_in_the_journal_and_the_report() -> None:
    lesson = replace(LampStage(steps=100).lessons(tiny_context(Path()))[0], instead_of=500)
    taught = teaching.LessonResult(100, 20.0, "done", {}, 0, 0.0, {})
    said = "Solved in closed form, which saved about 80 s against 500 steps down a gradient."
    assert plan._compared(lesson, taught, None) == said
    assert plan._compared(replace(lesson, compared="Measured: x."), taught, LessonConfig()) == f"{said} Measured: x."
    # A run of half the minutes has half the steps of either.
    halved = replace(taught, steps=50, seconds=10.0)
    assert plan._compared(lesson, halved, None) == said.replace("80 s", "40 s").replace("500", "250")
    asked = LessonConfig(steps=50)
    assert plan._compared(lesson, halved, asked) == said.replace("80 s", "90 s"), (
        "gradient would have had its own steps"
    )
    assert plan._compared(lesson, replace(taught, steps=0), asked) == ""
    rehearsed = replace(taught, rehearsals=20, rehearsal_share=0.5)
    assert "saved about 40 s" in plan._compared(lesson, rehearsed, None)
    for gradient in (0, 100):
        assert plan._compared(replace(lesson, instead_of=gradient), taught, None) == ""
