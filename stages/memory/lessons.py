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
from stages.memory import cards, hallway, hidden, imitation, matching, mazes, naming, parts, remembering, things

STEPS: Mapping[str, Mapping[str, int]] = {
    "sign": {"tiny": 6, "nursery": 160, "child": 2000, "adult": 6000},
    "tests": {"tiny": 12, "nursery": 960, "child": 6000, "adult": 18000},
    "recall": {"tiny": 8, "nursery": 400, "child": 3000, "adult": 8000},
    "things": {"tiny": 6, "nursery": 300, "child": 3000, "adult": 9000},
    "hidden": {"tiny": 6, "nursery": 240, "child": 2000, "adult": 6000},
}
CYCLE = (
    "corridor", "hallway 13", "cards", "corridor", "hallway 7", "sign", "corridor", "cards", "hallway 13",
)  # fmt: skip
"""The turns of the lesson `tests`."""
VIEWS = 64
"""Single boards that every step of the lessons shows besides, which teach the eye for boards."""
LONGEST = {"tiny": 12}
"""The longest way of a lesson, in Moments, where it is not 100: trunks of size tiny see eight."""
LEARNING_RATE = 1e-3
Make = Callable[[Agent, Context, int, int], Any]


def lessons(context: Context) -> Sequence[Lesson]:
    """In the order they are taught."""
    return [
        taught(context, "sign", loss, sign_batch, STEPS["sign"], 32, LEARNING_RATE, 3.0, skills=("memory_len",)),
        taught(
            context,
            "tests",
            loss,
            tests_batch,
            STEPS["tests"],
            16,
            LEARNING_RATE,
            12.0,
            rehearse=True,
            skills=("memory_len", "maze", "repeat_previous"),
        ),
        taught(
            context,
            "recall",
            recall_loss,
            recall_batch,
            STEPS["recall"],
            64,
            1e-3,
            6.0,
            rehearse=True,
            skills=("recall",),
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
            context,
            "hidden",
            hidden_loss,
            hidden_batch,
            STEPS["hidden"],
            8,
            LEARNING_RATE,
            5.0,
            rehearse=True,
            skills=("permanence",),
        ),
    ]


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Imitation of the teacher, and what single boards teach where MiniGrid is there."""
    total, scalars = imitation.loss(agent, batch)
    if "view" not in batch:
        return total, scalars
    seen, more = matching.view_loss(agent, batch["view"])
    return total + seen, scalars | more


def sign_batch(agent: Agent, context: Context, update: int, size: int) -> dict[str, Any]:
    """memory_len alone, in growing lengths."""
    return _with_view(
        context, update, remembering.lesson_batch(context, update, size, _longest(context, "sign", update))
    )


def tests_batch(agent: Agent, context: Context, update: int, size: int) -> dict[str, Any]:
    """All short-term tests in turn, over growing ways."""
    turns = [turn for turn in CYCLE if hallway.installed() or not turn.startswith("hallway")]
    # Every fourth step is a rehearsal of earlier stages: without it in the count, no turn is always the one left out.
    turn = turns[(update - update // 4) % len(turns)]
    longest = _longest(context, "tests", update)
    if turn == "cards":
        batch = cards.lesson_batch(context, update, size)
    elif turn == "corridor":
        batch = mazes.lesson_batch(context, update, size, longest)
    elif turn == "sign":
        batch = remembering.lesson_batch(context, update, size, longest)
    else:
        batch = matching.lesson_batch(context, int(turn.removeprefix("hallway ")), update, size)
    return _with_view(context, update, batch)


def hidden_batch(agent: Agent, context: Context, update: int, size: int) -> dict[str, Any]:
    """Where hidden things are, of single Moments first, from the middle on of whole episodes too.

    Every fourth step is one of the short-term tests, so that they stay;
    not the fourth step that is a rehearsal of earlier stages.
    """
    if update % 4 == 1:
        return {"tests": tests_batch(agent, context, STEPS["tests"][context.config.size] + update // 4, size)}
    changed = context.config.lessons.get("hidden")
    steps = (changed and changed.steps) or STEPS["hidden"][context.config.size]
    return hidden.lesson_batch(agent, context, update - (update + 2) // 4, size, whole=update >= steps // 2)


def hidden_loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of either."""
    return loss(agent, batch["tests"]) if "tests" in batch else hidden.loss(agent, batch)


def _with_view(context: Context, update: int, batch: dict[str, Any]) -> dict[str, Any]:
    if not hallway.installed():
        return batch
    rows = VIEWS if context.config.size != "tiny" else 8
    return batch | {"view": matching.view_batch(context, (7, 13)[update % 2], update, rows)}


def _longest(context: Context, lesson: str, update: int) -> int:
    """The longest way at an update of a lesson: a fifth for 30 % of the steps, growing to all of it at 70 %.

    Short ones first, until what is seen is carried at all: where the ways grew from the beginning on, nothing was
    learned in 70 steps.
    """
    changed, size = context.config.lessons.get(lesson), context.config.size
    done = update / ((changed and changed.steps) or STEPS[lesson][size])
    return max(2, round(min(1.0, 0.2 + 2.0 * max(0.0, done - 0.3)) * LONGEST.get(size, mazes.LENGTH)))


def recall_batch(agent: Agent, context: Context, update: int, size: int) -> dict[str, Any]:
    """Names that memories bring back; every fourth batch is of the short-term tests, which are not to be lost.

    Not the batch at 3 of 4: the rehearsal of earlier stages takes its place.
    """
    if update % 4 == 1:
        return tests_batch(agent, context, STEPS["tests"][context.config.size] + update // 4, max(4, size // 8))
    return naming.lesson_batch(agent, context, update, size, STEPS["recall"][context.config.size])


def recall_loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Of whichever of the two the batch is."""
    return naming.loss(agent, batch) if "called" in batch else loss(agent, batch)


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
