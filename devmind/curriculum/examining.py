"""Examines an agent in the skills of stages, and gives measures, verdicts and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from devmind.acting.in_life import noting
from devmind.agent.agent import Agent
from devmind.curriculum.exam import Exam, Measure
from devmind.curriculum.gate import NOT_GATED, Decision, Gate, Verdict
from devmind.curriculum.pass_through import add_trunk_rows, counting_passes, has_layers
from devmind.curriculum.stage import Context, Skill, Stage
from devmind.errors import ExamError, nearest
from devmind.report.results import MeasureResult, SkillResult


@dataclass(frozen=True)
class Examined:
    """One skill's measures, and the verdict of its gate."""

    stage: str
    skill: Skill
    measures: dict[str, Measure]
    verdict: Verdict
    passing_s: float = 0.0
    """Seconds of asking again what the trunk's layers carry."""

    @property
    def in_life(self) -> str:
        """Whether the exam can be asked in life, else why not; '' if nothing was measured, or it was not noted."""
        return next((measure.in_life for measure in self.measures.values()), "")

    def result(self, resamples: int) -> SkillResult:
        """The skill's entry in results.json."""
        decisions = {decision.measure: decision for decision in reversed(self.verdict.decisions)}
        rows = [_measure_result(one, decisions.get(one.name), resamples) for one in self.measures.values()]
        content: dict[str, Any] = {
            "skill": self.skill.name,
            "stage": self.stage,
            "about": self.skill.about,
            "in_life": self.in_life,
            "passed": self.verdict.passed,
            "verdict": self.verdict.verdict,
            "measures": rows,
        }
        return SkillResult(**content)


def _measure_result(measure: Measure, decision: Decision | None, resamples: int) -> MeasureResult:
    # What the measure has itself, from its name to its exhibits, goes under the same names.
    own = {name: getattr(measure, name) for name in MeasureResult.model_fields if hasattr(measure, name)}
    own["trunk"] = measure.trunk or None
    (low, high), beaten_by = measure.interval(resamples), measure.beaten_by(resamples)
    judged: dict[str, Any] = {"gate": None, "goal": False, "passed": None, "twin": None}
    judged |= {"verdict": NOT_GATED, "reason": NOT_GATED}
    if decision is not None:
        judged = {name: getattr(decision, name) for name in ("goal", "verdict", "twin", "reason")}
        judged |= {"gate": decision.bound, "passed": decision.passed_or_none}
    return MeasureResult(**own | {"low": low, "high": high, "beaten_by": beaten_by} | judged)


def hold(skill: Skill, agent: Agent, context: Context) -> Exam:
    """A skill's exam, held within an `examination`; ExamError if it is none."""
    exam = skill.examine(agent, context)
    if not isinstance(exam, Exam):
        raise ExamError(
            f"The exam of '{skill.name}' gave a {type(exam).__name__}; expected an Exam of Measures, "
            "Exam([Measure(...)])."
        )
    return exam


@contextmanager
def examination(agent: Agent) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards the agent returns to its earlier mode."""
    training = agent.training
    agent.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        agent.train(training)


def examine_skill(
    stage: Stage,
    skill: Skill,
    agent: Agent,
    context: Context,
    measures_of: Callable[[Exam], Sequence[Measure]] = Exam.in_full,
) -> Examined:
    """Hold the exam of one skill: in full, or of the agent alone (`Exam.alone`); a glimpse has `context.glimpse()`.

    Behind a full exam, a part of it tells what the trunk's layers carry (`pass_through`), which decides nothing.

    Raises:
        ExamError: the exam is none or has no list of measures, or two of one name, of which one would be lost.
    """
    with noting() as noted, counting_passes(agent) as passes:
        found = _ask(skill, agent, context, measures_of)
    measures = {name: replace(measure, in_life=noted.said) for name, measure in found.items()}
    item = decide(stage, skill, measures, context)
    if measures_of is not Exam.in_full or not context.config.exam.pass_share or not has_layers(agent):
        return item
    part = replace(context, one_in=max(1, round(1 / context.config.exam.pass_share)))
    ask = partial(_ask, skill, context=part, measures_of=Exam.alone)
    found, seconds = add_trunk_rows(measures, agent, ask, context.config.exam.bootstrap, passes.count > 0)
    return replace(item, measures=found, passing_s=seconds)


def _ask(
    skill: Skill, agent: Agent, context: Context, measures_of: Callable[[Exam], Sequence[Measure]]
) -> dict[str, Measure]:
    """The measures of an exam, by name."""
    with examination(agent):
        found = measures_of(hold(skill, agent, context))
    if not isinstance(found, Sequence) or not all(isinstance(measure, Measure) for measure in found):
        raise ExamError(
            f"The exam of '{skill.name}' gave an Exam of {type(found).__name__}; expected a list of Measures, "
            "Exam([Measure(...)])."
        )
    names = [measure.name for measure in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ExamError(
            f"The exam of '{skill.name}' gave two measures named '{twice[0]}'; name each '{skill.name}/part'."
        )
    return {measure.name: measure for measure in found}


def decide(
    stage: Stage,
    skill: Skill,
    measures: dict[str, Measure],
    context: Context,
    whole: bool = True,
    above_twin: Mapping[str, bool] | None = None,
) -> Examined:
    """The measures, with the verdict of the skill's gate.

    Args:
        whole: a threshold whose measure is missing fails; else it is left out.
        above_twin: as in `Gate.judge`.
    """
    gate = skill.gate_in(context)
    if not whole:
        gate = Gate([threshold for threshold in gate.thresholds if threshold.measure in measures])
    verdict = gate.judge(measures, context.config.exam.bootstrap, above_twin)
    return Examined(stage.name, skill, measures, verdict)


def pick_skills(stage: Stage, name: str | None) -> Sequence[Skill]:
    """All skills, or the one named; ExamError names the nearest."""
    if name is None:
        return stage.skills
    known = {skill.name: skill for skill in stage.skills}
    if name not in known:
        raise ExamError(f"Stage '{stage.name}' has no skill '{name}'{nearest(name, known)}")
    return [known[name]]


NOTES = ("unit", "gate", "higher_is_better", "chance", "ceiling", "floor", "beaten_by", "verdict", "passed")
"""What a journal notes of a measure beside its score; of one without a gate not `passed`."""
GLIMPSE_NOTES = NOTES[:5]
"""The same of a glimpse, which is not judged."""


def exam_notes(item: Examined, context: Context) -> dict[str, dict[str, Any]]:
    """By measure, what the journal notes of an exam."""
    rows = item.result(context.config.exam.bootstrap).measures
    return {row.name: _fields(row, NOTES[:-1] if row.verdict == NOT_GATED else NOTES) for row in rows}


def glimpse_notes(item: Examined, context: Context) -> dict[str, dict[str, Any]]:
    """By measure, what the journal notes of a glimpse; its gate is what the exam will ask, whatever its floors are."""
    bounds = {threshold.measure: threshold.bound for threshold in item.skill.gate_in(context).thresholds}
    return {name: _fields(measure, GLIMPSE_NOTES, gate=bounds.get(name)) for name, measure in item.measures.items()}


def _fields(of: object, names: Sequence[str], **given: Any) -> dict[str, Any]:
    return {name: given[name] if name in given else getattr(of, name) for name in names}
