"""Exams of a run: held once, saved whole, and repeated if the saved result cannot be trusted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from devmind.curriculum import childhood, run_exams, runner, stage_run
from devmind.curriculum.exam import Exam, Exhibit, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.journal import Journal
from tests.curriculum.lamp_stage import LampStage
from tests.curriculum.test_run import Killed, config, interrupt_at

STAGES = {"lamps": LampStage(), "later": LampStage(name="later", requires=("lamps",), lesson_names=("third",))}
RICH = Measure(
    "see/shape",
    "correct",
    np.array([0.1, 1.0, 1 / 3]),
    chance=0.25,
    ceiling=1.0,
    floors={"colour": np.float64(0.3)},
    higher_is_better=False,
    reference="others: 0.5",
    note="a note",
    exhibits=(
        Exhibit("failure", "a ball", png=b"\x89PNG", labels=("first", "last")),
        Exhibit("example", "a tone", wav=b"RIFF"),
    ),
    rows={"sight off": np.float64(0.2)},
    answered={"pan": {"reach": np.int64(3)}},  # type: ignore[dict-item]
)


@pytest.fixture(autouse=True)
def own_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (runner, stage_run, childhood):
        monkeypatch.setattr(module, "load_stage", STAGES.__getitem__)
    monkeypatch.setattr(childhood, "_in_new_process", runner.examine_childhood)  # another process has no lamps stage


def held(run: Path) -> list[tuple[str, str, str]]:
    return [(e["when"], e["stage"], e["skill"]) for e in Journal(run / "journal.jsonl").events("exam")]


def killed_behind_its_exams(tmp_path: Path) -> Path:
    """A run of a second stage that was killed after all its exams."""

    def die() -> None:
        raise Killed

    first = runner.run_stage("lamps", config(), out=tmp_path / "lamps")
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(patch, ("finished", 0), die)
        with pytest.raises(Killed):
            runner.run_stage("later", config(), out=tmp_path / "later", agent=first.agent)
    return tmp_path / "later"


def skills(result: stage_run.RunResult) -> object:
    return json.loads(result.results.read_text())["skills"]


def go_on(run: Path) -> stage_run.RunResult:
    return runner.run_stage("later", config(), out=run, agent=run.parent / "lamps" / "milestones" / "01-lamps")


def test_resumed_run_repeats_no_exam(tmp_path: Path) -> None:
    run = killed_behind_its_exams(tmp_path)
    before = held(run)
    assert before == [  # those of lamps before the stage come from its own run
        ("attempt 0", "lamps", "lamps-lit"),
        ("attempt 0", "later", "later-lit"),
    ]
    result = go_on(run)
    assert held(run) == before
    straight = runner.run_stage(
        "later", config(), out=tmp_path / "straight", agent=tmp_path / "lamps" / "milestones" / "01-lamps"
    )
    assert skills(result) == skills(straight)
    assert result.passed == straight.passed


def test_a_run_counts_its_looks_at_data_of_another_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lamps = STAGES["lamps"]

    def also_elsewhere(examine: object) -> object:
        def held(agent: object, context: object) -> Exam:
            own = examine(agent, context).in_full()[0]  # type: ignore[operator]
            return Exam([own, replace(own, name="lamps-lit/elsewhere")])

        return held

    hard = Gate([Threshold("lamps-lit", 2.0)])
    skills = [replace(skill, examine=also_elsewhere(skill.examine), gate=hard) for skill in lamps.skills]
    monkeypatch.setattr(lamps, "skills", skills)
    runner.run_stage("lamps", config(attempts=2), out=tmp_path / "lamps")
    looks = [event["looks"] for event in Journal(tmp_path / "lamps" / "journal.jsonl").events("exam")]
    assert looks == [{"lamps-lit/elsewhere": 1}, {"lamps-lit/elsewhere": 2}]


def test_later_stages_skip_an_exam_that_gives_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lamps = STAGES["lamps"]
    monkeypatch.setattr(lamps, "skills", [replace(skill, unretained="It takes a night.") for skill in lamps.skills])
    run = killed_behind_its_exams(tmp_path)
    assert held(run) == [("attempt 0", "later", "later-lit")]
    assert ("attempt 0", "lamps", "lamps-lit") in held(tmp_path / "lamps"), "its own stage does"
    assert go_on(run).passed


def test_exam_of_a_skill_with_a_slash_lies_beside_the_others() -> None:
    """Regression: it lay a folder deeper, so the comparison with a twin left it out."""
    assert run_exams._name("attempt 0", "lamps", "see/left") == "attempt-0-lamps-see+left"


def test_damaged_exam_is_repeated(tmp_path: Path) -> None:
    run = killed_behind_its_exams(tmp_path)
    tensors = run / run_exams.FOLDER / "attempt-0-later-later-lit" / "tensors.safetensors"
    data = bytearray(tensors.read_bytes())
    data[-1] ^= 1
    tensors.write_bytes(bytes(data))
    go_on(run)
    assert held(run)[2:] == [("attempt 0", "later", "later-lit")]


def test_saved_measures_load_whole_and_only_for_the_same_weights(tmp_path: Path) -> None:
    run_exams.save(tmp_path / "see", "abc", {RICH.name: RICH})
    assert run_exams.load(tmp_path / "see", "abd") is None
    assert run_exams.load(tmp_path / "other", "abc") is None
    back = run_exams.load(tmp_path / "see", "abc")
    assert back is not None
    measure = back["see/shape"]
    np.testing.assert_array_equal(measure.values, RICH.values)
    assert measure.values.dtype == np.float64
    for name in ("unit", "chance", "ceiling", "floors", "rate", "higher_is_better", "reference", "note", "exhibits"):
        assert getattr(measure, name) == getattr(RICH, name), name
    assert measure.rows == RICH.rows
    assert measure.answered == RICH.answered
    assert measure.interval() == RICH.interval()
