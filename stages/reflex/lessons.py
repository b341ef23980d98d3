"""The lessons of the stage and their budgets: optimizer steps by size, and the minutes those take on two cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.learners.gradient import GradientLearner, Loss
from stages.reflex import perceive, watch

STEPS = {
    "watch": {"tiny": 6, "nursery": 300, "child": 3000, "adult": 10000},
    "perceive": {"tiny": 12, "nursery": 2000, "child": 20000, "adult": 60000},
}


def lessons(context: Context) -> Sequence[Lesson]:
    """In the order they are taught."""
    return [
        _gradient(context, "watch", watch.loss, watch.lesson_batch, 16, 1e-3, 3.0, rehearse=True),
        _gradient(context, "perceive", perceive.loss, perceive.lesson_batch, 64, 2e-3, 5.0, skills=("see",)),
    ]


def _gradient(
    context: Context,
    name: str,
    loss: Loss,
    make: Callable[[Context, int, int], Any],
    batch: int,
    learning_rate: float,
    minutes: float,
    rehearse: bool = False,
    skills: tuple[str, ...] = (),
) -> Lesson:
    """A lesson taught by gradient on `loss`, its batch a function of (context, update, size)."""
    changed = context.config.lessons.get(name)
    size = (changed and changed.batch) or (batch if context.config.size != "tiny" else 8)
    rate = (changed and changed.learning_rate) or learning_rate

    def learner(agent: Agent, context: Context) -> GradientLearner:
        return GradientLearner(agent, loss, steps=0, seed=context.seed, learning_rate=rate)

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: make(context, update, size), steps)

    steps = STEPS[name][context.config.size]
    return Lesson(name, learner, batches, steps, minutes, rehearse=rehearse, skills=skills)
