"""Rehearsal: later stages mix batches of earlier stages' lessons into their own, a quarter of the steps.

What is rehearsed comes from behind a lesson's end: batches that were not met yet, and as hard as its last ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from devmind import plugins
from devmind.agent.agent import Agent
from devmind.curriculum.stage import Batches, Context, Stage
from devmind.errors import PluginError
from devmind.learners.gradient import GradientLearner, Loss


def stages_of(agent: Agent) -> list[Stage]:
    """The stages this agent has been through, as far as they are installed."""
    found: list[Stage] = []
    for name in agent.config.stages:
        try:
            loaded = plugins.load("stages", name)
        except PluginError as error:
            warnings.warn(f"The stage '{name}' is not rehearsed: {error}", stacklevel=2)
            continue
        found.append(loaded() if isinstance(loaded, type) else loaded)
    return found


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
                found.append((learner.loss, _behind(lesson.make_batches(agent, context, lesson.steps))))
    return found


def _behind(batches: Batches) -> Callable[[int], Any]:
    return lambda number: batches.make(batches.steps + number)
