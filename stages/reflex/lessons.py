"""The lessons of the stage and their budgets: steps by size, and the minutes of nursery on 2 x 100 GFLOP/s."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from devmind.agent.agent import Agent
from devmind.agent.prediction import prediction_loss
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.learners.gradient import GradientLearner, Loss
from stages.reflex import gaze, motor, perceive, recordings, see, speech, together, watch

STEPS = {
    "watch": {"tiny": 4, "nursery": 150, "child": 3000, "adult": 10000},
    "perceive": {"tiny": 28, "nursery": 5200, "child": 20000, "adult": 60000},
    "gaze": {"tiny": 8, "nursery": 720, "child": 3600, "adult": 10000},
    "together": {"tiny": 4, "nursery": 100, "child": 1500, "adult": 4500},
}
STAYS = "It trains encoders, and heads that read nothing else; later stages leave both as they are."
Make = Callable[[Agent, Context, int, int], Any]


def lessons(context: Context) -> Sequence[Lesson]:
    """In the order they are taught."""
    longer = len(perceive.cycle(context)) / len(perceive.CYCLE)
    return [
        _gradient(
            context,
            "watch",
            prediction_loss,
            lambda a, c, u, n: watch.lesson_batch(c, u, n),
            16,
            1e-3,
            2.0,
            ahead=True,
            unrehearsed="The lesson together predicts as well, and is rehearsed.",
        ),
        _gradient(
            context,
            "perceive",
            perceive.loss,
            lambda a, c, u, n: perceive.lesson_batch(c, u, n),
            64,
            3e-3,
            6.5 * longer,
            longer=longer,
            ahead=True,
            unrehearsed=STAYS,
            skills=("see", "hear", "bind", "locate"),
            learns_from=groups(context),
        ),
        _gradient(
            context,
            "gaze",
            gaze.loss,
            lambda a, c, u, n: gaze.lesson_batch(c, u, n),
            96,
            2e-3,
            1.5,
            trains=gaze.TRAINS,
            ahead=True,
            unrehearsed=STAYS,
            skills=("orient", "track"),
        ),
        motor.lesson(context),
        _together(context),
    ]


def groups(context: Context) -> tuple[str, ...]:
    """What of the run's recordings the lessons use, for the agent's `trained_on`."""
    pictured = see.source_group(recordings.pictures(context.data), context.seed)
    speakers = sorted(set(speech.lesson_clips(context).speakers)) if speech.taught(context) else []
    return (pictured, *(recordings.speaker_group(name) for name in speakers))


def _together(context: Context) -> Lesson:
    """The trunk's own lesson, which later stages rehearse."""
    changed = context.config.lessons.get("together")
    size = (changed and changed.batch) or (36 if context.config.size != "tiny" else 6)

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: together.lesson_batch(agent, context, update, context.rows(size)), steps)

    return Lesson(
        "together",
        together.TrunkLearner,
        batches,
        STEPS["together"][context.config.size],
        5.0,
        skills=("orient", "track"),
        learns_from=groups(context),
        control=lambda agent, context: together.TrunkLearner(agent, context, together.HEADS),
    )


def _gradient(
    context: Context,
    name: str,
    loss: Loss,
    make: Make,
    batch: int,
    learning_rate: float,
    minutes: float,
    trains: tuple[str, ...] | None = None,
    longer: float = 1.0,
    ahead: bool = False,
    **more: Any,
) -> Lesson:
    """A lesson taught by gradient on `loss`; its batch is a function of (agent, context, update, size).

    It has `longer` times the steps of its row in STEPS.
    With `ahead` the batch must not depend on the agent: the next one is made while the agent learns from the last.
    """
    changed = context.config.lessons.get(name)
    size = (changed and changed.batch) or (batch if context.config.size != "tiny" else 8)
    rate = (changed and changed.learning_rate) or learning_rate

    def learner(agent: Agent, context: Context) -> GradientLearner:
        return GradientLearner(agent, loss, seed=context.seed, learning_rate=rate, trains=trains)

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: make(agent, context, update, context.rows(size)), steps, ahead)

    return Lesson(name, learner, batches, round(longer * STEPS[name][context.config.size]), minutes, **more)
