"""A study's report: its arms over seeds, comparisons and detectable differences, as a page, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from devmind.config import TRIAL_SIZES
from devmind.report.page import environment, resource
from devmind.report.results import MeasureResult, Part
from devmind.report.words import count, number

SCHEMA = 1
TUNED_BELOW = 100
"""Settings were tuned on seeds below this one."""

Answer = Literal["better", "worse", "no difference shown"]


class SeedValue(Part):
    """One outcome of one arm with one seed, as its run's exam measured it."""

    arm: str
    seed: int
    outcome: str
    value: float
    low: float
    high: float
    n: int = Field(description="different episodes")
    chance: float
    floor: float
    ceiling: float
    gate: float | None
    passed: bool | None
    unit: str
    higher_is_better: bool = True


class ArmOutcome(Part):
    """One outcome of one arm over all seeds."""

    outcome: str
    mean: float
    iqm: float = Field(description="interquartile mean over seeds")
    low: float = Field(description="bounds of its 95 % bootstrap interval over seeds, with percentiles for few seeds")
    high: float
    chance: float
    floor: float
    ceiling: float
    gate: float | None
    passed: int = Field(description="seeds whose gate was passed")
    unit: str
    higher_is_better: bool = True
    seeds: list[float]

    @property
    def bar(self) -> MeasureResult:
        """The outcome as a measure, for drawing."""
        return MeasureResult(
            name=self.outcome, unit=self.unit, score=self.iqm, low=self.low, high=self.high, n=len(self.seeds),
            chance=self.chance, floor=self.floor, ceiling=self.ceiling, gate=self.gate, passed=None, reason="",
            higher_is_better=self.higher_is_better,
        )  # fmt: skip

    @property
    def room(self) -> str:
        """Why a difference could hardly show in this arm; '' if the interval lies between chance and ceiling.

        The floor does not matter here: a hand-written rule may do better than all arms and hide no difference.
        """
        worst, best = (self.low, self.high) if self.higher_is_better else (-self.high, -self.low)
        sign = 1 if self.higher_is_better else -1
        if worst <= sign * self.chance:
            return "not above chance"
        return "at its ceiling" if best >= sign * self.ceiling else ""


class ArmReport(Part):
    """One way to raise an agent."""

    name: str
    walk: str
    steps: int = Field(description="of all its lessons")
    stage_steps: dict[str, int]
    rehearsals: int = Field(description="updates on earlier lessons' batches, over all seeds")
    seconds: float = Field(description="lessons and exams, mean over seeds")
    outcomes: list[ArmOutcome]


class ComparisonReport(Part):
    """The first arm against the second."""

    arms: tuple[str, str]
    outcome: str
    primary: bool
    equal: str = Field(description="which steps of the arms are equal")
    n: int
    difference: float = Field(description="mean over seeds; above 0 if the first arm does better")
    low: float
    high: float
    iqm: float
    iqm_low: float
    iqm_high: float
    p: float = Field(description="of the paired t-test, two-sided")
    p_holm: float | None = Field(None, description="with Holm's correction over the secondary comparisons")
    detectable: float | None
    answer: Answer

    @property
    def said(self) -> str:
        """The comparison as a sentence."""
        one, other = self.arms
        shown = f"{number(self.difference, True)} [{number(self.low, True)}, {number(self.high, True)}]"
        p = f"p = {number(self.p if self.p_holm is None else self.p_holm)}" + (
            " (Holm)" if self.p_holm is not None else ""
        )
        seen = f"; {self.n} seeds could have shown {number(self.detectable)}" if self.detectable is not None else ""
        if self.answer == "no difference shown":
            return f"{one} against {other}, {self.outcome}: no difference shown, {shown}, {p}{seen}"
        return f"{one} does {self.answer} than {other} at {self.outcome}: {shown}, {p}"


class StudyReport(Part):
    """study.json: everything that the page, the CSV and the LaTeX table show."""

    schema_version: Literal[1] = Field(alias="schema")
    name: str
    question: str
    command: str
    begun: str
    finished: str
    file: str = Field(description="its whole text")
    file_sha256: str
    code_sha256: str
    commit: str
    versions: dict[str, str]
    machine: str
    seeds: list[int]
    size: str
    alpha: float
    power: float
    gates: list[dict[str, Any]]
    runs: int
    seconds: float = Field(description="of all runs")
    arms: list[ArmReport]
    comparisons: list[ComparisonReport]
    values: list[SeedValue]

    @property
    def primary(self) -> ComparisonReport:
        """The primary comparison."""
        return self.comparisons[0]

    @property
    def is_trial(self) -> bool:
        """Whether scores of this size mean nothing."""
        return self.size in TRIAL_SIZES

    @property
    def doubts(self) -> list[str]:
        """What a reader must know before believing the verdict."""
        said = []
        if any(seed < TUNED_BELOW for seed in self.seeds):
            said.append(f"A pilot: settings were tuned on seeds below {TUNED_BELOW}, and some of these are.")
        for arm in self.arms:
            for one in arm.outcomes:
                if arm.name in self.primary.arms and one.outcome == self.primary.outcome and one.room:
                    said.append(f"{arm.name} is {one.room} at {one.outcome}: a difference may not show there.")
        return said


def render(study: StudyReport | Mapping[str, Any]) -> str:
    """The page of a study: no script, no outside address, everything escaped."""
    data = study if isinstance(study, StudyReport) else StudyReport.model_validate(study)
    return environment().get_template("study.html.j2").render(study=data, style=resource("page.css"))


def as_csv(study: StudyReport) -> str:
    """CSV with a line for every arm, seed and outcome."""
    out = io.StringIO()
    rows = csv.DictWriter(out, fieldnames=list(SeedValue.model_fields), lineterminator="\n")
    rows.writeheader()
    rows.writerows(value.model_dump() for value in study.values)
    return out.getvalue()


def as_latex(study: StudyReport) -> str:
    """LaTeX: two `tabular`s, of arms and of comparisons, which need no package."""
    arms = [
        (arm.name, one.outcome, number(one.iqm), _interval(one.low, one.high), number(one.floor), count(arm.steps))
        for arm in study.arms
        for one in arm.outcomes
    ]
    compared = [
        (
            f"{one.arms[0]} - {one.arms[1]}", one.outcome, number(one.difference, True), _interval(one.low, one.high),
            number(one.p if one.p_holm is None else one.p_holm), number(one.detectable),
        )
        for one in study.comparisons
    ]  # fmt: skip
    seeds = f"% {study.name}: {len(study.seeds)} seeds, file {study.file_sha256[:12]}, code {study.code_sha256[:12]}\n"
    return (
        seeds
        + _tabular(("Arm", "Outcome", "IQM", "95 % interval", "Floor", "Steps"), arms)
        + _tabular(("Arms", "Outcome", "Difference", "95 % interval", "p", "Detectable"), compared)
    )


def _interval(low: float, high: float) -> str:
    return f"[{number(low)}, {number(high)}]"


def _tabular(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [" & ".join(map(_tex, row)) + r" \\" for row in (head, *rows)]
    lines.insert(1, r"\hline")
    return "\\begin{tabular}{ll" + "r" * (len(head) - 2) + "}\n" + "\n".join(lines) + "\n\\end{tabular}\n"


def _tex(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "−": "$-$", "–": "--", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(letter, f"\\{letter}" if letter in "#$%&_{}" else letter) for letter in text)
