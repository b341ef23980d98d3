"""A study from its file to its report: shared runs, kills, frozen parts, and inconsistent files."""

from __future__ import annotations

import csv
import importlib
import io
import json
import os
import signal
import sys
from pathlib import Path

import pytest
import yaml

from devmind.agent.agent import Agent
from devmind.curriculum import runner, stage_run
from devmind.curriculum.journal import Journal
from devmind.curriculum.study import arms, course, gathering, run
from devmind.curriculum.study.arms import plan
from devmind.curriculum.study.file import load_study
from devmind.curriculum.study.gathering import close
from devmind.curriculum.study.run import StudyRun
from devmind.curriculum.teaching import Interrupted
from devmind.errors import ConfigError, ExamError
from tests.curriculum.lamp_stage import LampStage
from tests.curriculum.test_run import interrupt_at

STAGES = {
    "lamps": LampStage(),
    "later": LampStage(name="later", requires=("lamps",), lesson_names=("third",), steps=8),
}
FILE = {
    "question": "Does it help to have seen lamps?",
    "config": {"size": "tiny", "device": "cpu"},
    "stages": {"lamps": {"lessons": {"one": 6, "two": None}, "steps": 0.5}, "later": {}},
    "arms": {
        "staged": {"walk": ["lamps", "later"]},
        "fresh trunk": {"walk": ["lamps", "later"], "fresh": ["trunk"]},
        "newborn": {"walk": ["later"]},
        "long": {"walk": ["later"], "steps": "all"},
        "joint": {"walk": [["lamps", "later"]], "rounds": 2},
        "reversed": {"walk": ["later", "lamps"]},
    },
    "primary": {"arms": ["staged", "newborn"], "outcome": "later-lit"},
    "secondary": [
        {"arms": ["staged", "joint"], "outcome": "later-lit"},
        {"arms": ["staged", "fresh trunk"], "outcome": "later-lit"},
        {"arms": ["staged", "reversed"], "outcome": "lamps-lit"},
    ],
}


@pytest.fixture(autouse=True)
def own_stages(monkeypatch):
    patched(monkeypatch)


def patched(patch):
    for module in (runner, stage_run, arms, course, run):
        patch.setattr(module, "load_stage", STAGES.__getitem__)


def written(folder: Path, **changes: object) -> Path:
    path = folder / "lit.yaml"
    path.write_text(yaml.safe_dump(FILE | changes, sort_keys=False))
    return path


def study_of(folder: Path, seeds=(0, 1, 2), **changes: object) -> StudyRun:
    return StudyRun(load_study(written(folder, **changes)), seeds, folder / "out", "devmind study lit.yaml --seeds 0-2")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patched(patch)
        study = study_of(folder, (0, 1))
        study.run()
        return study, close(study)


def test_arms_share_one_run_for_equal_stages(made):
    study, _ = made
    shared = {name: legs[0] for name, legs in study.plan.arms.items() if len(legs) > 1}
    assert shared == {"staged": "lamps", "fresh trunk": "lamps", "reversed": "later"}
    assert study.plan.arms["newborn"] == ["later"]
    folders = {path.name for path in (study.out / "seed0").iterdir()}
    assert folders == set(study.plan.legs)
    for name in folders:
        journal = Journal(study.out / "seed0" / name / "journal.jsonl")
        assert sum(1 for _ in journal.events("start")) == sum(1 for _ in journal.events("finished")) == 1


def test_steps_follow_the_file_and_are_equal_in_compared_arms(made):
    study, report = made
    assert study.plan.legs["lamps"].steps == {"lamps": {"one": 6, "two": 6}}
    steps = {arm.name: (arm.steps, arm.stage_steps.get("later", 0)) for arm in report.arms}
    assert steps == {
        "staged": (20, 8), "fresh trunk": (20, 8), "newborn": (8, 8), "long": (20, 20), "joint": (20, 8),
        "reversed": (20, 8),
    }  # fmt: skip
    assert [one.equal for one in report.comparisons] == ["steps of later", "all steps", "all steps", "all steps"]
    for name, leg in study.plan.legs.items():
        lessons = list(Journal(study.out / "seed1" / name / "journal.jsonl").events("lesson_done"))
        assert sum(event["steps"] for event in lessons) == leg.total, name


def test_joint_lessons_alternate_in_rounds_and_show_the_same_batches(made):
    study, _ = made
    leg = next(leg for leg in study.plan.legs.values() if len(leg.stages) > 1)
    journal = Journal(study.folder(leg.name, 0) / "journal.jsonl")
    assert [event["lesson"] for event in journal.events("lesson_done")] == [
        "lamps one 1", "lamps two 1", "later third 1", "lamps one 2", "lamps two 2", "later third 2",
    ]  # fmt: skip
    context = arms.context_of(study.study)
    agent = Agent.from_pretrained(study.folder(leg.name, 0) / "agent")
    parts = [lesson for lesson in course.Course(leg, ()).lessons(context) if "one" in lesson.name]
    shown = [batch["lit"].tolist() for part in parts for batch in part.make_batches(agent, context, part.steps)]
    again = [part.make_learner(agent, context).again for part in parts]
    assert again == [False, True], "who prepares the agent at the beginning does so once"
    whole = STAGES["lamps"].lessons(context)[0]
    assert shown == [batch["lit"].tolist() for batch in whole.make_batches(agent, context, 6)]


def test_joint_lesson_trains_the_parts_of_its_own_stage(made):
    study, _ = made
    leg = next(leg for leg in study.plan.legs.values() if len(leg.stages) > 1)
    agent = Agent.from_pretrained(study.folder(leg.name, 0) / "agent")
    assert agent.config.stages == ["lamps", "later"]
    context = arms.context_of(study.study)
    first, *_, last = (lesson.make_learner(agent, context).trains for lesson in course.Course(leg, ()).lessons(context))
    assert "heads.lamps-lit." in first
    assert "heads.later-lit." not in first
    assert {"heads.later-lit.", "trunk."} <= set(last)
    assert agent.config.stages == ["lamps", "later"]


def test_joint_lesson_learns_at_the_rates_of_its_own_stage(made):
    study, _ = made
    leg = next(leg for leg in study.plan.legs.values() if len(leg.stages) > 1)
    agent = Agent.from_pretrained(study.folder(leg.name, 0) / "agent")
    first, *_ = course.Course(leg, ()).lessons(arms.context_of(study.study))
    learner = first.make_learner(agent, arms.context_of(study.study))
    mine = {id(parameter) for parameter in agent.head("lamps-lit").parameters()}
    rates = {group["rate"] for group in learner.groups({}) if mine & {id(one) for one in group["params"]}}
    assert rates == {learner.learning_rate}, "not those of an earlier stage's heads"


def test_fresh_trunk_differs_from_the_trained_and_the_initial_trunk(made):
    study, _ = made
    taught, fresh, newborn = (
        Agent.from_pretrained(study.folder(leg, 0) / folder).state_dict()
        for leg, folder in (("lamps", "agent"), (study.plan.arms["fresh trunk"][-1], "begun"), ("later", "start"))
    )
    for name in (name for name in taught if name.startswith("trunk.") and name.endswith(".q_proj.weight")):
        assert not fresh[name].equal(taught[name])
        assert not fresh[name].equal(newborn[name])
    assert all(fresh[name].equal(taught[name]) for name in taught if name.startswith("heads."))


def test_runs_of_a_study_are_no_milestones(made):
    assert not list(made[0].out.glob("**/milestones"))


def test_study_examines_only_outcomes_at_the_end_of_an_arm(made):
    study, _ = made
    exams = {
        name: [event["skill"] for event in Journal(study.folder(name, 0) / "journal.jsonl").events("exam")]
        for name in study.plan.legs
    }
    assert exams["lamps"] == []
    assert exams["lamps-later"] == ["later-lit", "lamps-lit"]


def test_skill_with_two_outcomes_is_examined_once(tmp_path):
    asked = [FILE["primary"] | {"outcome": f"later-lit/{part}"} for part in ("seen", "heard")]
    made = plan(load_study(written(tmp_path, primary=asked[0], secondary=asked[1:])))
    assert [skill.name for skill in made.examined(made.legs["later"])] == ["later-lit"]


def test_report_has_every_value_and_follows_from_the_runs(made):
    study, report = made
    rows = list(csv.DictReader(io.StringIO((study.out / "outcomes.csv").read_text())))
    assert len(rows) == 6 * 2 * 2
    one = next(r for r in rows if (r["arm"], r["seed"], r["outcome"]) == ("staged", "1", "later-lit"))
    results = json.loads((study.folder("lamps-later", 1) / "reports/later/results.json").read_text())
    scores = {m["name"]: m["score"] for skill in results["skills"] for m in skill["measures"]}
    assert float(one["value"]) == scores["later-lit"]
    values = {(r["arm"], r["seed"]): float(r["value"]) for r in rows if r["outcome"] == "later-lit"}
    mean = sum(values["staged", s] - values["newborn", s] for s in "01") / 2
    assert report.primary.difference == pytest.approx(mean)
    assert report.primary.p_holm is None
    assert all(other.p_holm >= other.p for other in report.comparisons[1:])
    page, latex = (study.out / "study.html").read_text(), (study.out / "study.tex").read_text()
    assert study.study.sha256 in page
    assert latex.count(r"\begin{tabular}") == 2
    assert any("A pilot" in doubt for doubt in report.doubts)


def test_study_may_change_a_lesson_of_one_of_its_stages(tmp_path):
    """Regression: legs of the other stages were refused, as they have no such lesson."""
    changed = FILE["config"] | {"lessons": {"two": {"batch": 4}}}
    arms_ = {name: FILE["arms"][name] for name in ("newborn", "staged")}
    study = study_of(tmp_path, config=changed, arms=arms_, secondary=[])
    assert set(study.run_seed(0)) == {"lamps", "lamps-later", "later"}


def test_finished_study_does_nothing_when_run_again(made):
    study, report = made
    before = sorted((p, p.stat().st_mtime_ns) for p in study.out.rglob("*"))
    assert close(study) == report
    assert sorted((p, p.stat().st_mtime_ns) for p in study.out.rglob("*")) == before


def test_study_killed_while_its_report_is_written_is_not_finished(made, monkeypatch):
    """Regression: with study.json, but without its page, it counted as finished."""
    study, _ = made
    page, gathered = study.out / gathering.PAGE, study.out / gathering.GATHERED
    finished = gathered.read_bytes()
    page.unlink()
    gathered.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(gathering, "render", lambda report: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            close(study)
    close(study)
    assert page.is_file()
    gathered.write_bytes(finished)


TWO = {"arms": {name: FILE["arms"][name] for name in ("staged", "newborn")}, "secondary": []}
OFTEN = {"config": FILE["config"] | {"checkpoint": {"every": "1 step"}}}


def test_killed_study_resumes_to_the_same_values(tmp_path, monkeypatch):
    straight = study_of(tmp_path, (0, 1), **TWO)
    straight.out = tmp_path / "straight"
    straight.run()
    killed = study_of(tmp_path, (0, 1), **TWO, **OFTEN)
    interrupt_at(monkeypatch, ("third", 5), lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Interrupted):
        killed.run()
    monkeypatch.undo()
    patched(monkeypatch)
    first = (killed.folder("lamps", 0) / "journal.jsonl").read_bytes()
    again = study_of(tmp_path, (0, 1), **TWO, **OFTEN)
    again.run()
    assert (killed.folder("lamps", 0) / "journal.jsonl").read_bytes() == first, "a finished run was touched"
    assert sum(1 for _ in Journal(killed.folder("lamps-later", 0) / "journal.jsonl").events("resumed")) == 1
    assert close(again).values == close(straight).values


@pytest.mark.parametrize("changed", ["file", "code", "gates", "seeds"])
def test_study_is_not_continued_if_a_frozen_part_has_changed(tmp_path, monkeypatch, changed):
    study_of(tmp_path).freeze()
    told = {"file": "The file of study 'lit'", "code": "The code", "gates": "The gates", "seeds": "The seeds"}[changed]
    if changed == "code":
        monkeypatch.setattr(run, "code_sha256", lambda stages: "0" * 64)
    if changed == "gates":
        strict = STAGES | {"later": LampStage(0.95, ("third",), 8, "later", ("lamps",))}
        for module in (runner, stage_run, arms, course, run):
            monkeypatch.setattr(module, "load_stage", strict.__getitem__)
    later = study_of(
        tmp_path, (0, 1) if changed == "seeds" else (0, 1, 2), **({"question": "Another?"} if changed == "file" else {})
    )
    with pytest.raises(ConfigError, match=told):
        later.freeze()


def test_code_of_a_plugin_stage_is_its_whole_package_or_its_one_file(tmp_path, monkeypatch):
    """Regression: the folder of the stage's file counted: no worlds beside it, or all of site-packages."""
    (tmp_path / "lab" / "stages").mkdir(parents=True)
    for name in ("lab/__init__.py", "lab/world.py", "lab/stages/__init__.py", "lab/stages/walk.py", "alone.py"):
        (tmp_path / name).write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    for module, home in {
        "lab.stages.walk": tmp_path / "lab",
        "lab": tmp_path / "lab",
        "alone": tmp_path / "alone.py",
    }.items():
        importlib.import_module(module)
        assert run._home(module) == home
    importlib.import_module("stages.reflex.stage")
    assert run._home("stages.reflex.stage").name == "reflex", "those of devmind by themselves"
    for module in ("lab", "lab.stages", "lab.stages.walk", "alone"):
        monkeypatch.delitem(sys.modules, module)


def test_code_hash_covers_all_sources_of_devmind_and_the_stages(tmp_path, monkeypatch):
    package = tmp_path / "own"
    package.mkdir()
    (package / "one.py").write_text("A = 1\n")
    monkeypatch.setattr(run, "__file__", str(package / "curriculum" / "study" / "run.py"))
    before = run.code_sha256(["lamps"])
    (package / "deep").mkdir()
    (package / "deep" / "two.py").write_text("B = 1\n")
    with_two = run.code_sha256(["lamps"])
    (package / "one.py").write_text("A = 2\n")
    assert len({before, with_two, run.code_sha256(["lamps"])}) == 3


ARMS = FILE["arms"]
PRIMARY = FILE["primary"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"primary": PRIMARY | {"arms": ["staged", "newbon"]}}, "the arm 'newbon', but there is none"),
        ({"primary": PRIMARY | {"arms": ["staged", "staged"]}}, "with itself"),
        ({"primary": {"arms": ["staged", "newborn"]}}, "'primary.outcome' is missing"),
        ({"primary": PRIMARY | {"outcome": "latr-lit"}}, "measures the outcome 'latr-lit'"),
        ({"arms": ARMS | {"odd": {"walk": ["lamp"]}}}, "walks 'lamp', which is not under `stages`"),
        ({"arms": ARMS | {"odd": {"walk": ["lamps", "lamps"]}}}, "walks a stage twice"),
        ({"arms": ARMS | {"odd": {"walk": ["lamps"], "fresh": ["trunk"]}}}, "before its only stage"),
        ({"arms": ARMS | {"odd": {"walk": ["lamps"], "fresh": ["head"]}}}, "arms.odd.fresh.0"),
        ({"arms": ARMS | {"odd": {"walks": ["lamps"]}}}, "no configuration key 'arms.odd.walks'"),
        ({"stages": FILE["stages"] | {"later": {"lessons": {"fourth": 2}}}}, "no lesson 'fourth'"),
        ({"stages": FILE["stages"] | {"later": {"lessons": {}}}}, "names no lesson"),
        ({"config": {"seed": 3}}, "no 'seed'; give --seeds"),
        ({"config": {"minutes": 3}}, "no 'minutes'"),
        ({"config": {"lessons": {"one": {"steps": 2}}}}, "write them under `stages`"),
        ({"config": {"lessons": {"tow": {"batch": 4}}}}, "'lamps' or 'later' has no lesson 'tow'; did you mean 'two'"),
        ({"config": {"sice": "tiny"}}, "no configuration key 'sice'; did you mean 'size'"),
        ({"primary": PRIMARY | {"arms": ["joint", "newborn"], "outcome": "lamps-lit"}}, "equal steps neither"),
    ],
)
def test_inconsistent_study_file_is_refused_with_a_clear_error(tmp_path, changes, sentence):
    with pytest.raises(ConfigError, match=sentence):
        plan(load_study(written(tmp_path, **changes)))


def test_one_seed_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="at least two seeds"):
        study_of(tmp_path, (7,))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["[1, 2]", "a: [", "\x00"])
def test_file_that_is_no_study_is_refused_with_a_clear_error(tmp_path, text):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"study '.*bad\.yaml'"):
        load_study(tmp_path / "bad.yaml")
    with pytest.raises(ConfigError, match=r"no study 'reflex-memroy'.*reflex-memory"):
        load_study("reflex-memroy")


def test_failed_process_ends_the_study_after_the_parallel_ones() -> None:
    wait = [sys.executable, "-c", "import time; time.sleep(0.5)"]
    with pytest.raises(ExamError, match="exit code 3"):
        run._beside_each_other([[sys.executable, "-c", "raise SystemExit(3)"], wait, wait], 2)
    with pytest.raises(ExamError, match="exit code 3"):
        run._beside_each_other([[sys.executable, "-c", "raise SystemExit(3)"]] * 2, 2)
    run._beside_each_other([wait, wait], 2)


def test_unreadable_study_is_not_reported_as_broken(tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text("arms: {}")

    def refused(self, *how):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr("pathlib.Path.open", refused)
    with pytest.raises(ConfigError, match=r"mine.yaml' may not be read; change its permissions\.$"):
        load_study(tmp_path / "mine.yaml")
