"""Examines an agent in the skills of stages, and gives measures, verdicts and plain dictionaries."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from devmind.acting.in_life import noting
from devmind.agent.agent import Agent
from devmind.curriculum.exam import Exhibit, Measure
from devmind.curriculum.gate import NOT_GATED, Decision, Gate, Verdict
from devmind.curriculum.stage import Context, Skill, Stage
from devmind.errors import ExamError, nearest


@dataclass(frozen=True)
class Examined:
    """One skill's measures, and the verdict of its gate."""

    stage: str
    skill: Skill
    measures: dict[str, Measure]
    verdict: Verdict

    @property
    def in_life(self) -> str:
        """Whether the exam can be asked in life, else why not; '' if nothing was measured, or it was not noted."""
        return next((measure.in_life for measure in self.measures.values()), "")


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


def examine_skill(stage: Stage, skill: Skill, agent: Agent, context: Context, level: str = "full") -> Examined:
    """Examine one skill; level 'full', 'retention' or 'glimpse' (see `Skill`).

    Raises:
        ExamError: the exam gave no list of measures, or two of one name, of which one would be lost.
    """
    with examination(agent), noting() as noted:
        found = skill.examine(agent, context, level)
    if not isinstance(found, Sequence) or not all(isinstance(measure, Measure) for measure in found):
        raise ExamError(
            f"The exam of '{skill.name}' gave a {type(found).__name__}; expected a list of Measures, [Measure(...)]."
        )
    names = [measure.name for measure in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ExamError(
            f"The exam of '{skill.name}' gave two measures named '{twice[0]}'; name each '{skill.name}/part'."
        )
    measures = {measure.name: replace(measure, in_life=noted.said) for measure in found}
    return decide(stage, skill, measures, context)


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


def beside_scores(item: Examined, context: Context) -> dict[str, dict[str, Any]]:
    """For the journal: unit, gate, chance and ceiling of each measure."""
    bounds = {threshold.measure: threshold.bound for threshold in item.skill.gate_in(context).thresholds}
    return {
        name: {
            "unit": measure.unit,
            "gate": bounds.get(name),
            "higher_is_better": measure.higher_is_better,
            "chance": measure.chance,
            "ceiling": measure.ceiling,
        }
        for name, measure in item.measures.items()
    }


def decided(item: Examined, context: Context) -> dict[str, dict[str, Any]]:
    """`beside_scores` of a full exam, and its decisions."""
    beside = beside_scores(item, context)
    for name, measure in item.measures.items():
        decision = _decision(item.verdict, name)
        beaten_by = measure.beaten_by(context.config.exam.bootstrap)
        beside[name] |= {"floor": measure.floor, "beaten_by": beaten_by, "verdict": _verdict(decision)}
        if decision:
            beside[name] |= {"gate": decision.bound, "passed": decision.passed_or_none}
    return beside


def plain(examined: Sequence[Examined], resamples: int) -> list[dict[str, Any]]:
    """The `skills` of results.json."""
    return [
        {
            "skill": item.skill.name,
            "stage": item.stage,
            "about": item.skill.about,
            "in_life": item.in_life,
            "passed": item.verdict.passed,
            "verdict": item.verdict.verdict,
            "measures": [
                _plain_measure(measure, _decision(item.verdict, measure.name), resamples)
                for measure in item.measures.values()
            ],
        }
        for item in examined
    ]


def _decision(verdict: Verdict, name: str) -> Decision | None:
    return next((d for d in verdict.decisions if d.measure == name), None)


def _verdict(decision: Decision | None) -> str:
    return decision.verdict if decision else NOT_GATED


def _plain_measure(measure: Measure, decision: Decision | None, resamples: int) -> dict[str, Any]:
    low, high = measure.interval(resamples)
    return {
        "name": measure.name,
        "unit": measure.unit,
        "score": measure.score,
        "low": low,
        "high": high,
        "n": measure.n,
        "distinct": measure.distinct,
        "exhaustive": measure.exhaustive,
        "chance": measure.chance,
        "floor": measure.floor,
        "floors": dict(measure.floors),
        "beaten_by": measure.beaten_by(resamples),
        "ceiling": measure.ceiling,
        "reference": measure.reference,
        "gate": decision.bound if decision else None,
        "goal": bool(decision and decision.goal),
        "passed": decision.passed_or_none if decision else None,
        "verdict": _verdict(decision),
        "twin": decision.twin if decision else None,
        "reason": decision.reason if decision else NOT_GATED,
        "higher_is_better": measure.higher_is_better,
        "note": measure.note,
        "rows": dict(measure.rows),
        "exhibits": [_plain_exhibit(exhibit) for exhibit in measure.exhibits],
    }


def _plain_exhibit(exhibit: Exhibit) -> dict[str, Any]:
    encoded = {
        name: base64.b64encode(data).decode() if data else None
        for name, data in (("png", exhibit.png), ("wav", exhibit.wav))
    }
    return {"kind": exhibit.kind, "caption": exhibit.caption, "labels": list(exhibit.labels), **encoded}
