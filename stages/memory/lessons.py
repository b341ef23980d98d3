"""The lessons of the stage and their budgets: steps by size, and the minutes those take on two cores.

A further lesson is one call of `taught` in `lessons`. The runner rehearses earlier stages only, so a lesson that comes
behind `tests` mixes batches of `tests_batch` into its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.learners.gradient import GradientLearner, Loss
from stages.memory import cards, hallway, imitation, matching, mazes, parts, remembering

STEPS: Mapping[str, Mapping[str, int]] = {
    "sign": {"tiny": 6, "nursery": 120, "child": 2000, "adult": 6000},
    "tests": {"tiny": 12, "nursery": 360, "child": 4000, "adult": 12000},
}
CYCLE = ("corridor", "cards", "hallway 13", "sign", "corridor", "hallway 7")
"""The turns of the lesson `tests`."""
LONGEST = {"tiny": 12}
"""The longest way of a lesson, in Moments, where it is not 100: trunks of size tiny see eight."""
Make = Callable[[Agent, Context, int, int], Any]


def lessons(context: Context) -> Sequence[Lesson]:
    """In the order they are taught."""
    return [
        taught(context, "sign", imitation.loss, sign_batch, STEPS["sign"], 32, 1e-3, 4.0, skills=("memory_len",)),
        taught(
            context,
            "tests",
            imitation.loss,
            tests_batch,
            STEPS["tests"],
            32,
            1e-3,
            12.0,
            rehearse=True,
            skills=("memory_len", "maze", "repeat_previous"),
        ),
    ]


def sign_batch(agent: Agent, context: Context, update: int, size: int) -> dict[str, Any]:
    """memory_len alone: the longest grows over the first half of the lesson."""
    return remembering.lesson_batch(
        context, update, size, _longest(context, update / STEPS["sign"][context.config.size])
    )


def tests_batch(agent: Agent, context: Context, update: int, size: int) -> dict[str, Any]:
    """All short-term tests in turn; corridors grow over the first half of the lesson."""
    turns = [turn for turn in CYCLE if hallway.installed() or not turn.startswith("hallway")]
    turn = turns[update % len(turns)]
    if turn == "cards":
        return cards.lesson_batch(context, update, size)
    if turn == "corridor":
        done = update / STEPS["tests"][context.config.size]
        return mazes.lesson_batch(context, update, size, _longest(context, done))
    if turn == "sign":
        return remembering.lesson_batch(context, update, size, _longest(context, 1.0))
    return matching.lesson_batch(context, int(turn.removeprefix("hallway ")), update, size)


def _longest(context: Context, done: float) -> int:
    """The longest way at `done` 0..1 of a lesson: a tenth at first, all of it from the middle on."""
    most = LONGEST.get(context.config.size, mazes.LENGTH)
    return max(2, round(min(1.0, 0.1 + 1.8 * done) * most))


def taught(
    context: Context,
    name: str,
    loss: Loss,
    make: Make,
    steps: Mapping[str, int],
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
        trains = parts.trained(agent)
        return GradientLearner(agent, loss, steps=0, seed=context.seed, learning_rate=rate, trains=trains)

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: make(agent, context, update, size), steps)

    return Lesson(name, learner, batches, steps[context.config.size], minutes, **more)
