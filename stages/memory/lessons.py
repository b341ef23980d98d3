"""The lessons of the stage and their budgets: steps by size, and the minutes those take on two cores.

A further lesson is one call of `taught` in `lessons`. Later lessons of the stage take every `MIXED`th batch from the
short-term tests (`short_term_batch`), since the runner rehearses earlier stages only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.learners.gradient import GradientLearner, Loss
from stages.memory import imitation, parts, remembering

STEPS = {
    "sign": {"tiny": 6, "nursery": 400, "child": 3000, "adult": 10000},
}
Make = Callable[[Agent, Context, int, int], Any]


def lessons(context: Context) -> Sequence[Lesson]:
    """In the order they are taught."""
    return [
        taught(context, "sign", imitation.loss, sign_batch, STEPS["sign"], 32, 1e-3, 5.0, skills=("memory_len",)),
    ]


def sign_batch(agent: Agent, context: Context, update: int, size: int) -> dict[str, Any]:
    """memory_len, at first short ones: the longest grows over the first half of the lesson."""
    steps = STEPS["sign"][context.config.size]
    grown = min(1.0, 0.1 + 1.8 * update / steps)
    return remembering.lesson_batch(context, update, size, max(2, round(grown * remembering.LENGTH)))


def taught(
    context: Context,
    name: str,
    loss: Loss,
    make: Make,
    steps: dict[str, int],
    batch: int,
    learning_rate: float,
    minutes: float,
    **more: Any,
) -> Lesson:
    """A lesson taught by gradient on `loss`; its batch is `make(agent, context, update, size)`.

    Args:
        steps: by size.
        batch: rows a step (8 at size tiny), unless the configuration says otherwise.
        more: further arguments of Lesson.
    """
    changed = context.config.lessons.get(name)
    size = (changed and changed.batch) or (batch if context.config.size != "tiny" else 8)
    rate = (changed and changed.learning_rate) or learning_rate

    def learner(agent: Agent, context: Context) -> GradientLearner:
        return GradientLearner(agent, loss, steps=0, seed=context.seed, learning_rate=rate, trains=parts.trained(agent))

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: make(agent, context, update, size), steps)

    return Lesson(name, learner, batches, steps[context.config.size], minutes, **more)
