"""A stage that changes no earlier part: the exams of earlier stages are skipped then, and only then."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from devmind.agent.agent import Agent
from devmind.curriculum import childhood, runner, stage_run
from devmind.curriculum.journal import Journal
from devmind.curriculum.stage import Context, Lesson
from devmind.curriculum.untouched import find_untouched
from devmind.learners.gradient import GradientLearner, grown_layers, owned_parts
from devmind.report.results import load
from devmind.testing import tiny_agent, tiny_context
from tests.curriculum.lamp_stage import LampStage
from tests.curriculum.test_run import config


class ApartStage(LampStage):
    """Lamps named by a head on a sense of its own: no part of an earlier stage is trained."""

    def __init__(self, name: str = "apart", requires: Sequence[str] = ("lamps",)) -> None:
        super().__init__(name=name, requires=tuple(requires), lesson_names=("third",), steps=30)

    def admit(self, agent: Agent) -> None:
        if f"{self.name}-lit" not in agent.heads:
            options: dict[str, Any] = {"classes": 3, "hidden": 32}
            for name in (f"{self.name}-lit", f"{self.name}-deep"):
                agent.add_head(name, "head.categorical", tap="body", stage=self.name, options=options)

    def lessons(self, context: Context) -> list[Lesson]:
        def learner(agent: Agent, context: Context) -> GradientLearner:
            trains = owned_parts(agent, self.name)
            return GradientLearner(agent, self.loss, seed=context.seed, learning_rate=2e-2, trains=trains)

        (lesson,) = super().lessons(context)
        return [Lesson(lesson.name, learner, lesson.make_batches, lesson.steps, 1.0)]


LAMPS, APART = LampStage(), ApartStage()
STAGES = {"lamps": LAMPS, "apart": APART, "last": LampStage(name="last", requires=("apart",), lesson_names=("fourth",))}


@pytest.fixture(autouse=True)
def own_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (runner, stage_run, childhood):
        monkeypatch.setattr(module, "load_stage", STAGES.__getitem__)


def exams(run: Path) -> list[tuple[str, str]]:
    return [(e["when"], e["stage"]) for e in Journal(run / "journal.jsonl").events("exam")]


def test_untouched_stages_take_no_exam_again_and_keep_their_results(tmp_path: Path) -> None:
    first = runner.run_stage("lamps", config(), out=tmp_path / "lamps")
    second = runner.run_stage("apart", config(), out=tmp_path / "apart", agent=first.agent)
    assert exams(second.out) == [("attempt 0", "apart")]
    results = json.loads(second.results.read_text())
    there = {name for name in Agent.from_pretrained(second.agent).state_dict() if not name.startswith("heads.apart-")}
    assert results["untouched"] == {"tensors": len(there), "lessons": 2}
    assert results["retention"] == [{"skill": "lamps/lamps-lit", "change": 0.0, "low": 0.0, "kept": True}]
    assert [one["skill"] for one in results["skills"]] == ["lamps-lit", "apart-lit"]
    # The next stage finds the results there, as if this run had held the exams.
    third = runner.run_stage("last", config(), out=tmp_path / "last", agent=second.agent)
    assert exams(third.out) == [("attempt 0", name) for name in ("lamps", "apart", "last")]
    results = json.loads(third.results.read_text())
    assert results["untouched"] is None
    assert [row["skill"] for row in results["retention"]] == ["lamps/lamps-lit", "apart/apart-lit"]


def test_last_exams_of_untouched_stages_are_those_of_their_own_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(childhood, "_in_new_process", runner.examine_childhood)
    out = tmp_path / "c"
    runner.Curriculum(["apart"], config(), out).run()
    assert not list(Journal(out / "half" / "exams.jsonl").events("exam"))
    last = json.loads((out / "half" / "results.json").read_text())["skills"]
    own = [
        json.loads((out / name / "reports" / name / "results.json").read_text())["skills"]
        for name in STAGES
        if name != "last"
    ]
    assert last == [own[0][0], own[1][1]]
    verdict = json.loads((out / "half" / "verdict.json").read_text())
    assert verdict["gates"] == {"passed": 2, "of": 2}


def test_untouched_stages_without_known_results_take_no_exam_either(tmp_path: Path) -> None:
    first = runner.run_stage("lamps", config(), out=tmp_path / "lamps")
    second = runner.run_stage("apart", config(seed=1), out=tmp_path / "apart", agent=first.agent)
    assert exams(second.out) == [("attempt 0", "apart")], "of another seed"
    old, results = json.loads(first.results.read_text()), json.loads(second.results.read_text())
    assert results["retention"] == []
    # Regression: they were left out, and a life asks only heads on the trunk that have passed an exam.
    assert [skill["skill"] for skill in results["skills"]] == ["lamps-lit", "apart-lit"]
    assert results["skills"][0] == old["skills"][0]
    assert results["matrix"]["rows"][1][0] == results["matrix"]["rows"][0][0] == old["matrix"]["rows"][0][0]
    assert load(second.results).untouched


def changed(agent: Agent) -> None:
    with torch.no_grad():
        next(p for name, p in agent.named_parameters() if name.startswith("heads.lamps-lit")).view(-1)[0] += 1e-6


def answers_too(agent: Agent) -> None:
    for name, stage in (("points", "lamps"), ("points_too", "apart")):
        tap, options = "trunk" if stage == "lamps" else "body", {"classes": 3}
        agent.add_head(name, "head.categorical", tap=tap, stage=stage, effector="point", options=options)


def stands_by(agent: Agent) -> None:
    for name, stage in (("points", "lamps"), ("points_too", "apart")):
        tap, options = "trunk" if stage == "lamps" else "body", {"classes": 3}
        agent.add_head(
            name, "head.categorical", tap=tap, stage=stage, effector="point", options=options, standby=stage == "apart"
        )


@pytest.mark.parametrize(
    ("before", "behind", "same"),
    [
        (None, None, True),
        (stands_by, None, True),
        (None, changed, False),
        (None, lambda agent: agent.set_window(2), False),
        (answers_too, None, False),
    ],
)
def test_untouched_detects_each_kind_of_change(
    before: Callable[[Agent], None] | None, behind: Callable[[Agent], None] | None, same: bool, tmp_path: Path
) -> None:
    def made(*changes: Callable[[Agent], None] | None) -> Agent:
        agent = tiny_agent()
        for stage in (LAMPS, APART):
            stage.admit(agent)
        agent.config.stages = ["lamps", "apart"]
        for change in changes:
            if change:
                change(agent)
        return agent

    found = find_untouched(made(before), made(before, behind), APART, [LAMPS], tiny_context(tmp_path))
    assert (found is not None) == same


def test_new_layers_in_the_path_of_an_earlier_head_count_as_a_change(tmp_path: Path) -> None:
    """All earlier parts are equal, but an earlier head gets other input."""
    given, agent = tiny_agent(), tiny_agent()
    for one in (given, agent):
        LAMPS.admit(one)
    APART.admit(agent)
    agent.grow(1, "apart")
    assert find_untouched(given, agent, APART, [LAMPS], tiny_context(tmp_path)), "layers that say nothing yet"
    with torch.no_grad():
        for name, parameter in agent.named_parameters():
            if name.startswith(grown_layers(agent, {"apart"})):
                parameter.add_(0.1)
    assert find_untouched(given, agent, APART, [LAMPS], tiny_context(tmp_path)) is None


def test_repeated_stage_counts_as_a_change_for_later_stages(tmp_path: Path) -> None:
    given, agent = tiny_agent(), tiny_agent()
    for one in (given, agent):
        for stage in (LAMPS, APART):
            stage.admit(one)
    with torch.no_grad():
        next(p for name, p in agent.named_parameters() if name.startswith("heads.apart-lit")).view(-1)[0] += 1e-6
    assert find_untouched(given, agent, APART, [LAMPS], tiny_context(tmp_path)) is None


def test_standby_head_answers_only_if_it_is_named() -> None:
    agent = tiny_agent()
    LAMPS.admit(agent)
    stands_by(agent)
    assert agent.heads_of("point") == ["points"]
    assert agent.heads_of("point", standby=True) == ["points_too", "points"]
