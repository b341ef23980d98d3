"""The stage's lessons and their budgets: steps by size, and minutes at size nursery on two cores of 100 GFLOP/s."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.prediction import prediction_loss
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.learners.gradient import Loss, gradient_lesson, trainable, without_shared
from devmind.learners.policy import Drill, PolicyLearner
from devmind.learners.population import Niche, evolution_lesson
from devmind.learners.ppo import PPO
from devmind.sessions import written
from devmind.sessions.spoken import speaker_group
from devmind.worlds.fed import ROOM
from devmind.worlds.nursery.looks import WITHOUT
from stages.reflex import together
from stages.reflex.bind import lesson as bind
from stages.reflex.foresee import lesson as foresee
from stages.reflex.hear import lesson as hear
from stages.reflex.locate import lesson as locate
from stages.reflex.orient import lesson as orient
from stages.reflex.reach import lesson as reach
from stages.reflex.see import lesson as see
from stages.reflex.startle import lesson as startle

STEPS = {
    "watch": {"tiny": 4, "nursery": 150, "child": 3000, "adult": 10000},
    "perceive": {"tiny": 28, "nursery": 5200, "child": 20000, "adult": 60000},
    "gaze": {"tiny": 14, "nursery": 1260, "child": 5600, "adult": 15600},
    "motor": {"tiny": 17, "nursery": 595, "child": 2380, "adult": 6800},
    "balance": {"tiny": 2, "nursery": 25, "child": 50, "adult": 50},
    "together": {"tiny": 4, "nursery": 110, "child": 1650, "adult": 5000},
}
KEPT, REHEARSAL_COST = 144, 0.13
"""For rehearsals of `together` by later stages: the number of batches, which repeat, as rollouts take longer than
learning from them; and the time of a rehearsal relative to a step of the lesson (measured at size nursery). A third of
these batches hold some fifty events to withdraw from; memory learned those by heart and lost others (docs/log.md,
2026-11-26).
"""

TASKS: dict[str, tuple[Callable[[Context, int, int], dict[str, Any]], Loss]] = {
    "locate": (locate.lesson_batch, locate.loss),
    "see": (see.lesson_batch, see.loss),
    "hear": (hear.lesson_batch, hear.loss),
    "whereabouts": (reach.lesson_batch, reach.loss),
    "bind": (bind.lesson_batch, bind.loss),
    "direction": (bind.direction_batch, bind.direction_loss),
    "motion": (orient.motion_batch, orient.motion_loss),
    "event": (startle.event_batch, startle.event_loss),
    "speech": (hear.speech_batch, hear.speech_loss),
}
PERCEIVE_CYCLE = (
    "locate", "whereabouts", "event", "see", "whereabouts", "locate", "event", "bind", "whereabouts", "locate",
    "event", "whereabouts", "hear", "see", "locate", "whereabouts", "event", "direction", "locate", "whereabouts",
    "event", "bind", "whereabouts", "see", "locate", "whereabouts", "event", "motion",
)  # fmt: skip
RECORDINGS_AFTER = 4
"""Tasks of the cycle between turns of recordings: one of pictures and two of speech, if the run was given those."""

# Turning is rewarded at once by the distance gained, so a discount of zero learns fastest. Orient stops one tick before
# its closing bonus, which would outweigh that. Reaching must go round obstacles, so it looks ahead. Startle needs a
# high entropy at first: quiet ticks teach it to rest long before it can tell the few looming objects.
DRILLS = {
    "orient": Drill(
        "look",
        "nursery",
        ("orient/sight", "orient/sound", "orient/motion", "clutter/empty"),
        32,
        9,
        log_std=(-1.0, -2.0),
    ),
    "track": Drill("look", "nursery", ("track", "orient/empty", "clutter/empty"), 32, 12, log_std=(-1.0, -2.0)),
    "reach": Drill(
        "reach", "nursery", ("reach",), 160, 8, PPO(discount=0.9, epochs=4, batches=4), log_std=(-0.7, -1.5)
    ),
    "startle": Drill("move", "nursery", ("startle",), 64, 20, PPO(entropy=0.2, batches=4)),
    "balance": Drill(
        "push", "cartpole", ("",), 32, 32, PPO(0.98, 0.8, epochs=10, batches=4), learning_rate=2e-3, lasting=True
    ),
}
INIT_FROM = {"reach_arc": "whereabouts", "reach_value": "whereabouts", "move_arc": "event", "move_value": "event"}
"""Arcs and critics, and the perceiving heads whose reading of the tokens they take over and keep: rewards can only blur
what perception learned from thousands of rooms."""
FROZEN = (*INIT_FROM, "look_arc")
"""Heads that keep their reading while rewards teach the answer; the looking arc has its reading from `gaze`."""
BALANCE = "balance"
"""A drill of `motor`, or a lesson of its own."""
MOTOR_CYCLE = (
    "balance", "orient", "reach", "startle", "balance", "track", "reach", "startle",
    "balance", "track", "reach", "startle", "balance", "orient", "track", "reach", "startle",
)  # fmt: skip


def lessons(context: Context) -> Sequence[Lesson]:
    """The lessons, in the order they are taught."""
    longer = len(perceive_cycle(context)) / len(PERCEIVE_CYCLE)
    return [
        gradient_lesson(
            context,
            "watch",
            prediction_loss,
            lambda agent, context, update, rows, steps: foresee.lesson_batch(context, update, rows),
            steps=STEPS["watch"],
            rows=16,
            learning_rate=1e-3,
            minutes=2.0,
            prefetch=context.feed_of(ROOM) is None,
            learns_from=WITHOUT,
            rehearsed=False,  # `together` trains prediction too
        ),
        gradient_lesson(
            context,
            "perceive",
            perceive_loss,
            lambda agent, context, update, rows, steps: perceive_batch(context, update, rows),
            steps={size: round(longer * steps) for size, steps in STEPS["perceive"].items()},
            rows=64,
            learning_rate=3e-3,
            minutes=6.5 * longer,
            trains=lambda agent: without_shared(trainable(agent)),
            prefetch=True,
            skills=("see", "hear", "bind", "locate"),
            learns_from=groups(context),
        ),
        gradient_lesson(
            context,
            "gaze",
            orient.loss,
            lambda agent, context, update, rows, steps: orient.lesson_batch(context, update, rows),
            steps=STEPS["gaze"],
            rows=96,
            learning_rate=2e-3,
            minutes=2.5,
            trains=lambda agent: orient.TRAINS,
            prefetch=True,
            skills=("orient", "track"),
        ),
        _motor(context),
        *([_balance(context)] if BALANCE in context.config.lessons else []),
        _together(context),
    ]


def groups(context: Context) -> tuple[str, ...]:
    """The recordings of the run that the lessons use, for the agent's `trained_on`."""
    pictured = written.source_group(written.pictures(context.data), context.seed)
    speakers = sorted(set(hear.lesson_clips(context).speakers)) if hear.has_speech(context) else []
    return (pictured, *(speaker_group(name) for name in speakers))


def perceive_cycle(context: Context) -> tuple[str, ...]:
    """The order of the tasks. Recordings make the lesson longer, so that no other task loses turns."""
    extra = ("see",) * written.has_pictures(context.data) + ("speech",) * 2 * hear.has_speech(context)
    blocks = (PERCEIVE_CYCLE[i : i + RECORDINGS_AFTER] for i in range(0, len(PERCEIVE_CYCLE), RECORDINGS_AFTER))
    return tuple(task for block in blocks for task in (*block, *extra))


def perceive_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """A batch of the task whose turn it is; it gets its own count of turns, so that it goes through all its levels."""
    order = perceive_cycle(context)
    task = order[update % len(order)]
    turn = update // len(order) * order.count(task) + order[: update % len(order)].count(task)
    return {"task": task} | TASKS[task][0](context, turn, size)


def perceive_loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, Mapping[str, Tensor]]:
    """The loss of the batch's task."""
    return TASKS[batch["task"]][1](agent, batch)


def motor_cycle(context: Context) -> tuple[str, ...]:
    """The order of the drills; without balance where the configuration makes that a lesson of its own."""
    return tuple(drill for drill in MOTOR_CYCLE if drill != BALANCE or BALANCE not in context.config.lessons)


def motor_learner(agent: Agent, context: Context, crowd: float | None = None) -> PolicyLearner:
    """The learner of the arcs; size tiny has a tenth of the rows."""
    crowd = (0.1 if context.config.size == "tiny" else 1.0) if crowd is None else crowd
    drills = {name: drill for name, drill in DRILLS.items() if name in motor_cycle(context)}
    return PolicyLearner(agent, context, drills, init_from=INIT_FROM, frozen=FROZEN, crowd=crowd)


def _motor(context: Context) -> Lesson:
    """The arcs practise by PPO, in turn: a step updates one arc and its critic."""

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: {"drill": cycle[update % len(cycle)]}, steps)

    cycle = motor_cycle(context)
    steps = STEPS["motor"][context.config.size] * len(cycle) // len(MOTOR_CYCLE)
    skills = ("orient", BALANCE) if BALANCE in cycle else ("orient",)
    return Lesson("motor", motor_learner, batches, steps, 4.0, skills=skills, settings=())


def _balance(context: Context) -> Lesson:
    """Balance as a lesson of its own, where a configuration names it: by rewards as in `motor`, or by a population."""
    size, drill = context.config.size, DRILLS[BALANCE]
    members, episodes = (24, 2) if size == "tiny" else (128, 4)
    if context.config.lessons[BALANCE].learner == "population":
        niche = Niche(drill.effector, drill.world, members=members, episodes=episodes, spread=0.3)
        return evolution_lesson(context, BALANCE, niche, steps=STEPS[BALANCE][size], minutes=1.0, skills=(BALANCE,))

    def learner(agent: Agent, context: Context) -> PolicyLearner:
        return PolicyLearner(agent, context, {BALANCE: drill}, crowd=0.1 if size == "tiny" else 1.0)

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: {"drill": BALANCE}, steps)

    steps = STEPS["motor"][size] * MOTOR_CYCLE.count(BALANCE) // len(MOTOR_CYCLE)
    return Lesson(BALANCE, learner, batches, steps, 0.7, skills=(BALANCE,), settings=(), learners=("population",))


def _together(context: Context) -> Lesson:
    """The trunk's own lesson, which later stages rehearse."""
    size, _ = context.changed("together", 36 if context.config.size != "tiny" else 6, 0.0)

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        rehearsed = context.rows_share < 1

        def make(update: int) -> dict[str, Any]:
            return together.lesson_batch(agent, context, update, context.rows(size), rehearsed)

        return Batches(make, steps, kept=KEPT if rehearsed else 0)

    return Lesson(
        "together",
        together.TrunkLearner,
        batches,
        STEPS["together"][context.config.size],
        5.0,
        rehearsal_cost=REHEARSAL_COST,
        skills=("orient", "track"),
        learns_from=groups(context),
        control=(),
    )
