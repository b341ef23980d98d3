"""The content of results.json, the only source of the report's page and of the terminal's table: a run writes these
classes, and reports read them.

`results.schema.json` beside this file is made from these classes. Unknown keys are ignored, so that an extra key never
costs a report; a missing or mistyped key is an error.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from devmind import bounds
from devmind.config import TRIAL_SIZES
from devmind.errors import DevmindError
from devmind.report.words import number

SCHEMA = 1
LAYERS_PASS = "layers pass"
"""The name of the row with the trunk's layers made to pass everything through (`curriculum.pass_through`)."""
RUNS = ("devmind stage run ", "devmind curriculum run")
"""Commands that take --ablate."""


class Part(BaseModel):
    """A part of results.json."""

    model_config = ConfigDict(extra="ignore", frozen=True, from_attributes=True)


class Verdict(Part):
    """The gates' verdict on the whole stage."""

    passed: bool
    reasons: list[str] = Field(description="one sentence for each decision, passed ones included")


class Run(Part):
    """What the numbers depend on, and how to reproduce them."""

    command: str = Field(description="repeats the run")
    seed: int
    size: str
    started: str = Field(description="ISO 8601")
    finished: str = Field(description="ISO 8601")
    versions: dict[str, str]
    commit: str | None = Field(None, description="git commit of the code; null if it was no checkout")
    threads: int
    device: str
    cores: int | None = None
    gflops: list[float] = Field(
        default_factory=list, description="float32 GFLOP/s of a core (or of a device that is no CPU), at each start"
    )
    changes: dict[str, tuple[Any, Any]] = Field(description="configuration key: [default, value]")
    agent_sha256: str
    exam_sha256: list[str] = Field(
        default_factory=list, description="SHA-256 of the agents that took the last exams: one"
    )
    parameters: int
    started_from: str | None = Field(description="folder of the agent that the run began with; null for a newborn")
    predecessor_failed: bool = Field(description="that agent had failed its gate")
    interruptions: int
    attempt: int = Field(0, description="which attempt at the stage this is; 0 is the first")
    attempts: int = Field(1, description="how often the stage was taught; the best attempt is kept")

    @property
    def attempt_said(self) -> str:
        """Which of several attempts was kept; '' if there was one."""
        if self.attempts == 1:
            return ""
        which = "the first" if self.attempt == 0 else "the last" if self.attempt + 1 == self.attempts else "another"
        return f"the stage was taught {self.attempts} times; {which} attempt is the best and was kept"

    @property
    def is_trial(self) -> bool:
        """Whether the scores of a run of this size mean nothing."""
        return self.size in TRIAL_SIZES


class LessonResult(Part):
    """The result of one lesson."""

    name: str
    steps: int = Field(description="steps planned, rehearsals not counted")
    done: int = Field(description="steps made, rehearsals not counted")
    seconds: float
    status: Literal["done", "cut"] = Field(description="cut: the user continued with the next lesson")
    steps_per_s: float
    share: dict[str, float] = Field(default_factory=dict, description="share of the time by activity")
    rehearsals: int = Field(0, description="updates on batches of earlier lessons, among the steps")
    rehearsal_share: float = Field(0.0, description="of the lesson's time, measured")
    trained: dict[str, int] = Field(
        default_factory=dict, description="how many numbers of each part of the agent its learner may change"
    )
    unrehearsed: str = Field("", description="why later stages do not rehearse it; empty if they do")
    compared: str = Field("", description="measurements against another way to teach the same; else empty")


def _as_base64(data: Any) -> Any:
    return base64.b64encode(data).decode() if isinstance(data, bytes) else data or None


Encoded = Annotated[str | None, BeforeValidator(_as_base64)]
"""A picture or a sound as base64; an exam gives bytes."""


class Exhibit(Part):
    """A picture or a sound of one episode."""

    kind: Literal["example", "failure"]
    caption: str
    labels: list[str] = Field(default_factory=list, description="what each picture of a strip shows, left to right")
    png: Encoded = Field(None, description="base64")
    wav: Encoded = Field(None, description="base64")


VerdictWord = Literal[
    "passed", "passed, a rule does better", "no better than its twin", "failed", "goal missed", "not gated"
]


class TrunkRow(Part):
    """What the trunk's layers carry of a measure: a part of its exam held again with layers that pass everything
    through; only the verdict where no trunk is in its path."""

    verdict: Literal["needs the layers", "as good without", "not in its path", "undecided"]
    whole: float | None = Field(None, description="score of the agent as it is, on these episodes")
    passing: float | None = Field(None, description="score with layers that pass everything through")
    gained: float | None = Field(None, description="by how much the layers make it better; above 0 is better")
    low: float | None = Field(None, description="bounds of the 95 % interval, paired by episode")
    high: float | None = None
    n: int | None = Field(None, description="different episodes")


class MeasureResult(Part):
    """One measured ability and what its gate says of it; all values in its unit.

    The only form in which a measure is written: `curriculum.examining` makes it of the exam's values, the journal notes
    some of its fields, results.json has them all, and the report reads them.
    """

    name: str
    unit: str
    score: float
    low: float = Field(description="lower bound of the 95 % interval")
    high: float = Field(description="upper bound of the 95 % interval")
    n: int = Field(description="episodes, copies included")
    distinct: int | None = Field(None, description="different episodes, on which the interval is based")
    exhaustive: bool = Field(False, description="every possible case was measured: no interval")
    chance: float
    floor: float = Field(description="the best trivial method")
    floors: dict[str, float] = Field(default_factory=dict)
    beaten_by: str | None = Field(
        None, description="the floor that is better than the score's bound; null if there is none"
    )
    ceiling: float
    reference: str = ""
    gate: float | None = Field(description="the required bound; null if not gated")
    goal: bool = Field(False, description="the bound is a goal, which decides nothing")
    passed: bool | None
    verdict: VerdictWord | None = Field(None, description="the verdict in words; null: of an older devmind")
    twin: Literal["above", "not above", "not asked"] | None = Field(
        None, description="where the gate reads the twin of --ablate: whether the agent is above it; null: it does not"
    )
    reason: str
    higher_is_better: bool = True
    note: str = ""
    rows: dict[str, float] = Field(default_factory=dict, description="the score under a change, such as 'sight off'")
    exhibits: list[Exhibit] = Field(default_factory=list)
    trunk: TrunkRow | None = Field(None, description="null: not asked, as of an older devmind")

    @property
    def said(self) -> str:
        """The verdict in words, also of older results; equal on the console, in the report and in `devmind watch`."""
        if self.verdict is not None:
            return self.verdict
        if self.passed is None:
            return "not gated" if self.gate is None else "goal missed"
        return "failed" if not self.passed else "passed, a rule does better" if self.beaten_by else "passed"

    @property
    def counted(self) -> str:
        """The number of episodes, and of different ones if these are fewer: '400 (2 different)'."""
        if self.exhaustive:
            return f"all {self.n:,}"
        fewer = self.distinct is not None and self.distinct < self.n
        return f"{self.n:,} ({self.distinct:,} different)" if fewer else f"{self.n:,}"


class SkillResult(Part):
    """A skill's measures and its gate's verdict."""

    skill: str
    stage: str | None = Field(None, description="null: the report's own stage")
    about: str = ""
    in_life: str = Field(
        "", description="whether its exam can be asked in life, else why not; '' from an older devmind"
    )
    passed: bool
    verdict: VerdictWord | None = Field(None, description="the verdict in words; null: of an older devmind")
    measures: list[MeasureResult]


class RetentionResult(Part):
    """Change of an earlier skill's score on the same exam seeds."""

    skill: str
    change: float
    low: float
    kept: bool


class Untouched(Part):
    """What was found equal to the bit after a stage that changed nothing which earlier stages use."""

    tensors: int = Field(description="all earlier tensors")
    lessons: int = Field(description="lessons of earlier stages whose losses on some batches were compared")

    @property
    def said(self) -> str:
        """The finding as a sentence."""
        return (
            f"Nothing that earlier stages use was changed: all {self.tensors:,} earlier tensors and the losses of "
            f"{self.lessons} earlier lessons are equal to the bit. So the earlier exams were not repeated."
        )


class Matrix(Part):
    """Skill scores after each stage: 0 is chance, 1 the ceiling."""

    stages: list[str]
    skills: list[str]
    rows: list[list[float | None]]


class Curve(Part):
    """One logged number; three lists of equal length."""

    step: list[int]
    seconds: list[float]
    value: list[float]


class Difference(Part):
    """How much the agent is better than its twin, on the same episodes."""

    gained: float
    low: float = Field(description="bounds of the 95 % interval, by a paired bootstrap")
    high: float
    n: int
    significant: bool = Field(description="the lower bound is above zero")

    @property
    def said(self) -> str:
        """The difference in words, with interval and n."""
        sure = "significant" if self.significant else "not significant"
        return (
            f"{number(self.gained, True)} [{number(self.low, True)}, {number(self.high, True)}], n = {self.n:,}, {sure}"
        )


class Ablation(Part):
    """The twin's scores by measure."""

    skills: dict[str, float]
    title: str = "What staging bought"
    note: str = ""
    differences: dict[str, Difference] = Field(default_factory=dict)


class Cost(Part):
    """The stage's time, memory and parameters."""

    seconds: float
    peak_memory_mb: float
    parameters: int
    parts: dict[str, int] = Field(description="parameters by part")
    share: dict[str, float] = Field(description="time by activity, seconds or shares")
    exams: dict[str, float] = Field(default_factory=dict, description="seconds of exams, by the stage of the skills")
    passing: float = Field(0.0, description="of these, seconds of asking what the trunk's layers carry")
    busy: dict[str, float] = Field(
        default_factory=dict,
        description="share of the lessons' time in which the device learned, the host summed, the disk wrote",
    )


class Results(Part):
    """results.json."""

    schema_version: Literal[1] = Field(alias="schema")
    stage: str
    about: str = Field("", description="what the stage teaches, one sentence")
    verdict: Verdict
    run: Run
    lessons: list[LessonResult]
    skills: list[SkillResult]
    matrix: Matrix | None = None
    curves: dict[str, Curve] = Field(default_factory=dict)
    cost: Cost
    arcs: dict[str, dict[str, int]] = Field(default_factory=dict, description="effector: how often each head answered")
    retention: list[RetentionResult] = Field(default_factory=list)
    trunk_moved: float | None = Field(None, description="distance of the trunk's weights over their norm")
    untouched: Untouched | None = Field(
        None, description="null: exams of earlier stages were repeated, if there are any"
    )
    ablation: Ablation | None = None

    @property
    def text(self) -> str:
        """The file's content; what was not set is left out."""
        return json.dumps(self.model_dump(by_alias=True, exclude_unset=True), indent=1)

    @property
    def asked_of_the_trunk(self) -> list[MeasureResult]:
        """The measures with a gate or a goal, if it was asked of any what the trunk's layers carry of it."""
        gated = [one for skill in self.skills for one in skill.measures if one.gate is not None]
        return gated if any(one.trunk for one in gated) else []

    @property
    def twin_command(self) -> str:
        """The command that gives this run its twin: the run's own, with `--ablate`."""
        own = self.run.command
        return f"{own if own.startswith(RUNS) else f'devmind stage run {self.stage}'} --ablate"


def validate(values: Results | Mapping[str, Any]) -> Results:
    """Results made of plain values.

    Raises:
        DevmindError: something is missing or wrong, or a newer devmind wrote them; the message says what.
    """
    if isinstance(values, Mapping):
        version = values.get("schema")
        if isinstance(version, int) and version > SCHEMA:
            raise DevmindError(f"These results have schema {version}, this devmind reads {SCHEMA}; update devmind.")
    try:
        return Results.model_validate(values)
    except ValidationError as error:
        wrong = "; ".join(f"'{'.'.join(map(str, item['loc']))}': {item['msg']}" for item in error.errors()[:3])
        raise DevmindError(f"These are not results of a stage: {wrong}. Give an unedited results.json.") from None


def load(path: Path) -> Results:
    """Read results.json.

    Raises:
        DevmindError: the file is absent, is not JSON, or does not hold results.
    """
    data = bounds.read_file(Path(path), DevmindError)
    return validate(bounds.parse_json(data, DevmindError, f"{path} is not JSON ({{}}); give an unedited results.json."))


def schema_text() -> str:
    """The JSON schema of results.json, as shipped in `results.schema.json`."""
    return json.dumps(Results.model_json_schema(by_alias=True), indent=1) + "\n"
