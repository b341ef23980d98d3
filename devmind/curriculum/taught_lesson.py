"""Teaches one lesson of a plan and notes it in the journal; used by a stage's run and by a night of sleep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from devmind.agent.agent import Agent
from devmind.curriculum.journal import Journal
from devmind.curriculum.plan import LessonPlan
from devmind.curriculum.rehearsal import rehearsals, unrehearsed_why
from devmind.curriculum.stage import Context, Lesson, Stage
from devmind.curriculum.teaching import Taught, teach


def teach_planned(
    lesson: Lesson,
    plan: LessonPlan,
    agent: Agent,
    earlier: Sequence[Stage],
    context: Context,
    journal: Journal,
    *,
    attempt: int = 0,
    resume: Mapping[str, Any] | None = None,
    scores: Mapping[str, float] | None = None,
    cut: bool = False,
) -> Taught:
    """Teach a lesson as planned, and note its result.

    Args:
        earlier: stages that are rehearsed, besides the lessons of the plan that the lesson names.
        resume, scores, cut: see `teach`.

    Raises:
        Interrupted, ConfigError, CheckpointError: see `teach`.
    """
    names = [other.name for other in plan.lessons]
    before = plan.lessons[: names.index(lesson.name)]
    every = plan.every.get(lesson.name, lesson.rehearsal_every)
    rehearsal = rehearsals(lesson, before, earlier, agent, context, plan.kept, plan.rehearsed(lesson, earlier, agent))
    rehearses = [one.lesson.name for one in rehearsal] if every else []
    journal.write("begun", lesson=lesson.name, steps=plan.steps[lesson.name], rehearses=rehearses)
    taught = teach(
        lesson, plan.steps[lesson.name], agent, context, journal,
        attempt=attempt, rehearsal=rehearsal, every=every, resume=resume, scores=scores, cut=cut,
    )  # fmt: skip
    journal.write(
        "lesson_done",
        lesson=lesson.name,
        attempt=attempt,
        planned=plan.steps[lesson.name],
        steps=taught.steps,
        seconds=round(taught.seconds, 2),
        status=taught.status,
        share=taught.share,
        rehearsals=taught.rehearsals,
        rehearsal_share=taught.rehearsal_share,
        trained=taught.trained,
        unrehearsed=unrehearsed_why(lesson, agent, context),
        compared=lesson.compared,
    )
    was = resume or {"update": 0, "seconds": 0.0}
    left = plan.lessons[len(before) + 1 :]
    plan.taught(lesson.name, taught.steps - was["update"], taught.seconds - was["seconds"], left)
    return taught
