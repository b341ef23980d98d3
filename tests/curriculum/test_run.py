"""A run from admission to report: passed, failed, interrupted and resumed bit-equal, and refused if another."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from devmind.agent.agent import Agent
from devmind.agent.threads import training_threads
from devmind.checkpointing.milestones import newest_milestone
from devmind.config import load
from devmind.curriculum import childhood, runner, stage_run
from devmind.curriculum.examining import Examined
from devmind.curriculum.finished import found_path
from devmind.curriculum.gate import Decision, Gate, Threshold, Verdict
from devmind.curriculum.journal import Journal
from devmind.curriculum.results import commit
from devmind.curriculum.sleep import load_state, save_state
from devmind.curriculum.stage import Skill
from devmind.curriculum.stage_run import Outcome
from devmind.curriculum.start import starting_agent
from devmind.curriculum.teaching import Interrupted
from devmind.errors import CheckpointError, ConfigError
from devmind.learners.gradient import GradientLearner
from devmind.memory.sampling import Reservoir
from tests import unmeasured
from tests.curriculum.lamp_stage import LampStage
from tests.curriculum.test_prefetch import all_gone

STAGES = {
    "lamps": LampStage(),
    "strict": LampStage(bound=1.01),
    "later": LampStage(name="later", requires=("lamps",), lesson_names=("third",)),
}


@pytest.fixture(autouse=True)
def own_stages(monkeypatch):
    monkeypatch.setitem(STAGES, "forgetting", ForgettingStage())
    for module in (runner, stage_run, childhood):
        monkeypatch.setattr(module, "load_stage", STAGES.__getitem__)
    monkeypatch.setattr(childhood, "_in_new_process", runner.examine_childhood)  # another process has no lamps stage


OFTEN = {"checkpoint.every": "1 step"}
"""A checkpoint after each step, for runs that are killed; of others those at the ends of lessons are enough."""


def config(**changes):
    return load("tiny", {"checkpoint.every": "1e9 s", "loggers": (), "threads": 1, "device": "cpu", **changes})


def weights(result):
    return Agent.from_pretrained(result.agent).sha256()


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        for module in (runner, stage_run):
            patch.setattr(module, "load_stage", STAGES.__getitem__)
        unmeasured.measured(patch)  # the runs that are compared with it measure nothing, and end with the same weights
        return runner.run_stage("lamps", config(), out=tmp_path_factory.mktemp("runs") / "straight")


def test_passed_gate_writes_a_milestone_and_a_report(straight):
    assert straight.passed
    assert straight.agent.name == "01-lamps"
    results = json.loads(straight.results.read_text())
    assert results["verdict"]["passed"]
    assert [lesson["status"] for lesson in results["lessons"]] == ["done", "done"]
    assert results["curves"]["one/loss"]["step"][-1] == 12
    assert Journal(straight.out / "journal.jsonl").last("start")["commit"] == commit()
    assert results["run"]["commit"] == commit()
    assert "<html" in straight.report.read_text()
    assert Agent.from_pretrained(straight.agent).config.stages == ["lamps"]


def test_the_childhood_on_one_page_raises_the_same_agent(straight, tmp_path, monkeypatch):
    """docs/one-childhood.py, with what it leaves out left out: the weights are those of a run, bit for bit."""
    page = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "one-childhood.py"))
    monkeypatch.setitem(page["raise_agent"].__globals__, "load_stage", STAGES.__getitem__)
    with training_threads(config().threads):
        agent, report = page["raise_agent"](("lamps",), config(), tmp_path)
    assert agent.sha256() == weights(straight)
    assert Agent.from_pretrained(tmp_path / "lamps" / "agent").sha256() == agent.sha256()
    (row,) = json.loads(straight.results.read_text())["skills"][0]["measures"]
    figures = [f"{row[name]:.3f}" for name in ("score", "low", "chance", "floor")]
    assert [line.split() for line in report[1:]] == [["lamps", "lamps-lit", *figures, "passed"]]


def test_report_shows_where_the_time_went(straight):
    results = json.loads(straight.results.read_text())
    parts = {"data", "encoders", "trunk", "heads", "backward and the rest"}
    for lesson in results["lessons"]:
        assert set(lesson["share"]) == parts
        assert all(lesson["share"][part] > 0 for part in ("encoders", "trunk", "heads"))
        assert sum(lesson["share"].values()) == pytest.approx(1)
    assert set(results["cost"]["share"]) == parts | {"exams"}
    assert sum(results["cost"]["share"].values()) == pytest.approx(1)


def test_journal_shows_gates_beside_scores(straight):
    journal = Journal(straight.out / "journal.jsonl")
    glimpse, exam = journal.last("glimpse")["measures"]["lamps-lit"], journal.last("exam")["measures"]["lamps-lit"]
    assert glimpse == {"unit": "named", "gate": 0.9, "higher_is_better": True, "chance": 1 / 3, "ceiling": 1.0}
    assert [event["lesson"] for event in journal.events("glimpse")] == ["one"], "behind the last lesson come the exams"
    assert exam == glimpse | {"floor": 1 / 3, "beaten_by": None, "verdict": "passed", "passed": True}
    assert [e.get("lesson", e.get("exam")) for e in journal.events("begun")] == ["one", "two", "lamps-lit"]


def test_finished_run_does_nothing_when_run_again(straight):
    before = sorted((p, p.stat().st_mtime_ns) for p in straight.out.rglob("*"))
    again = runner.run_stage("lamps", config(), out=straight.out)
    assert again.already_finished
    assert again.passed
    assert sorted((p, p.stat().st_mtime_ns) for p in straight.out.rglob("*")) == before


def test_changed_settings_in_the_same_folder_are_refused_by_name(straight):
    with pytest.raises(ConfigError, match="seed was 0, now 1"):
        runner.run_stage("lamps", config(seed=1), out=straight.out)


def test_another_seed_gives_different_weights(straight, tmp_path):
    assert weights(runner.run_stage("lamps", config(seed=1), out=tmp_path / "run")) != weights(straight)


def goes_on_to_the_same(straight, tmp_path, monkeypatch):
    monkeypatch.undo()
    for module in (runner, stage_run, childhood):
        monkeypatch.setattr(module, "load_stage", STAGES.__getitem__)
    monkeypatch.setattr(childhood, "_in_new_process", runner.examine_childhood)  # another process has no lamps stage
    result = runner.run_stage("lamps", config(), out=tmp_path / "run")
    assert weights(result) == weights(straight)
    same_scores(result, straight)


@pytest.mark.parametrize(
    ("number", "at"), [(signal.SIGTERM, ("one", 5)), (signal.SIGINT, ("two", 1)), (signal.SIGTERM, ("two", 12))]
)
def test_interrupted_run_resumes_to_the_same_weights(straight, tmp_path, monkeypatch, number, at):
    interrupt_at(monkeypatch, at, lambda: os.kill(os.getpid(), number))
    with pytest.raises(Interrupted):
        runner.run_stage("lamps", config(), out=tmp_path / "run")
    assert all_gone(), "a thread that makes batches outlives its lesson"
    goes_on_to_the_same(straight, tmp_path, monkeypatch)


def test_run_that_stops_early_writes_it_to_its_journal(tmp_path, monkeypatch):
    interrupt_at(monkeypatch, ("one", 5), lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Interrupted):
        runner.run_stage("lamps", config(), out=tmp_path / "run")
    last = Journal(tmp_path / "run" / "journal.jsonl").last()
    assert (last["event"], last["fault"]) == ("stopped", None)
    assert runner.status(tmp_path / "run")["stages"]["lamps"]["state"] == "stopped"

    def fail(self, agent, batch):
        raise ConfigError("The lamp is broken; mend it.")

    monkeypatch.setattr(LampStage, "loss", fail)
    with pytest.raises(ConfigError):
        runner.run_stage("lamps", config(), out=tmp_path / "run")
    last = Journal(tmp_path / "run" / "journal.jsonl").last()
    assert (last["event"], last["fault"]) == ("stopped", "The lamp is broken; mend it.")


class Killed(BaseException):
    """Stands for a kill -9: no code may catch it and clean up."""


@pytest.mark.parametrize("at", [("one", 1), ("one", 7), ("two", 3), ("exam", 0), ("lesson_done", 0)])
def test_killed_run_resumes_to_the_same_weights(straight, tmp_path, monkeypatch, at):
    def die():
        raise Killed

    interrupt_at(monkeypatch, at, die)
    with pytest.raises(Killed):
        runner.run_stage("lamps", config(**OFTEN), out=tmp_path / "run")
    goes_on_to_the_same(straight, tmp_path, monkeypatch)


def interrupt_at(monkeypatch, at, act):
    write = Journal.write

    def watched(self, event, **fields):
        here = (fields.get("lesson"), fields.get("step")) if event == "progress" else (event, 0)
        if here == at and event != "progress":
            act()
        write(self, event, **fields)
        if here == at and event == "progress":
            act()

    monkeypatch.setattr(Journal, "write", watched)
    monkeypatch.setattr("devmind.curriculum.teaching.TELL_EVERY_S", 0.0)


def same_scores(a, b):
    def scores(result):
        return [
            (m["name"], m["score"]) for s in json.loads(result.results.read_text())["skills"] for m in s["measures"]
        ]

    assert scores(a) == scores(b)


def test_failed_gate_keeps_the_agent_and_warns_the_next_stage(tmp_path):
    failed = runner.run_stage("strict", config(), out=tmp_path / "strict")
    assert not failed.passed
    assert not (failed.out / "milestones").exists()
    agent = Agent.from_pretrained(failed.agent)
    assert agent.config.stages == ["lamps"]
    later = runner.run_stage("later", config(), out=tmp_path / "later", agent=failed.agent)
    results = json.loads(later.results.read_text())
    assert results["run"]["predecessor_failed"]


def test_later_stage_takes_the_newest_milestone_and_is_judged_on_retention(straight, tmp_path):
    result = runner.run_stage("later", config(), out=straight.out.parent / "later")
    results = json.loads(result.results.read_text())
    assert results["run"]["started_from"].endswith("01-lamps")
    assert not results["run"]["predecessor_failed"]
    assert [row["skill"] for row in results["retention"]] == ["lamps/lamps-lit"]
    assert results["matrix"]["stages"] == ["lamps", "later"]
    assert any("rehearsal/loss" in name for name in results["curves"])
    assert results["trunk_moved"] > 0
    newer = tmp_path / "run" / "milestones" / "02-later"  # as of another seed of this stage
    newer.mkdir(parents=True)
    (newer / "config.json").write_text(json.dumps({"stages": ["lamps", "later"], "size": "tiny"}))
    shutil.copytree(straight.agent, lamps := tmp_path / "old" / "milestones" / "01-lamps")
    os.utime(lamps / "config.json", (1, 1))
    assert starting_agent(STAGES["later"], config(), None, tmp_path)[1:] == (lamps, False)


def test_exams_on_other_recordings_are_held_again_before_they_are_compared(tmp_path):
    """Regression: the folder had the same path, so episodes of its old content were compared with those of the new."""
    data = tmp_path / "data"
    (data / "theo").mkdir(parents=True)
    (data / "theo" / "one.wav").write_bytes(b"a")
    first = runner.run_stage("lamps", config(), out=tmp_path / "lamps", data=data)
    for out, content, held in (("same", b"a", []), ("other", b"b", ["before"])):
        (data / "theo" / "one.wav").write_bytes(content)
        run = runner.run_stage("later", config(), out=tmp_path / out, agent=first.agent, data=data)
        exams = Journal(run.out / "journal.jsonl").events("exam")
        assert [event["when"] for event in exams] == [*held, "attempt 0", "attempt 0"]


def test_skill_of_which_nothing_was_measured_fails_with_a_reason(tmp_path, monkeypatch):
    """Regression: the stage failed without one, as where MiniGrid is not installed."""
    skipped = Gate([Threshold("absent", 0.5, when_absent="skip")])
    monkeypatch.setattr(Skill, "gate_in", lambda skill, context: skipped)
    result = runner.run_stage("lamps", config(), out=tmp_path / "run")
    assert json.loads(result.results.read_text())["verdict"] == {
        "passed": False, "reasons": ["lamps-lit: nothing that its gate asks was measured"]
    }  # fmt: skip


def test_stage_without_its_requirements_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("devmind.plugins.available", lambda group: STAGES)
    with pytest.raises(ConfigError, match=r"requires lamps first; .* run 'devmind stage run lamps --config tiny'"):
        runner.run_stage("later", config(), out=tmp_path / "nothing" / "later")


def test_failed_stage_is_repeated_as_often_as_requested(tmp_path):
    result = runner.run_stage("strict", config(attempts=2), out=tmp_path / "run")
    assert [e["attempt"] for e in Journal(result.out / "journal.jsonl").events("lesson_done")] == [0, 0, 1, 1]


class ForgettingStage(LampStage):
    """Fails by a gate that is out of reach; when repeated, it unlearns what it had reached."""

    def __init__(self):
        super().__init__(name="forgetting")
        gate = Gate([Threshold("forgetting-lit", 1.01), Threshold("forgetting-lit", 0.4, goal=True)])
        self.skills = (replace(self.skills[0], gate=gate),)

    def lessons(self, context):
        def turned(lesson):
            def learner(agent, context):
                made = lesson.make_learner(agent, context)

                def loss(agent, batch):
                    value, scalars = self.loss(agent, batch)
                    return (-value if made.steps < lesson.steps else value), scalars  # a repeat has half of the steps

                made.loss = loss
                return made

            return learner

        return [replace(lesson, make_learner=turned(lesson)) for lesson in super().lessons(context)]


def test_better_of_two_attempts_is_kept(tmp_path):
    once = runner.run_stage("forgetting", config(), out=tmp_path / "once")
    twice = runner.run_stage("forgetting", config(attempts=2), out=tmp_path / "twice")
    again = runner.run_stage("strict", config(attempts=2), out=tmp_path / "strict")
    assert weights(twice) == weights(once), "the repeat undid what the first attempt had learned"
    results = json.loads((twice.out / "reports/forgetting/results.json").read_text())
    assert (results["run"]["attempt"], results["run"]["attempts"]) == (0, 2)
    assert results["run"]["exam_sha256"] == [weights(twice)]
    first, last = Journal(twice.out / "journal.jsonl").events("exam")
    assert results["skills"][0]["measures"][0]["score"] == pytest.approx(first["scores"]["forgetting-lit"], abs=1e-4)
    assert first["scores"]["forgetting-lit"] > last["scores"]["forgetting-lit"] + 0.3
    assert "the first attempt is the best" in (twice.out / "reports/forgetting/report.html").read_text()
    kept = json.loads((again.out / "reports/lamps/results.json").read_text())["run"]
    assert (kept["attempt"], kept["attempts"]) == (1, 2), "of equals the later"


def test_loss_of_earlier_skills_counts_in_the_choice_of_an_attempt():
    def found(stage, *passed):
        decisions = tuple(Decision("m", 0.5, 0.6, one, "") for one in passed)
        return Examined(stage, LampStage().skills[0], {}, Verdict(all(passed), decisions))

    first = Outcome(examined=[found("earlier", True, True), found("own", True, False)])
    repeat = Outcome(examined=[found("earlier", False, False), found("own", True, False)], attempt=1)
    passed = Outcome(examined=[found("earlier", False, False), found("own", True)], attempt=1)
    assert repeat.reached("own") < first.reached("own") < passed.reached("own")


def test_choice_of_an_attempt_does_not_depend_on_a_stop(tmp_path, monkeypatch):
    write = Journal.write

    def stopping(self, event, **values):
        write(self, event, **values)
        if event == "progress" and values["attempt"] == 1 and values["lesson"] == "two" and values["step"] >= 3:
            raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(Journal, "write", stopping)
    with pytest.raises(Interrupted):
        runner.run_stage("forgetting", config(attempts=2, **OFTEN), out=tmp_path / "run")
    monkeypatch.setattr(Journal, "write", write)
    stopped = runner.run_stage("forgetting", config(attempts=2), out=tmp_path / "run")
    assert json.loads((stopped.out / "reports/forgetting/results.json").read_text())["run"]["attempt"] == 0
    assert weights(stopped) == weights(runner.run_stage("forgetting", config(), out=tmp_path / "once"))


def test_lessons_of_a_repeated_stage_begin_anew(tmp_path, monkeypatch):
    """Earlier lessons were repeated, too, so later ones start from their results again."""
    begun, begin = [], GradientLearner.begin

    def noting(self, step):
        begun.append((step, self.again))
        begin(self, step)

    monkeypatch.setattr(GradientLearner, "begin", noting)
    runner.run_stage("strict", config(attempts=2), out=tmp_path / "run")
    assert begun[-4:] == [(0, False)] * 4, "before them their pace is measured"


def test_unknown_lesson_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match="no lesson 'three'"):
        runner.run_stage("lamps", config(**{"lessons": {"three": {"steps": 2}}}), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_twin_has_a_fresh_trunk_and_the_same_lessons(tmp_path):
    result = runner.run_stage("lamps", config(), out=tmp_path / "run", ablate=True)
    ablation = json.loads(result.results.read_text())["ablation"]
    assert set(ablation["skills"]) == {"lamps-lit"}
    assert ablation["differences"]["lamps-lit"]["n"] == 64
    twin = Agent.from_pretrained(tmp_path / "run" / "twin" / "newborn")
    assert twin.sha256() != Agent.from_pretrained(tmp_path / "run" / "start").sha256()


def test_twin_has_the_steps_of_the_attempt_that_was_kept(tmp_path):
    """Regression: it also had those of a later attempt that was not kept."""
    for stage, kept, steps in (("forgetting", 0, 12), ("strict", 1, 18)):
        run = runner.run_stage(stage, config(attempts=2), out=tmp_path / stage, ablate=True)
        assert json.loads(run.results.read_text())["run"]["attempt"] == kept
        twin = Journal(run.out / "twin" / "run" / "journal.jsonl").events("lesson_done")
        assert {event["lesson"]: event["steps"] for event in twin} == {"one": steps, "two": steps}


def test_finished_run_gets_its_twin_and_stays_unchanged(tmp_path):
    both = runner.run_stage("lamps", config(), out=tmp_path / "both", ablate=True)
    before = runner.run_stage("lamps", config(), out=tmp_path / "run")
    assert json.loads(before.results.read_text())["ablation"] is None
    taught = len(list(Journal(tmp_path / "run" / "journal.jsonl").events("lesson_done", "exam")))
    after = runner.run_stage("lamps", config(), out=tmp_path / "run", ablate=True)
    assert not after.already_finished
    assert after.agent == before.agent
    assert len(list(Journal(tmp_path / "run" / "journal.jsonl").events("lesson_done", "exam"))) == taught
    found, wanted = (json.loads(one.results.read_text()) for one in (after, both))
    assert found["ablation"]["differences"] == wanted["ablation"]["differences"]
    assert found["run"]["agent_sha256"] == wanted["run"]["agent_sha256"]
    assert found["run"]["interruptions"] == 0
    for ablate in (True, False):
        assert runner.run_stage("lamps", config(), out=tmp_path / "run", ablate=ablate).already_finished


def test_finished_run_without_checkpoints_gets_no_twin(tmp_path):
    runner.run_stage("lamps", config(), out=tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(CheckpointError, match="its checkpoints are gone"):
        runner.run_stage("lamps", config(), out=tmp_path / "run", ablate=True)


def test_finished_curriculum_gets_its_twins(tmp_path):
    runner.Curriculum(["later"], config(), tmp_path / "c", command="first").run()
    runner.Curriculum(["later"], config(), tmp_path / "c", command="twins", ablate=True).run()
    for stage in ("lamps", "later"):
        assert json.loads((tmp_path / "c" / stage / "reports" / stage / "results.json").read_text())["ablation"]
    assert all(result.already_finished for result in runner.Curriculum.resume(tmp_path / "c"))
    often = config(
        **{"checkpoint.every": "9 s"}, loggers=("csv",)
    )  # Regression: only runs of single stages let these change
    assert all(result.already_finished for result in runner.Curriculum(["later"], often, tmp_path / "c").run())


def test_twin_takes_no_exam_of_an_earlier_stage(tmp_path):
    """Regression: it took each exam before and after its lessons, and nothing used the results."""
    runner.Curriculum(["later"], config(), tmp_path / "c", ablate=True).run()
    sat = list(Journal(tmp_path / "c" / "later" / "twin" / "run" / "journal.jsonl").events("exam"))
    assert [event["stage"] for event in sat] == ["later"]
    assert {event["stage"] for event in Journal(tmp_path / "c" / "later" / "journal.jsonl").events("exam")} >= {"later"}


def test_twin_is_no_milestone(tmp_path):
    """Regression: where only the twin passed, the next stage began with it."""
    own = runner.run_stage("lamps", config(), out=tmp_path / "run", ablate=True)
    assert newest_milestone(own.out / "twin", ["lamps"]) is None
    assert newest_milestone(tmp_path, ["lamps"]) == own.agent
    twin = Journal(tmp_path / "run" / "twin" / "run" / "journal.jsonl").last("finished")
    assert twin["passed"], "otherwise it would be none in any case"


@pytest.mark.parametrize(("same", "told"), [(True, "not above"), (False, "above")])
def test_gate_on_the_twin_is_decided_by_pairs_if_there_is_a_twin(tmp_path, monkeypatch, same, told):
    """The exam is easy, so the bound is reached; the cases differ in the twin's result."""
    found = stage_run.differences

    def compared(mine, theirs, resamples):
        assert set(mine) == set(theirs) == {"lamps-lit"}
        good = {name: replace(measure, values=np.ones(measure.n)) for name, measure in mine.items()}
        bad = {name: replace(measure, values=np.zeros(measure.n)) for name, measure in mine.items()}
        return found(good, good if same else bad, resamples)

    monkeypatch.setattr(stage_run, "differences", compared)
    reads = Gate([Threshold("lamps-lit", 0.0, beats_twin=True)])
    monkeypatch.setattr(Skill, "gate_in", lambda skill, context: reads)
    result = runner.run_stage("lamps", config(), out=tmp_path / "run", ablate=True)
    results = json.loads(result.results.read_text())
    [measure] = [measure for skill in results["skills"] for measure in skill["measures"]]
    assert measure["twin"] == told
    assert results["verdict"]["passed"] == measure["passed"] == (not same)
    assert measure["verdict"] == ("no better than its twin" if same else measure["verdict"])
    alone = runner.run_stage("lamps", config(), out=tmp_path / "alone")
    [measure] = [one for skill in json.loads(alone.results.read_text())["skills"] for one in skill["measures"]]
    assert (measure["twin"], measure["passed"]) == ("not asked", True)


def test_curriculum_follows_the_requirements_of_stages(tmp_path):
    done = runner.Curriculum(["later"], config(), tmp_path / "c").run()
    assert [result.agent.name for result in done] == ["01-lamps", "02-later"]
    again = runner.Curriculum.resume(tmp_path / "c")
    assert all(result.already_finished for result in again)
    assert runner.status(tmp_path / "c")["stages"]["later"]["state"] == "passed"


def test_curriculum_continues_from_another_folder_and_after_it_was_moved(tmp_path, monkeypatch):
    """Regression: it was refused, as the agent of the stage before was kept by the path that was typed."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)

    inherited = stage_run.StageRun._inherited

    def stop(self, earlier):
        if earlier:
            raise Interrupted(signal.SIGINT)
        return inherited(self, earlier)

    with monkeypatch.context() as patch:
        patch.setattr(stage_run.StageRun, "_inherited", stop)
        with pytest.raises(Interrupted):
            runner.Curriculum(["later"], config(), Path("c")).run()
    start = Journal(tmp_path / "c" / "later" / "journal.jsonl").last("start")
    assert start["agent"] == start["identity"]["agent"] == os.path.join("..", "lamps", "milestones", "01-lamps")
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "c").rename(tmp_path / "moved")
    done = runner.Curriculum.resume(Path("..", "moved"))
    assert [result.already_finished for result in done] == [True, False]
    begun = json.loads(done[1].results.read_text())["run"]["started_from"]
    assert begun == os.path.join("..", "moved", "lamps", "milestones", "01-lamps")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "moved").rename(tmp_path / "c")
    assert all(result.already_finished for result in runner.Curriculum(["later"], config(), Path("c")).run())


def test_curriculum_continues_after_its_recordings_were_moved(tmp_path, monkeypatch):
    """Regression: it was refused by their place, although a run pins their content."""
    (tmp_path / "data" / "theo").mkdir(parents=True)
    (tmp_path / "data" / "theo" / "one.wav").write_bytes(b"a")
    (tmp_path / "walk.mcap").write_bytes(b"b")
    given = {"data": tmp_path / "data", "sessions": [tmp_path / "walk.mcap"]}

    def stop(self, agent, earlier, attempt):
        raise Interrupted(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(stage_run.StageRun, "_examine", stop)
        with pytest.raises(Interrupted):
            runner.Curriculum(["lamps"], config(), tmp_path / "c", **given).run()
    (tmp_path / "moved").mkdir()
    for path in (given["data"], *given["sessions"]):
        path.rename(tmp_path / "moved" / path.name)
    moved = {"data": tmp_path / "moved" / "data", "sessions": [tmp_path / "moved" / "walk.mcap"]}
    assert [result.passed for result in runner.Curriculum(["lamps"], config(), tmp_path / "c", **moved).run()] == [True]
    kept = Journal(tmp_path / "c" / "curriculum.jsonl").last("plan")["data"]
    assert found_path(kept, tmp_path / "c") == moved["data"]
    assert all(result.already_finished for result in runner.Curriculum.resume(tmp_path / "c"))
    (moved["data"] / "theo" / "one.wav").write_bytes(b"other")
    with pytest.raises(ConfigError, match=r"settings: data was '.*', now '.*moved.data';"):
        runner.Curriculum(["lamps"], config(), tmp_path / "c", **moved).run()


RUN_SLOWLY = """
import sys, time
from pathlib import Path
from devmind.curriculum import runner, stage_run
from tests.curriculum import test_run
for module in (runner, stage_run):
    module.load_stage = test_run.STAGES.__getitem__
loss = test_run.LampStage.loss
test_run.LampStage.loss = lambda self, agent, batch: (time.sleep(0.1), loss(self, agent, batch))[1]
runner.run_stage("lamps", test_run.config(**test_run.OFTEN), out=Path(sys.argv[1]))
"""


@pytest.mark.slow
def test_process_killed_with_kill_9_resumes_to_the_same_weights(straight, tmp_path):
    out, root = tmp_path / "run", Path(__file__).parents[2]
    process = subprocess.Popen([sys.executable, "-c", RUN_SLOWLY, str(out)], cwd=root, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while (Journal(out / "journal.jsonl").last("checkpoint") or {}).get("lesson") != "two":
            assert process.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()
    finally:
        process.kill()
        process.wait()
    result = runner.run_stage("lamps", config(), out=out)
    assert weights(result) == weights(straight)
    same_scores(result, straight)


def test_sleep_record_of_an_agent_is_kept_through_a_stage(straight, tmp_path):
    slept = tmp_path / "slept"
    shutil.copytree(straight.agent, slept)
    reservoir = Reservoir(4, 0)
    reservoir.offer(range(10))
    save_state(slept, reservoir)
    later = runner.run_stage("later", config(), out=tmp_path / "later", agent=slept)
    assert load_state(later.agent).state_dict() == reservoir.state_dict()
