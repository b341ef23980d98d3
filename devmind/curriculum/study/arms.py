"""The runs of a study's arms: what arms share is one run, and compared arms have equal steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from devmind.curriculum.stage import Context, Skill, Stage, check_lessons
from devmind.curriculum.start import load_stage, make_context
from devmind.curriculum.study.course import Leg
from devmind.curriculum.study.file import Arm, Comparison, Study
from devmind.errors import ConfigError, nearest

UNEQUAL = 0.01
"""Steps of compared arms may differ by this share, because rounds and factors are rounded to whole steps."""


@dataclass(frozen=True)
class StudyPlan:
    """The runs of a study.

    Attributes:
        legs: legs by name, each after the leg that it continues.
        arms: by arm, the names of its legs in order.
        skills: by outcome, the stage's name and the skill that measures it.
        equal: by comparison, which steps of its arms are equal.
    """

    legs: Mapping[str, Leg]
    arms: Mapping[str, Sequence[str]]
    skills: Mapping[str, tuple[str, Skill]]
    equal: Sequence[str]

    def steps(self, arm: str) -> int:
        """Steps of all legs of an arm."""
        return sum(self.legs[name].total for name in self.arms[arm])

    def steps_in(self, arm: str, stage: str) -> int:
        """Steps of an arm in the lessons of one stage."""
        return sum(sum(self.legs[name].steps.get(stage, {}).values()) for name in self.arms[arm])

    def walk(self, arm: str) -> str:
        """An arm in words: 'reflex, then memory with fresh trunk'."""
        said = []
        for leg in (self.legs[name] for name in self.arms[arm]):
            words = " and ".join(leg.stages) + (f" in {leg.rounds} rounds" if len(leg.stages) > 1 else "")
            words += f" with fresh {' and '.join(leg.fresh)}" if leg.fresh else ""
            said.append(words + ("" if leg.rehearse else ", nothing rehearsed"))
        return ", then ".join(said)

    def examined(self, leg: Leg) -> list[Skill]:
        """The skills that are examined at the end of a leg."""
        by_name = {skill.name: skill for _, skill in self.skills.values()}  # one skill may measure several outcomes
        return [skill for name, skill in by_name.items() if name in leg.skills]

    def gates(self, study: Study) -> list[dict[str, Any]]:
        """The thresholds of the skills that measure outcomes, as `frozen.json` stores them."""
        context = context_of(study)
        skills = {skill.name: skill for _, skill in self.skills.values()}
        return [
            {"measure": t.measure, "bound": t.bound, "beats_floor": t.beats_floor, "goal": t.goal}
            for skill in skills.values()
            for t in skill.gate_in(context).thresholds
        ]


def plan(study: Study) -> StudyPlan:
    """The runs of a study.

    Raises:
        ConfigError: a stage, lesson or outcome does not exist, or the steps of compared arms are not equal.
    """
    file = study.file
    stages = {name: load_stage(name) for name in file.stages}
    check_lessons(list(stages.values()), context_of(study))
    skills = {one.outcome: _measures(one.outcome, stages) for one in file.comparisons}
    steps = {name: _steps(name, stage, study) for name, stage in stages.items()}
    examined = tuple(sorted({skill.name for _, skill in skills.values()}))
    legs: dict[str, Leg] = {}
    arms: dict[str, list[str]] = {}
    for name, arm in file.arms.items():
        walk = _walk(arm, steps)
        walk[-1] = replace(walk[-1], skills=examined)
        for leg in walk:
            known = legs.get(leg.name)
            legs[leg.name] = leg if known is None or leg.skills else known
        arms[name] = [leg.name for leg in walk]
    made = StudyPlan(legs, arms, skills, ())
    return replace(made, equal=[_equal(made, comparison) for comparison in file.comparisons])


def context_of(study: Study, out: Path = Path()) -> Context:
    """The context of a study's lessons and gates."""
    return make_context(study.config, out, None, ())


def _measures(outcome: str, stages: Mapping[str, Stage]) -> tuple[str, Skill]:
    found = [
        (name, skill)
        for name, stage in stages.items()
        for skill in stage.skills
        if outcome == skill.name or outcome.startswith(f"{skill.name}/")
    ]
    if not found:
        known = [skill.name for stage in stages.values() for skill in stage.skills]
        raise ConfigError(f"No skill of {', '.join(stages)} measures the outcome '{outcome}'{nearest(outcome, known)}")
    return max(found, key=lambda pair: len(pair[1].name))


def _steps(name: str, stage: Stage, study: Study) -> dict[str, int]:
    """The steps of the lessons of a stage that are taught."""
    taught = study.file.stages[name]
    own = {lesson.name: lesson.steps for lesson in stage.lessons(context_of(study))}
    wanted = dict.fromkeys(own) if taught.lessons is None else taught.lessons
    for lesson in wanted:
        if lesson not in own:
            raise ConfigError(f"Stage '{name}' has no lesson '{lesson}'{nearest(lesson, own)}")
    if not wanted:
        raise ConfigError(f"`lessons` of stage '{name}' names no lesson; name one of {', '.join(own)}.")
    return {
        lesson: wanted[lesson] or max(1, round(taught.steps * steps))
        for lesson, steps in own.items()
        if lesson in wanted
    }


def _walk(arm: Arm, steps: Mapping[str, Mapping[str, int]]) -> list[Leg]:
    legs: list[Leg] = []
    for number, walked in enumerate(arm.walk):
        stages = (walked,) if isinstance(walked, str) else tuple(walked)
        last = number == len(arm.walk) - 1
        own: Mapping[str, Mapping[str, int]] = {stage: steps[stage] for stage in stages}
        name = "+".join(stages) + (f".{arm.rounds}-rounds" if len(stages) > 1 else "")
        if last and arm.steps == "all":
            own, name = _stretched(own, sum(sum(one.values()) for one in steps.values())), f"{name}.all-steps"
        if last and arm.fresh:
            name += f".fresh-{'-'.join(arm.fresh)}"
        if legs and not (arm.rehearse or not last):
            name += ".unrehearsed"
        before = legs[-1].name if legs else None
        legs.append(
            Leg(
                f"{before}-{name}" if before else name,
                stages,
                own,
                before,
                arm.fresh if last else (),
                arm.rounds if len(stages) > 1 else 1,
                arm.rehearse or not last,
            )
        )
    return legs


def _stretched(own: Mapping[str, Mapping[str, int]], whole: int) -> dict[str, dict[str, int]]:
    """Lessons lengthened by one factor to `whole` steps; the longest gets the remainder of rounding."""
    factor = whole / sum(sum(lessons.values()) for lessons in own.values())
    made = {stage: {name: max(1, round(factor * n)) for name, n in lessons.items()} for stage, lessons in own.items()}
    stage, lesson = max(((s, name) for s in made for name in made[s]), key=lambda at: made[at[0]][at[1]])
    made[stage][lesson] += whole - sum(sum(lessons.values()) for lessons in made.values())
    return made


def _equal(made: StudyPlan, comparison: Comparison) -> str:
    """'all steps' if both arms have equally many in all, 'steps of memory' if only in the outcome's stage."""
    one, other = comparison.arms
    stage, _ = made.skills[comparison.outcome]
    if _alike(made.steps(one), made.steps(other)):
        return "all steps"
    if _alike(made.steps_in(one, stage), made.steps_in(other, stage)):
        return f"steps of {stage}"
    raise ConfigError(
        f"The arms '{one}' ({made.steps(one):,} steps, {made.steps_in(one, stage):,} of {stage}) and '{other}' "
        f"({made.steps(other):,}, {made.steps_in(other, stage):,}) are compared, but have equal steps neither in all "
        f"nor of {stage}; change their walks, or write `steps: all`."
    )


def _alike(one: int, other: int) -> bool:
    return one > 0 and abs(one - other) <= UNEQUAL * max(one, other)
