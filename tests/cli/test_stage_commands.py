"""`devmind stage` and `devmind curriculum`: what reaches the runner, what is printed, and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from devmind import plugins
from devmind.cli import show
from devmind.config import RunConfig
from devmind.curriculum.gate import Gate, Threshold
from devmind.errors import ExamError

MEASURE = {
    "score": 0.971, "low": 0.958, "high": 0.981, "n": 400, "unit": "correct", "chance": 0.1, "floor": 0.91,
    "ceiling": 1.0, "gate": 0.95, "passed": True,
}  # fmt: skip


@dataclass
class Calls:
    """What the commands asked of the runner."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    passed: bool = True
    already: bool = False
    error: BaseException | None = None

    def run_stage(self, stage: str, config: RunConfig, **options: Any) -> SimpleNamespace:
        self.runs.append({"stage": stage, "config": config, **options})
        if self.error:
            raise self.error
        return self.result()

    def result(self) -> SimpleNamespace:
        folder = Path("out")
        return SimpleNamespace(
            passed=self.passed, out=folder, results=folder / "results.json", report=folder / "report.html",
            agent=folder / "agent", already_finished=self.already,
        )  # fmt: skip

    def examine(self, stage: str, agent: Path, config: RunConfig, **options: Any) -> Mapping[str, Any]:
        self.runs.append({"stage": stage, "agent": agent, "config": config, **options})
        if self.error:
            raise self.error
        skills = {"see": MEASURE, "hear": {**MEASURE, "gate": None, "passed": None}}
        return {"agent_sha256": "ab" * 32, "passed": self.passed, "skills": skills}


@pytest.fixture
def calls(stand_in: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Calls:
    """A runner that only remembers what it was asked."""
    calls = Calls()
    stand_in("devmind.curriculum.runner", run_stage=calls.run_stage, examine=calls.examine)
    monkeypatch.setattr(show, "verdict", lambda results, page: show.path("report", page))
    return calls


def test_run_hands_everything_to_the_runner(devmind: Any, calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "walk one.mcap").touch()
    line = (
        "stage run reflex --agent agent --size tiny --minutes 2.5 --set exam.holdout=theo --set attempts=2 --data data "
        "--seed 7 --out there --ablate --experience"
    )
    result = devmind(*line.split(), "walk one.mcap")
    assert result.exit_code == 0
    assert "report: out/report.html" in result.output
    assert "agent: out/agent" in result.output
    run = calls.runs[0]
    config = run.pop("config")
    assert (config.size, config.seed, config.minutes, config.attempts) == ("tiny", 7, 2.5, 2)
    assert config.exam.holdout == "theo"
    assert config.exam.episodes_scale == 0.1, "a size brings its own configuration"
    assert run == {
        "stage": "reflex",
        "out": Path("there"),
        "agent": Path("agent"),
        "data": Path("data"),
        "sessions": [Path("walk one.mcap")],
        "ablate": True,
        "command": f"devmind {line} 'walk one.mcap'",
    }


def test_a_configuration_may_be_named_and_the_size_changed(devmind: Any, calls: Calls) -> None:
    devmind("stage", "run", "reflex", "--config", "child", "--size", "nursery")
    devmind("stage", "run", "reflex", "--size", "child")
    devmind("stage", "run", "reflex")
    assert [(run["config"].size, run["config"].precision) for run in calls.runs] == [
        ("nursery", "bf16-mixed"),
        ("child", "bf16-mixed"),
        ("nursery", "32-true"),
    ]


def test_exit_codes_tell_passed_failed_and_error_apart(devmind: Any, calls: Calls) -> None:
    assert devmind("stage", "run", "reflex").exit_code == 0
    calls.passed = False
    assert devmind("stage", "run", "reflex").exit_code == 1
    calls.error = ExamError("Something does not fit.")
    result = devmind("stage", "run", "reflex")
    assert (result.exit_code, result.stderr) == (2, "Something does not fit.\n")


def test_a_finished_run_says_so(devmind: Any, calls: Calls) -> None:
    calls.already = True
    assert "This run had finished; nothing was done." in devmind("stage", "run", "reflex").output


class StoppedError(Exception):
    """As the runner's Interrupted."""

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number


@pytest.mark.parametrize(
    ("error", "code"), [(StoppedError(2), 130), (StoppedError(15), 143), (KeyboardInterrupt(), 130)]
)
def test_a_stopped_run_says_how_to_go_on(devmind: Any, calls: Calls, error: BaseException, code: int) -> None:
    calls.error = error
    result = devmind("stage", "run", "reflex", "--seed", "3")
    assert result.exit_code == code
    assert result.stderr == (
        "Stopped; everything so far is saved, and the same command goes on from there: "
        "devmind stage run reflex --seed 3\n"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--agent", "runs/milestone"],
            "There is no folder 'runs/milestone' (--agent); did you mean 'runs/milestones'?",
        ),
        (["--agent", "rums/milestones"], "There is no folder 'rums/milestones' (--agent); did you mean 'runs'?"),
        (["--agent", "walk.mcap"], "--agent expects a folder, and 'walk.mcap' is a file."),
        (["--data", "dat"], "There is no folder 'dat' (--data); did you mean 'data'?"),
        (["--experience", "wlk.mcap"], "There is no file 'wlk.mcap' (--experience); did you mean 'walk.mcap'?"),
        (["--experience", "data"], "--experience expects a file, and 'data' is a folder."),
        (["--data", "data/sub"], "There is no folder 'data/sub' (--data); there is no folder in 'data'."),
    ],
)
def test_a_mistyped_path_names_the_nearest(
    devmind: Any, calls: Calls, tmp_path: Path, words: list[str], sentence: str
) -> None:
    (tmp_path / "runs" / "milestones").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    (tmp_path / "walk.mcap").touch()
    result = devmind("stage", "run", "reflex", *words)
    assert (result.exit_code, result.stderr) == (2, f"{sentence}\n")
    assert calls.runs == []


def test_exam_writes_the_scores_and_uses_the_agents_own_size(devmind: Any, calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "config.json").write_text('{"size": "tiny"}')
    result = devmind("stage", "exam", "reflex", "--agent", "agent", "--skill", "see", "--json", "scores.json")
    assert result.exit_code == 0
    assert "0.958 .. 0.981" in result.output
    assert "not gated" in result.output
    written = json.loads((tmp_path / "scores.json").read_text())
    assert set(written) == {"agent_sha256", "skills"}
    assert written["skills"]["see"] == MEASURE
    assert (calls.runs[0]["config"].size, calls.runs[0]["skill"]) == ("tiny", "see")


def test_exam_exit_codes(devmind: Any, calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    calls.passed = False
    assert devmind("stage", "exam", "reflex", "--agent", "agent").exit_code == 1
    calls.error = ExamError("No recordings were given.")
    result = devmind("stage", "exam", "reflex", "--agent", "agent", "--json", "scores.json")
    assert (result.exit_code, result.stderr) == (2, "No recordings were given.\n")
    assert not (tmp_path / "scores.json").exists()


def test_exam_refuses_a_file_it_could_not_write_before_it_examines(devmind: Any, calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    result = devmind("stage", "exam", "reflex", "--agent", "agent", "--json", "agnt/scores.json")
    assert (result.exit_code, result.stderr) == (2, "There is no folder 'agnt' (--json); did you mean 'agent'?\n")
    assert devmind("stage", "exam", "reflex", "--agent", "agent", "--json", "agent").exit_code == 2
    assert calls.runs == []


def test_describe_shows_lessons_and_gates(devmind: Any, stand_in: Callable[..., None]) -> None:
    gate = Gate([Threshold("hear", 0.9), Threshold("hear/speech", None, beats_floor=True, when_absent="skip")])
    skill = SimpleNamespace(name="hear", about="unseen sounds", gate_in=lambda context: gate)
    lesson = SimpleNamespace(name="listen", minutes=2.5, steps=1200, skills=("hear",))
    stage = SimpleNamespace(name="ears", requires=("reflex",), skills=[skill], lessons=lambda context: [lesson])
    made = {"load_stage": lambda name: stage, "make_context": lambda config, *rest: SimpleNamespace(config=config)}
    stand_in("devmind.curriculum.start", **made)
    output = devmind("stage", "describe", "reflex", "--size", "child").output
    assert "ears, after reflex" in output
    assert "Lessons at size child, 2.5 minutes in all" in output
    for text in ("listen", "1,200", "hear: 0.9", "hear/speech: its floor (with data)", "unseen sounds"):
        assert text in output


def test_list_shows_where_a_stage_comes_from(devmind: Any) -> None:
    output = devmind("stage", "list").output
    for plugin in plugins.available("stages").values():
        assert f"{plugin.distribution} {plugin.version}" in output


class Walk:
    """A curriculum that only remembers what it was asked."""

    asked: tuple[Any, ...] = ()
    outcomes: Sequence[bool] = (True,)

    def __init__(self, stages: Sequence[str], config: RunConfig, out: Path, **options: Any) -> None:
        Walk.asked = (list(stages), config, out, options)

    def run(self) -> list[SimpleNamespace]:
        return [Calls(passed=passed).result() for passed in Walk.outcomes]

    @classmethod
    def resume(cls, out: Path) -> list[SimpleNamespace]:
        return cls(["resumed"], RunConfig(), out).run()


def test_curriculum_walks_all_stages_unless_some_are_named(
    devmind: Any, calls: Calls, stand_in: Callable[..., None], tmp_path: Path
) -> None:
    stand_in("devmind.curriculum.runner", Curriculum=Walk)
    assert devmind("curriculum", "run", "--size", "tiny", "--seed", "2").exit_code == 0
    stages, config, out, options = Walk.asked
    assert (stages, config.size) == (list(plugins.available("stages")), "tiny")
    assert out == Path("checkpoints/curriculum-tiny-seed2")
    assert options["command"] == "devmind curriculum run --size tiny --seed 2"
    Walk.outcomes = (True, False)
    assert devmind("curriculum", "run", "reflex", "--out", "there").exit_code == 1
    assert Walk.asked[0] == ["reflex"]
    (tmp_path / "there").mkdir()
    assert devmind("curriculum", "resume", "there").exit_code == 1
    assert Walk.asked[0] == ["resumed"]
    assert devmind("curriculum", "resume", "thre").stderr == "There is no folder 'thre' (OUT); did you mean 'there'?\n"


def test_curriculum_status_is_one_line_a_stage(devmind: Any, stand_in: Callable[..., None], tmp_path: Path) -> None:
    now = {
        "reflex": {"state": "passed", "agent": "there/reflex/agent"},
        "language": {"state": "teaching", "lesson": "read", "step": 1200, "of": 4000},
        "planning": {"state": "not begun"},
    }
    stand_in("devmind.curriculum.runner", status=lambda out: {"stages": now})
    lines = devmind("curriculum", "status", tmp_path).output.splitlines()
    assert [line.split()[:2] for line in lines[2:]] == [
        ["reflex", "passed"],
        ["language", "teaching"],
        ["planning", "not"],
    ]
    assert "read, step 1,200 of 4,000" in lines[3]
