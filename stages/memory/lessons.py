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
    "boards": {"tiny": 6, "nursery": 800, "child": 2000, "adult": 3000},
    "sign": {"tiny": 6, "nursery": 160, "child": 2000, "adult": 6000},
    "tests": {"tiny": 12, "nursery": 960, "child": 6000, "adult": 18000},
    "recall": {"tiny": 8, "nursery": 400, "child": 3000, "adult": 8000},
    "things": {"tiny": 6, "nursery": 300, "child": 3000, "adult": 9000},
    "hidden": {"tiny": 6, "nursery": 400, "child": 2000, "adult": 6000},
}
CYCLE = ("corridor", "hallway", "cards", "corridor", "hallway", "sign", "corridor", "cards", "hallway")
"""The turns of the lesson `tests`."""
VIEWS = {"tiny": 8}
"""Single boards that every step with hallways shows besides, where it is not 64: what is to be remembered has to be
seen first."""
TURNS = {
    "recall": ("own", "tests", "own", "own", "own", "own", "own", "own"),
    "hidden": ("own", "tests", "own", "own", "own", "recall", "tests", "own"),
}
"""Whose batches the lessons behind `tests` take in turn: what this stage taught before would be lost otherwise. The
fourth and the eighth are dropped for a rehearsal of earlier stages."""
LONGEST = {"tiny": 12}
"""The longest way of a lesson, in Moments, where it is not 100: trunks of size tiny see eight."""
LEARNING_RATE = 1e-3
BOARDS = ("encoders.board.", "heads.cells.", "heads.glance.")
Make = Callable[[Agent, Context, int, int], Any]


def lessons(context: Context) -> Sequence[Lesson]:
    """In the order they are taught."""
    boards = taught(context, "boards", boards_loss, boards_batch, 32, 3e-3, 0.7, trains=BOARDS, skills=("maze",))
    return [
        *([boards] if hallway.installed() else []),
        taught(context, "sign", imitation.loss, sign_batch, 32, LEARNING_RATE, 3.0, skills=("memory_len",)),
        taught(
            context,
            "tests",
            loss,
            tests_batch,
            16,
            LEARNING_RATE,
            13.0,
            rehearse=True,
            skills=("memory_len", "maze", "repeat_previous"),
        ),
        taught(context, "recall", later_loss, recall_batch, 64, 1e-3, 6.0, rehearse=True, skills=("recall",)),
        taught(
            context, "things", things.loss, things_batch, 64, 2e-3, 1.0, trains=things.TRAINS, skills=("permanence",)
        ),
        taught(
            context,
            "hidden",
            later_loss,
            hidden_batch,
            8,
            LEARNING_RATE,
            7.0,
            rehearse=True,
            skills=("permanence",),
        ),
    ]


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Imitation of the teacher, and what single boards teach where the batch brings some."""
    total, scalars = imitation.loss(agent, batch)
    if "view" not in batch:
        return total, scalars
    seen, more = matching.view_loss(agent, batch["view"])
    return total + seen, scalars | more


def boards_loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """What single boards teach their own encoder."""
    return matching.view_loss(agent, batch, by_trunk=False)


def boards_batch(agent: Agent, context: Context, update: int, size: int) -> dict[str, Any]:
    """Single boards of MiniGrid's rooms."""
    return matching.view_batch(context, update, size)


def sign_batch(agent: Agent, context: Context, update: int, size: int) -> dict[str, Any]:
    """memory_len alone, in growing lengths."""
    return remembering.lesson_batch(context, update, size, _longest(context, "sign", update))


def tests_batch(agent: Agent, context: Context, update: int, size: int) -> dict[str, Any]:
    """All short-term tests in turn, over growing ways."""
    turns = [turn for turn in CYCLE if turn != "hallway" or hallway.installed()]
    # Every fourth step is a rehearsal of earlier stages: without it in the count, no turn is always the one left out.
    turn = turns[(update - update // 4) % len(turns)]
    longest = _longest(context, "tests", update)
    if turn == "cards":
        return cards.lesson_batch(context, update, size)
    if turn == "corridor":
        return mazes.lesson_batch(context, update, size, longest)
    if turn == "sign":
        return remembering.lesson_batch(context, update, size, longest)
    views = matching.view_batch(context, update, VIEWS.get(context.config.size, 64))
    return matching.lesson_batch(context, update, 2 * size) | {"view": views}


def recall_batch(agent: Agent, context: Context, update: int, size: int) -> dict[str, Any]:
    """Names that memories bring back."""
    turn, number = _turn("recall", update)
    if turn != "own":
        return _earlier(turn, agent, context, number, max(4, size // 8))
    return naming.lesson_batch(agent, context, number, size, _before("recall", _steps(context, "recall")))


def things_batch(agent: Agent, context: Context, update: int, size: int) -> dict[str, Any]:
    """Where things are, in rooms with covers."""
    return things.lesson_batch(context, update, size)


def hidden_batch(agent: Agent, context: Context, update: int, size: int) -> dict[str, Any]:
    """Where hidden things are, of single Moments; after a third of the steps every other time of whole episodes too."""
    turn, number = _turn("hidden", update)
    if turn != "own":
        return _earlier(turn, agent, context, number, size)
    steps = _steps(context, "hidden")
    whole = update >= steps // 3 and number % 2 == 0
    return hidden.lesson_batch(agent, context, number, size, whole=whole, steps=_before("hidden", steps))


def later_loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Of `recall`, `hidden` or `tests`: the lessons behind `tests` take batches of each other in turn."""
    if "called" in batch:
        return naming.loss(agent, batch)
    return hidden.loss(agent, batch) if "alone" in batch else loss(agent, batch)


def _steps(context: Context, lesson: str) -> int:
    """Steps of a lesson, as the configuration or the size has it."""
    changed = context.config.lessons.get(lesson)
    return (changed and changed.steps) or STEPS[lesson][context.config.size]


def _turn(lesson: str, update: int) -> tuple[str, int]:
    """Whose batch a step of a lesson behind `tests` is, and how many such batches came before."""
    turn = TURNS[lesson][update % len(TURNS[lesson])]
    return turn, _before(lesson, update, turn)


def _before(lesson: str, update: int, turn: str = "own") -> int:
    """How many steps before `update` are `turn`'s."""
    turns = TURNS[lesson]
    return update // len(turns) * turns.count(turn) + turns[: update % len(turns)].count(turn)


def _earlier(lesson: str, agent: Agent, context: Context, number: int, size: int) -> dict[str, Any]:
    """A batch from behind the end of a lesson of this stage, so that it stays."""
    if lesson == "tests":
        return tests_batch(agent, context, _steps(context, "tests") + number, size)
    steps = _before("recall", _steps(context, "recall"))
    return naming.lesson_batch(agent, context, steps + number, 8 * size, steps)


def _longest(context: Context, lesson: str, update: int) -> int:
    """The longest way at an update of a lesson: a fifth for 30 % of the steps, growing to all of it at 70 %.

    Short ones first, until what is seen is carried at all: where the ways grew from the beginning on, nothing was
    learned in 70 steps.
    """
    done = update / _steps(context, lesson)
    whole = LONGEST.get(context.config.size, mazes.LENGTH)
    return max(2, round(min(1.0, 0.2 + 2.0 * max(0.0, done - 0.3)) * whole))


def taught(
    context: Context,
    name: str,
    loss: Loss,
    make: Make,
    batch: int,
    learning_rate: float,
    minutes: float,
    trains: tuple[str, ...] | None = None,
    **more: Any,
) -> Lesson:
    """A lesson taught by gradient on `loss`; its batch is `make(agent, context, update, size)`.

    Args:
        batch: rows a step (8 at size tiny), unless the configuration says otherwise.
        trains: prefixes of the parameters it changes, none of which an earlier stage uses; by default `parts.trained`.
        more: further arguments of Lesson.
    """
    changed = context.config.lessons.get(name)
    size = (changed and changed.batch) or (batch if context.config.size != "tiny" else 8)
    rate = (changed and changed.learning_rate) or learning_rate

    def learner(agent: Agent, context: Context) -> GradientLearner:
        mine = parts.trained(agent) if trains is None else trains
        return GradientLearner(
            agent, loss, steps=0, seed=context.seed, learning_rate=rate, trains=mine, rehearses=trains is None
        )

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: make(agent, context, update, size), steps)

    return Lesson(name, learner, batches, STEPS[name][context.config.size], minutes, **more)
