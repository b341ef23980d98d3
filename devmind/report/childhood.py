"""A childhood's report: the results of all stages and the exams of the last agent, on one page beside theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from devmind import bounds
from devmind.config import TRIAL_SIZES
from devmind.errors import DevmindError
from devmind.report import words
from devmind.report.page import environment, failures, resource
from devmind.report.results import Ablation, Matrix, Part, Results, RetentionResult, Untouched

SCHEMA, FILE = 1, "childhood.json"
MOST_MEGABYTES: Mapping[str, float] = {"float32": 32.0, "float16": 16.0}
"""The largest size on disk of the last milestone, by precision, at size nursery."""
GATES_WANTED = 0.9
"""Share of all gates that the last milestone should pass, saved and loaded again."""
EXAMS_WANTED = 1 / 3
"""The largest share of its lessons' time that a stage's own exams should take."""


class Gates(Part):
    """The number of thresholds that decide (no goals), and of those that were passed."""

    passed: int
    of: int

    @property
    def share(self) -> float:
        """The share passed; 1 if there are none."""
        return self.passed / self.of if self.of else 1.0


class StageReport(Part):
    """One stage of a childhood, from its results.json."""

    stage: str
    about: str = ""
    passed: bool
    repeated: bool = Field(description="it failed a gate and was taught again, at half its steps")
    reasons: list[str] = Field(description="a sentence for each gate that was failed and each skill that was not kept")
    gates: Gates = Field(description="of its own skills")
    lessons_s: float
    exams_s: float = Field(description="of its own skills")
    retention_s: float = Field(description="exams of the stages before")
    peak_memory_mb: float = Field(description="of the process so far, when the stage ended")
    trunk_moved: float | None
    retention: list[RetentionResult]
    untouched: Untouched | None = None
    ablation: Ablation | None
    agent_sha256: str
    exam_sha256: list[str] = Field(description="of every agent that sat the stage's last exams: one, its own")
    interruptions: int
    report: str = Field(description="the stage's own page, relative to this one")


class Saved(Part):
    """The last milestone, as saved in one precision."""

    precision: Literal["float32", "float16"]
    megabytes: float
    agent_sha256: str
    gates: Gates | None = Field(description="of all stages, examined in a new process; null: not examined")
    seconds: float = Field(0.0, description="of these exams")
    failed: list[str] = Field(
        default_factory=list, description="measures whose gate was failed, and skills of which nothing was measured"
    )
    folder: str = ""


def last_exams(folder: Path) -> Saved:
    """The last agent in half precision and its exams, by the `childhood.json` of the childhood in `folder`.

    Raises:
        DevmindError: the file is missing or damaged.
    """
    sentence = f"'{folder / FILE}' is no report of a childhood ({{}}); let the childhood end once more."
    found = bounds.parse_json(bounds.read_file(folder / FILE, DevmindError), DevmindError, sentence)
    with bounds.damage(DevmindError, sentence):
        return Saved.model_validate(found["saved"][-1])


class Added(Part):
    """What a stage added to the stage before, in skill scores (0 is chance, 1 the ceiling)."""

    stage: str
    new: dict[str, float]
    change: dict[str, float] = Field(description="of what was there before, by skill")

    @property
    def mean_new(self) -> float | None:
        """Mean of the new skills' scores."""
        return sum(self.new.values()) / len(self.new) if self.new else None

    @property
    def mean_change(self) -> float | None:
        """Mean change of the earlier scores."""
        return sum(self.change.values()) / len(self.change) if self.change else None


class Childhood(Part):
    """childhood.json: everything that its page shows."""

    schema_version: Literal[1] = Field(alias="schema")
    command: str
    seed: int
    size: str
    machine: str
    started: str
    finished: str
    commit: str | None
    versions: dict[str, str]
    parameters: int
    stages: list[StageReport]
    matrix: Matrix | None
    saved: list[Saved]

    @property
    def is_trial(self) -> bool:
        """Whether the scores of a run of this size mean nothing."""
        return self.size in TRIAL_SIZES

    @property
    def passed(self) -> bool:
        """Whether every stage passed, and enough gates in the last exams."""
        examined = [saved.gates.share >= GATES_WANTED for saved in self.saved if saved.gates]
        return all(stage.passed for stage in self.stages) and all(examined)

    @property
    def lessons_s(self) -> float:
        """Seconds of the lessons of all stages."""
        return sum(stage.lessons_s for stage in self.stages)

    @property
    def exams_s(self) -> float:
        """Seconds of the exams of all stages, including retention and the last milestone's."""
        every = sum(stage.exams_s + stage.retention_s for stage in self.stages)
        return every + sum(saved.seconds for saved in self.saved)

    @property
    def added(self) -> list[Added]:
        """What each stage added, from the matrix."""
        return skills_added(self.matrix) if self.matrix else []


def gather(results: Sequence[Results], pages: Sequence[str], saved: Sequence[Saved], command: str) -> Childhood:
    """A childhood's report from the results of its stages, in the order in which they were taught.

    Args:
        pages: paths of the stages' pages, relative to the folder of the childhood's page.
    """
    first, last = results[0].run, results[-1].run
    return Childhood(
        command=command,
        seed=last.seed,
        size=last.size,
        machine=words.machine(last.device, last.cores, last.threads, [s for one in results for s in one.run.gflops]),
        started=first.started,
        finished=last.finished,
        commit=last.commit,
        versions=last.versions,
        parameters=last.parameters,
        stages=[_stage(one, page) for one, page in zip(results, pages, strict=True)],
        matrix=results[-1].matrix,
        saved=list(saved),
        **{"schema": SCHEMA},
    )


def _stage(results: Results, page: str) -> StageReport:
    own = results.cost.exams.get(results.stage, 0.0)
    every = sum(results.cost.exams.values())
    decided = [
        measure.passed
        for skill in results.skills
        if skill.stage in (None, results.stage)
        for measure in skill.measures
        if measure.passed is not None and not measure.goal
    ]
    return StageReport(
        stage=results.stage,
        about=results.about,
        passed=results.verdict.passed,
        repeated=any(lesson.name.endswith("(again)") for lesson in results.lessons),
        reasons=[reason for reason, _ in failures(results)],
        gates=Gates(passed=sum(decided), of=len(decided)),
        lessons_s=sum(lesson.seconds for lesson in results.lessons),
        exams_s=own,
        retention_s=every - own,
        peak_memory_mb=results.cost.peak_memory_mb,
        trunk_moved=results.trunk_moved,
        retention=results.retention,
        untouched=results.untouched,
        ablation=results.ablation,
        agent_sha256=results.run.agent_sha256,
        exam_sha256=results.run.exam_sha256,
        interruptions=results.run.interruptions,
        report=page,
    )


def skills_added(matrix: Matrix) -> list[Added]:
    """The new skills of each row of the matrix, and the changes of the others since the row before."""
    found, before = [], dict[str, float]()
    for stage, row in zip(matrix.stages, matrix.rows, strict=True):
        now = {skill: score for skill, score in zip(matrix.skills, row, strict=True) if score is not None}
        new = {skill: score for skill, score in now.items() if skill not in before}
        change = {skill: score - before[skill] for skill, score in now.items() if skill in before}
        found.append(Added(stage=stage, new=new, change=change))
        before |= now
    return found


def render(childhood: Childhood | Mapping[str, Any]) -> str:
    """The page of a childhood: no script, no outside address, everything escaped."""
    data = childhood if isinstance(childhood, Childhood) else Childhood.model_validate(childhood)
    return (
        environment()
        .get_template("childhood.html.j2")
        .render(
            childhood=data,
            style=resource("page.css"),
            added=data.added,
            most_megabytes=MOST_MEGABYTES,
            gates_wanted=GATES_WANTED,
            exams_wanted=EXAMS_WANTED,
        )
    )
