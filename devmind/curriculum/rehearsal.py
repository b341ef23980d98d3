"""Rehearsal: later stages mix batches of earlier stages' lessons into their own, a quarter of the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context, Stage
from devmind.learners.gradient import GradientLearner, Loss


def rehearsals(earlier: Sequence[Stage], agent: Agent, context: Context) -> list[tuple[Loss, Callable[[int], Any]]]:
    """Loss and batch maker of every earlier lesson that says it can be rehearsed.

    Only lessons taught by gradient are rehearsed: their loss can stand beside another lesson's in one step.
    """
    found = []
    for stage in earlier:
        for lesson in stage.lessons(context):
            if not lesson.rehearse:
                continue
            learner = lesson.make_learner(agent, context)
            if isinstance(learner, GradientLearner):
                found.append((learner.loss, lesson.make_batches(agent, context, lesson.steps).make))
    return found
