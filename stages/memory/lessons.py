"""The lessons of the stage and their budgets: steps by size, and the minutes those take on two cores.

A further lesson is one call of `taught` in `lessons`. The runner rehearses earlier stages only, so a lesson that comes
behind `tests` mixes batches of `tests_batch` into its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.learners.gradient import GradientLearner, Loss
from stages.memory import cards, hallway, hidden, imitation, matching, mazes, parts, remembering, things

STEPS: Mapping[str, Mapping[str, int]] = {
    "sign": {"tiny": 6, "nursery": 120, "child": 2000, "adult": 6000},
    "tests": {"tiny": 12, "nursery": 360, "child": 4000, "adult": 12000},
    "things": {"tiny": 6, "nursery": 360, "child": 3000, "adult": 9000},
    "hidden": {"tiny": 6, "nursery": 120, "child": 2000, "adult": 6000},
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
        taught(
            context,
            "things",
            things.loss,
            lambda agent, context, update, size: things.lesson_batch(context, update, size),
            STEPS["things"],
            64,
            2e-3,
            1.0,
            trains=things.TRAINS,
            skills=("permanence",),
        ),
        taught(
            context, "hidden", hidden_loss, hidden_batch, STEPS["hidden"], 8, 1e-3, 5.0, rehearse=True,
            skills=("permanence",),
        ),
    ]  # fmt: skip


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


def hidden_batch(agent: Agent, context: Context, update: int, size: int) -> dict[str, Any]:
    """Where hidden things are; every fourth step is one of the short-term tests, so that they stay."""
    if update % 4 == 3:
        return {"tests": tests_batch(agent, context, STEPS["tests"][context.config.size] + update // 4, size)}
    return hidden.lesson_batch(agent, context, update - update // 4, size)


def hidden_loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of either."""
    return imitation.loss(agent, batch["tests"]) if "tests" in batch else hidden.loss(agent, batch)


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
    trains: tuple[str, ...] | None = None,
    **more: Any,
) -> Lesson:
    """A lesson taught by gradient on `loss`; its batch is `make(agent, context, update, size)`.

    Args:
        steps: by size.
        batch: rows a step (8 at size tiny), unless the configuration says otherwise.
        trains: prefixes of the parameters it changes; by default `parts.trained`.
        more: further arguments of Lesson.
    """
    changed = context.config.lessons.get(name)
    size = (changed and changed.batch) or (batch if context.config.size != "tiny" else 8)
    rate = (changed and changed.learning_rate) or learning_rate

    def learner(agent: Agent, context: Context) -> GradientLearner:
        mine = parts.trained(agent) if trains is None else trains
        return GradientLearner(agent, loss, steps=0, seed=context.seed, learning_rate=rate, trains=mine)

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: make(agent, context, update, size), steps)

    return Lesson(name, learner, batches, steps[context.config.size], minutes, **more)
