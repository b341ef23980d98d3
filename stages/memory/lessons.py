"""The stage's lessons and their budgets: steps by size, and minutes at size nursery on two cores of 100 GFLOP/s.

To add a lesson, add one call of `supervised_lesson` to `lessons`. Lessons after `fetch` rehearse it and each other, or
their skills would be lost. `fetch` comes before all that the trunk has to hold for long, because it changes the trunk
most (Muon): after `hidden` it cost `recall` an eighth of the names, which the review did not restore.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.config import by_size
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import Loss, gradient_lesson, owned_parts, trainable
from devmind.learners.review import NAME, review
from devmind.worlds import minigrid
from stages.memory import parts, short_term
from stages.memory.fetch import lesson as fetch
from stages.memory.match import lesson as match
from stages.memory.maze import lesson as maze
from stages.memory.permanence import detections
from stages.memory.permanence import lesson as permanence
from stages.memory.recall import lesson as recall
from stages.memory.recall.things import PAIRS
from stages.memory.repeat_previous import exam as repeat_previous

STEPS: Mapping[str, Mapping[str, int]] = {
    "boards": {"tiny": 6, "nursery": 800, "child": 2000, "adult": 3000},
    "sign": {"tiny": 5, "nursery": 120, "child": 1500, "adult": 4500},
    "things": {"tiny": 6, "nursery": 300, "child": 3000, "adult": 9000},
    "beliefs": {"tiny": 6, "nursery": 600, "child": 2000, "adult": 4000},
    "fetch": {"tiny": 3, "nursery": 200, "child": 1000, "adult": 3000},
    "tests": {"tiny": 9, "nursery": 900, "child": 4500, "adult": 13500},
    "recall": {"tiny": 4, "nursery": 330, "child": 1500, "adult": 4000},
    "match": {"tiny": 4, "nursery": 600, "child": 1500, "adult": 4000},
    "hidden": {"tiny": 3, "nursery": 240, "child": 1000, "adult": 3000},
    "review": {"tiny": 7, "nursery": 930, "child": 2330, "adult": 7000},
}
REVIEWED = ("recall", "match", "tests", "recall", "hidden", "tests", "fetch")
"""The turns of the lesson `review`. `recall` and `tests` have two: `match` and `hidden` cost `recall` most."""
CYCLE = ("corridor", "hallway", "cards", "corridor", "hallway", "sign", "corridor", "cards", "hallway")
"""The turns of the lesson `tests`."""
VIEWS = by_size(64, tiny=8)
"""Single boards in every step with hallways: the thing to remember has to be seen first."""
LONGEST = by_size(short_term.LONGEST_TAUGHT, tiny=12)
"""The greatest length in a lesson, in Moments: trunks of size tiny see eight."""
BOARDS = ("encoders.board.", "heads.cells.", "heads.glance.")
Make = Callable[[Agent, Context, int, int, int], Any]


def lessons(context: Context) -> Sequence[Lesson]:
    """The lessons, in the order they are taught."""
    boards = supervised_lesson(
        context, "boards", boards_loss, boards_batch, 32, 3e-3, 0.7, trains=BOARDS, skills=("maze",)
    )
    all_lessons = [
        *([boards] if minigrid.minigrid_installed() else []),
        supervised_lesson(
            context, "sign", short_term.loss, sign_batch, 32, 1e-3, 1.0, skills=("memory_len",),
            rehearsed=False,  # `tests` contains it
        ),
        supervised_lesson(
            context, "things", detections.loss, things_batch, 64, 2e-3, 1.0, skills=("permanence",),
            trains=detections.TRAINS,
        ),
        supervised_lesson(
            context, "beliefs", permanence.beliefs_loss, beliefs_batch, 256, 3e-3, 0.7, skills=("permanence",),
            trains=permanence.BELIEFS_TRAIN,
        ),
        supervised_lesson(
            context, fetch.NAME, fetch.loss, fetch.lesson_batch, 5, 1e-3, 1.5, skills=("fetch",),
            learner=fetch.FetchLearner,
        ),
        supervised_lesson(
            context, "tests", loss, tests_batch, 16, 1e-3, 7.5, skills=("memory_len", "maze", "repeat_previous"),
            rehearses=(fetch.NAME,),
        ),
        supervised_lesson(
            context, "recall", recall.loss, recall.lesson_batch, 64, 1e-3, 2.0, skills=("recall",),
            rehearses=("tests", fetch.NAME), rehearsal_every=2, learns_from=(PAIRS,),
        ),
        supervised_lesson(
            context, "match", match.loss, match.lesson_batch, 32, 1e-3, 3.0, skills=("match",), prefetch=True,
            rehearses=("tests", "recall", fetch.NAME), rehearsal_every=2,
        ),
        supervised_lesson(
            context, "hidden", permanence.loss, hidden_batch, 8, 1e-3, 4.7, skills=("permanence",),
            rehearses=("tests", "recall", "match", "tests", fetch.NAME), rehearsal_every=2,
        ),
    ]  # fmt: skip
    steps = STEPS[NAME][context.config.size]
    again = review(all_lessons, REVIEWED, steps=steps, minutes=2.3, learning_rate=1e-3, control=())
    return [*all_lessons, again]


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of imitating the teacher, and of single boards if the batch has some."""
    total, scalars = short_term.loss(agent, batch)
    if "view" not in batch:
        return total, scalars
    seen, more = maze.view_loss(agent, batch["view"])
    return total + seen, scalars | more


def boards_loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of single boards for their own encoder."""
    return maze.view_loss(agent, batch, by_trunk=False)


def boards_batch(agent: Agent, context: Context, update: int, size: int, steps: int) -> dict[str, Any]:
    """Single boards of MiniGrid's rooms."""
    return maze.view_batch(context, update, size)


def sign_batch(agent: Agent, context: Context, update: int, size: int, steps: int) -> dict[str, Any]:
    """memory_len alone, in growing lengths."""
    longest = _longest(context, update / steps)
    return short_term.growing_batch(context, "memory_len", update, size, longest) | short_term.share(context, update)


def tests_batch(agent: Agent, context: Context, update: int, size: int, steps: int) -> dict[str, Any]:
    """All short-term tests in turn, with growing lengths and changing windows."""
    return _turn(context, update, size, _longest(context, update / steps)) | short_term.share(context, update)


def _turn(context: Context, update: int, size: int, longest: int) -> dict[str, Any]:
    turns = [turn for turn in CYCLE if turn != "hallway" or minigrid.minigrid_installed()]
    turn = turns[update % len(turns)]
    if turn == "cards":
        return short_term.episode_batch(context, repeat_previous.NAME, repeat_previous.LEVEL, update, size)
    if turn == "corridor":
        return short_term.growing_batch(context, "tmaze", update, size, longest)
    if turn == "sign":
        return short_term.growing_batch(context, "memory_len", update, size, longest)
    views = maze.view_batch(context, update, VIEWS[context.config.size])
    return maze.lesson_batch(context, update, 2 * size) | {"view": views}


def things_batch(agent: Agent, context: Context, update: int, size: int, steps: int) -> dict[str, Any]:
    """A batch of `detections`: where things are, in rooms with covers."""
    return detections.lesson_batch(context, update, size)


def beliefs_batch(agent: Agent, context: Context, update: int, size: int, steps: int) -> dict[str, Any]:
    """A batch of beliefs, and where the thing is."""
    return permanence.beliefs_batch(agent, context, update, size)


def hidden_batch(agent: Agent, context: Context, update: int, size: int, steps: int) -> dict[str, Any]:
    """Questions about hidden things in single Moments; after a third of the steps also in whole episodes, in turn."""
    whole = update >= steps // 3 and update % 2 == 0
    return permanence.lesson_batch(agent, context, update, size, whole=whole, steps=steps)


def _longest(context: Context, done: float) -> int:
    """The greatest length when the share `done` of a lesson is over: a fifth until 30 % of the steps, all at 70 %.

    Short lengths come first, until the trunk carries anything: with lengths that grew from the start nothing was
    learned in 70 steps.
    """
    whole = LONGEST[context.config.size]
    return max(2, round(min(1.0, 0.2 + 2.0 * max(0.0, done - 0.3)) * whole))


def supervised_lesson(
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
    """A lesson taught by gradient on `loss`; its batch is `make(agent, context, update, size, steps)`.

    Args:
        batch: rows a step.
        trains: prefixes of the parameters to train, without those of another stage; by default `trainable`, which
            includes the trunk. A lesson with the default has a control.
        more: further arguments of Lesson.
    """

    def prefixes(agent: Agent) -> tuple[str, ...]:
        if trains is None:
            return trainable(agent, parts.NAME)
        # `board` is the language stage's if that came first
        return tuple(prefix for prefix in trains if prefix.startswith(owned_parts(agent, parts.NAME)))

    if trains is None:
        more["control"] = ()
    return gradient_lesson(
        context, name, loss, make, steps=STEPS[name], rows=batch, learning_rate=learning_rate, minutes=minutes,
        trains=prefixes, **more,
    )  # fmt: skip
