"""`devmind stage`, of one stage and of a childhood: arguments of the runner, output, and exit codes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from devmind import plugins
from devmind.cli import show
from devmind.cli import stage as stage_command
from devmind.config import RunConfig, load
from devmind.curriculum.finished import identity
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.journal import Journal
from devmind.curriculum.runner import in_order
from devmind.curriculum.start import load_stage
from devmind.errors import ExamError
from tests.report.conftest import fake_results

MEASURE = {
    "score": 0.971, "low": 0.958, "high": 0.981, "n": 400, "unit": "correct", "chance": 0.1, "floor": 0.91,
    "ceiling": 1.0, "gate": 0.95, "passed": True, "verdict": "passed", "beaten_by": None,
}  # fmt: skip


@dataclass
class Calls:
    """What the commands requested from the runner."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    passed: bool = True
    error: BaseException | None = None
    not_asked: list[str] = field(default_factory=list)

    def run_stage(self, stage: str, config: RunConfig, **options: Any) -> SimpleNamespace:
        self.runs.append({"stage": stage, "config": config, **options})
        if self.error:
            raise self.error
        return self.result()

    def result(self) -> SimpleNamespace:
        folder = Path("out")
        return SimpleNamespace(
            passed=self.passed, out=folder, results=folder / "results.json", report=folder / "report.html",
            agent=folder / "agent", already_finished=False,
        )  # fmt: skip

    def examine(self, stage: str, agent: Path, config: RunConfig, **options: Any) -> Mapping[str, Any]:
        self.runs.append({"stage": stage, "agent": agent, "config": config, **options})
        if self.error:
            raise self.error
        skills = {"see": MEASURE, "hear": {**MEASURE, "gate": None, "passed": None, "verdict": "not gated"}}
        return {"agent_sha256": "ab" * 32, "passed": self.passed, "skills": skills, "not_asked": self.not_asked}


@pytest.fixture
def calls(stand_in: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Calls:
    """A runner that only notes the requests."""
    calls = Calls()
    stand_in("devmind.curriculum.runner", run_stage=calls.run_stage, examine=calls.examine)
    monkeypatch.setattr(show, "verdict", lambda results, page: show.path("report", page))
    return calls


def test_run_passes_all_options_to_the_runner(devmind: Any, calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "config.json").touch()
    (tmp_path / "data").mkdir()
    (tmp_path / "walk one.mcap").touch()
    line = (
        "stage run reflex --agent agent --config tiny --minutes 2.5 --set exam.holdout=theo --set attempts=2 "
        "--data data --set seed=7 --out there --ablate --cut --experience"
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
        "cut": True,
        "command": f"devmind {line.replace(' --cut', '')} 'walk one.mcap'",
    }


def test_configuration_can_be_named_and_its_size_changed(devmind: Any, calls: Calls) -> None:
    devmind("stage", "run", "reflex", "--config", "child", "--set", "size=nursery")
    devmind("stage", "run", "reflex", "--config", "child")
    devmind("stage", "run", "reflex")
    assert [(run["config"].size, run["config"].precision) for run in calls.runs] == [
        ("nursery", "bf16-mixed"),
        ("child", "bf16-mixed"),
        ("nursery", "32-true"),
    ]


def test_exit_codes_distinguish_passed_failed_and_error(devmind: Any, calls: Calls) -> None:
    assert devmind("stage", "run", "reflex").exit_code == 0
    calls.passed = False
    assert devmind("stage", "run", "reflex").exit_code == 1
    calls.error = ExamError("Something does not fit.")
    result = devmind("stage", "run", "reflex")
    assert (result.exit_code, result.stderr) == (2, "Something does not fit.\n")


class StoppedError(Exception):
    """Like the runner's Interrupted."""

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number


@pytest.mark.parametrize(
    ("error", "code"), [(StoppedError(2), 130), (StoppedError(15), 143), (KeyboardInterrupt(), 130)]
)
def test_stopped_run_prints_how_to_resume(devmind: Any, calls: Calls, error: BaseException, code: int) -> None:
    calls.error = error
    for more in ((), ("--cut",)):
        result = devmind("stage", "run", "reflex", "--set", "seed=3", *more)
        assert result.exit_code == code
        assert result.stderr == (
            "Stopped; everything so far is saved, and the same command continues from there: "
            "devmind stage run reflex --set seed=3\n"
            "With --cut it continues with the next lesson, and the report says that this one was cut.\n"
        )


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf"])
def test_minutes_must_be_a_number_above_0(devmind: Any, calls: Calls, minutes: str) -> None:
    for command in (("stage", "run", "reflex"), ("stage", "run", "all")):
        result = devmind(*command, "--minutes", minutes)
        assert (result.exit_code, result.stderr) == (2, f"--minutes expects a number above 0; got {minutes}.\n")
    assert calls.runs == []


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
def test_mistyped_path_suggests_the_nearest(
    devmind: Any, calls: Calls, tmp_path: Path, words: list[str], sentence: str
) -> None:
    (tmp_path / "runs" / "milestones").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    (tmp_path / "walk.mcap").touch()
    result = devmind("stage", "run", "reflex", *words)
    assert (result.exit_code, result.stderr) == (2, f"{sentence}\n")
    assert calls.runs == []


def test_data_folder_without_known_files_is_reported(
    devmind: Any, calls: Calls, stand_in: Callable[..., None], tmp_path: Path
) -> None:
    stand_in(
        "devmind.curriculum.runner", run_stage=calls.run_stage, examine=calls.examine, Curriculum=Walk,
        every_stage=lambda agent: list(plugins.available("stages")),
    )  # fmt: skip
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "config.json").touch()
    (tmp_path / "data" / "pictures").mkdir(parents=True)
    (tmp_path / "data" / "pictures" / "digits.npz").touch()
    commands = (("stage", "run", "reflex"), ("stage", "exam", "reflex", "--agent", "agent"), ("stage", "run", "all"))
    for command in commands:
        result = devmind(*command, "--data", "data")
        assert result.stderr.removesuffix("loading takes some seconds\n") == (
            "Note: 'data' (--data) holds nothing that the packaged stages look for, which is pictures "
            "(images/*.npz), spoken digits (speech/*/{digit}_{speaker}_{take}.wav), "
            "sounds (sounds/{set}/{class}/*.wav), texts (text/*.txt), games (games/connect4/*.tsv), "
            "puzzles (puzzles/puzzle15.tsv); they continue as without --data.\n"
        ), command
    assert [run["data"] for run in calls.runs] == [Path("data")] * 2, "stages of others may find something there"
    (tmp_path / "data" / "pictures").rename(tmp_path / "data" / "images")
    for command in commands:
        assert "holds nothing" not in devmind(*command, "--data", "data").stderr, command


def test_exam_writes_scores_and_uses_the_size_of_the_agent(devmind: Any, calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "config.json").write_text('{"size": "tiny"}')
    result = devmind("stage", "exam", "reflex", "--agent", "agent", "--skill", "see", "--json", "scores.json")
    assert result.exit_code == 0
    assert "0.958 .. 0.981" in result.output
    assert "not gated" in result.output
    assert "Size tiny only tries the machinery: these scores mean nothing." in result.output
    written = json.loads((tmp_path / "scores.json").read_text())
    assert set(written) == {"agent_sha256", "passed", "skills"}
    assert written["skills"]["see"] == MEASURE
    assert (calls.runs[0]["config"].size, calls.runs[0]["skill"]) == ("tiny", "see")
    assert "not asked" not in result.output
    assert calls.runs[0]["config"].seed == 0


def test_exam_says_what_it_read_and_what_it_did_not_ask(
    devmind: Any, calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: `stage exam language --skill read` scored another text than the documented figure, without a word."""
    monkeypatch.setitem(MEASURE, "note", "without --data or text.files, the caregiver's sentences")
    monkeypatch.setattr(calls, "not_asked", ["hear_words/digits"])
    result = devmind("stage", "exam", "reflex", "--agent", "newborn", "--set", "seed=7")
    assert "see: without --data or text.files, the caregiver's sentences\n" in result.output
    assert "not asked, as they need --data, or an extra that is not installed: hear_words/digits" in result.output
    assert calls.runs[0]["config"].seed == 7
    (tmp_path / "data").mkdir()
    result = devmind("stage", "exam", "reflex", "--agent", "newborn", "--data", "data")
    assert "not asked, as they need an extra that is not installed: hear_words/digits" in result.output


def test_exam_marks_scores_below_those_of_a_rule(
    devmind: Any, calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "config.json").touch()
    monkeypatch.setitem(MEASURE, "beaten_by", "ridge")
    monkeypatch.setitem(MEASURE, "verdict", "passed, a rule does better")
    result = devmind("stage", "exam", "reflex", "--agent", "agent")
    assert "✓ passed, a rule does better: ridge" in " ".join(result.output.split())
    assert "mean nothing" not in result.output


def test_list_shows_what_a_stage_teaches_and_the_result_of_its_newest_run(devmind: Any, tmp_path: Path) -> None:
    assert "–" in devmind("stage", "show").output
    folder = tmp_path / "checkpoints" / "run" / "reports" / "reflex"
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(fake_results()))
    said = " ".join(devmind("stage", "show").output.split())
    assert "failed, size nursery" in said
    assert "Senses and reflexes, the first stage" in said
    assert "stages.reflex.stage" not in said
    (folder / "results.json").write_text("{")
    assert devmind("stage", "show").exit_code == 0, "a damaged file of one run hides no stage"


def test_exam_exit_code_follows_the_gate(devmind: Any, calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "config.json").touch()
    calls.passed = False
    assert devmind("stage", "exam", "reflex", "--agent", "agent").exit_code == 1
    calls.error = ExamError("No recordings were given.")
    result = devmind("stage", "exam", "reflex", "--agent", "agent", "--json", "scores.json")
    assert (result.exit_code, result.stderr) == (2, "loading takes some seconds\nNo recordings were given.\n")
    assert not (tmp_path / "scores.json").exists()


def test_exam_refuses_an_unwritable_file_before_examining(devmind: Any, calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "config.json").touch()
    result = devmind("stage", "exam", "reflex", "--agent", "agent", "--json", "agnt/scores.json")
    assert (result.exit_code, result.stderr) == (2, "There is no folder 'agnt' (--json); did you mean 'agent'?\n")
    assert devmind("stage", "exam", "reflex", "--agent", "agent", "--json", "agent").exit_code == 2
    assert calls.runs == []


def test_describe_shows_lessons_and_gates(devmind: Any, stand_in: Callable[..., None]) -> None:
    gate = Gate(
        [
            Threshold("hear", 0.9),
            Threshold("hear/late", 0.1, lower_is_better=True, beats_twin=True),
            Threshold("hear/speech", None, beats_floor=True, when_absent="skip"),
        ]
    )
    skill = SimpleNamespace(name="hear", about="unseen sounds", gate_in=lambda context: gate)
    lesson = SimpleNamespace(
        name="listen", minutes=2.5, steps=1200, skills=("hear",), settings=("batch", "learning_rate"), learners=()
    )
    stage = SimpleNamespace(name="ears", requires=("reflex",), skills=[skill], lessons=lambda context: [lesson])
    made = {"load_stage": lambda name: stage, "make_context": lambda config, *rest: SimpleNamespace(config=config)}
    stand_in("devmind.curriculum.start", **made)
    output = devmind("stage", "show", "reflex").output
    assert "ears: goes on after reflex" in output
    assert "Lessons at size nursery, 2.5 minutes in all" in output
    assert "Minutes of 2 cores of 100 GFLOP/s (float32); the steps are the same on every machine" in output
    mistyped = devmind("stage", "show", "reflex", "--set", "lessons.lisen.steps=3")
    assert (mistyped.exit_code, mistyped.stderr) == (2, "Stage 'ears' has no lesson 'lisen'; did you mean 'listen'?\n")
    larger = devmind("stage", "show", "reflex", "--config", "child").output
    assert "Lessons at size child; 'devmind stage run' measures how long they take" in larger
    assert "2.5" not in larger
    for text in (
        "listen",
        "1,200",
        "hear: at least 0.9",
        "hear/late: at most 0.1 and above its twin, if --ablate raises one",
        "hear/speech: better than its floor (with data)",
        "unseen sounds",
    ):
        assert text in output


def test_finished_run_is_reported_without_the_runner(devmind: Any, tmp_path: Path, calls: Calls) -> None:
    settings = load("tiny", {"size": "tiny"})
    for passed in (True, False):
        out = tmp_path / f"out-{passed}"
        out.mkdir()
        journal = Journal(out / "journal.jsonl")
        journal.write("start", identity=identity("reflex", settings, None, None, [], out))
        journal.write("finished", passed=passed, agent="milestones/01-reflex")
        for more in ((), ("--cut",)):
            again = devmind("stage", "run", "reflex", "--config", "tiny", "--out", out, *more)
            assert "This run had finished" in again.output
            assert "agent: out-" in again.output
            assert again.exit_code == (0 if passed else 1)
    other = devmind("stage", "run", "reflex", "--config", "tiny", "--set", "seed=9", "--out", out)
    assert (other.exit_code, "holds a run with other settings" in other.output) == (2, True)
    assert calls.runs == []
    devmind("stage", "run", "reflex", "--config", "tiny", "--out", out, "--ablate")
    assert [run["ablate"] for run in calls.runs] == [True], "its twin is left to do"


def test_list_shows_the_newest_run_of_a_stage(devmind: Any, tmp_path: Path) -> None:
    for number, passed in enumerate((False, True, False)):
        folder = tmp_path / "checkpoints" / f"run-{passed}" / "reports" / "reflex"
        folder.mkdir(parents=True, exist_ok=True)
        ended = fake_results()
        ended["verdict"]["passed"] = passed
        (folder / "results.json").write_text(json.dumps(ended))
        os.utime(folder / "results.json", (number, number))
        said = " ".join(devmind("stage", "show").output.split())
        assert f"reflex – {'passed' if passed else 'failed'}, size nursery" in said


def test_list_is_in_the_order_of_a_childhood_with_its_needs(devmind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    rows = [line.split()[:2] for line in devmind("stage", "show").output.splitlines()[2:] if line[:1].strip()]
    there = [name for name, _ in rows]
    assert there == in_order(there), "each stage stands after those that it needs"
    assert there[:2] == ["reflex", "memory"]
    assert dict(rows).items() >= {"reflex": "–", "memory": "reflex", "planning": "reasoning"}.items()
    assert {name: tuple(stage_command._needs(plugins.find("stages", name))) for name in there} == {
        name: tuple(load_stage(name).requires) for name in there
    }
    assert stage_command._as_in_a_childhood({"a": ("b",), "b": ("a",), "c": ("gone",)}) == ["c", "a", "b"]


def test_list_shows_the_package_of_a_stage(devmind: Any) -> None:
    output = devmind("stage", "show").output
    for plugin in plugins.available("stages").values():
        assert f"{plugin.distribution} {plugin.version}" in output


class Walk:
    """A curriculum that only notes the requests."""

    asked: tuple[Any, ...] = ()
    cut = False
    outcomes: Sequence[bool] = (True,)
    failed: Sequence[str] = ()
    """Gates that the last agent missed in half precision."""

    def __init__(self, stages: Sequence[str], config: RunConfig, out: Path, **options: Any) -> None:
        Walk.asked = (list(stages), config, out, options)

    def run(self, cut: bool = False) -> list[SimpleNamespace]:
        Walk.cut = cut
        out: Path = Walk.asked[2]
        out.mkdir(parents=True, exist_ok=True)
        half: dict[str, Any] = {"precision": "float16", "megabytes": 1.0, "agent_sha256": "ab", "failed": Walk.failed}
        half["gates"] = {"passed": 3 - len(Walk.failed), "of": 3}
        (out / "childhood.json").write_text(json.dumps({"saved": [half | {"gates": None}, half]}))
        return [Calls(passed=passed).result() for passed in Walk.outcomes]

    @classmethod
    def resume(cls, out: Path, cut: bool = False) -> list[SimpleNamespace]:
        return cls(["resumed"], RunConfig(), out).run(cut)


def test_curriculum_runs_all_stages_unless_some_are_named(
    devmind: Any, calls: Calls, stand_in: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in("devmind.curriculum.runner", Curriculum=Walk, every_stage=lambda agent: list(plugins.available("stages")))
    assert devmind("stage", "run", "all", "--config", "tiny", "--set", "seed=2").exit_code == 0
    stages, config, out, options = Walk.asked
    assert (stages, config.size) == (list(plugins.available("stages")), "tiny")
    assert out == Path("checkpoints/curriculum-tiny-seed2")
    assert options["command"] == "devmind stage run all --config tiny --set seed=2"
    monkeypatch.setattr(Walk, "outcomes", (True, False))
    assert devmind("stage", "run", "reflex", "memory", "--out", "there").exit_code == 1
    assert Walk.asked[0] == ["reflex", "memory"]
    assert devmind("stage", "run", "--out", "there").exit_code == 1
    assert (Walk.asked[0], Walk.cut) == (["resumed"], False)
    devmind("stage", "run", "--out", "there", "--cut")
    assert Walk.cut
    Walk.cut = False
    devmind("stage", "run", "reflex", "memory", "--cut", "--out", "there")
    assert (Walk.cut, Walk.asked[3]["command"]) == (True, "devmind stage run reflex memory --out there")
    assert (
        devmind("stage", "run", "--out", "thre").stderr == "There is no folder 'thre' (--out); did you mean 'there'?\n"
    )


def test_curriculum_fails_if_its_last_agent_misses_a_gate_in_half_precision(
    devmind: Any, calls: Calls, stand_in: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: the command ended with 0, as every stage had passed."""
    stand_in("devmind.curriculum.runner", Curriculum=Walk, every_stage=lambda agent: ["reflex"])
    passed = devmind("stage", "run", "reflex", "memory", "--out", "there")
    assert passed.exit_code == 0, passed.output
    assert "the last agent passes 3 of 3 gates in half precision\n" in passed.output
    monkeypatch.setattr(Walk, "failed", ("see", "hear"))
    failed = devmind("stage", "run", "--out", "there")
    assert failed.exit_code == 1
    assert "the last agent passes 1 of 3 gates in half precision; it missed see, hear\n" in failed.output


def test_curriculum_status_is_one_line_per_stage(devmind: Any, stand_in: Callable[..., None], tmp_path: Path) -> None:
    now = {
        "reflex": {"state": "passed", "agent": "there/reflex/agent"},
        "language": {"state": "teaching", "lesson": "read", "step": 1200, "of": 4000},
        "planning": {"state": "not begun"},
    }
    stand_in("devmind.curriculum.runner", status=lambda out: {"stages": now})
    (tmp_path / "curriculum.jsonl").touch()
    lines = devmind("report", tmp_path).output.splitlines()
    assert [line.split()[:2] for line in lines[2:]] == [
        ["reflex", "passed"],
        ["language", "teaching"],
        ["planning", "not"],
    ]
    assert "read, step 1,200 of 4,000" in lines[3]


@pytest.mark.parametrize("width", ["60", "80", "120"])
@pytest.mark.parametrize("stage", ["language", "planning", "reasoning"])
def test_words_of_descriptions_are_not_broken(
    devmind: Any, monkeypatch: pytest.MonkeyPatch, stage: str, width: str
) -> None:
    """In a pipe, as here, the width is COLUMNS or 80. Regression: the exam's column was one to six characters wide."""
    from devmind.curriculum.start import load_stage

    monkeypatch.setenv("COLUMNS", width)
    output = devmind("stage", "show", stage).output
    tables = output[output.index("\n\n", output.index("Minutes of")) :]
    assert max(map(len, tables.splitlines())) <= int(width)
    words = set(output.split())
    for skill in load_stage(stage).skills:
        assert set(skill.about.split()) <= words
