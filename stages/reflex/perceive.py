"""Supervised perception: one task a step, in a fixed cycle; dense and fine-grained tasks get more of the turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context
from devmind.learners.gradient import Loss
from stages.reflex import binding, hear, locate, noticing, recordings, see, speech, whereabouts

TASKS: dict[str, tuple[Callable[[Context, int, int], dict[str, Any]], Loss]] = {
    "locate": (locate.lesson_batch, locate.loss),
    "see": (see.lesson_batch, see.loss),
    "hear": (hear.lesson_batch, hear.loss),
    "whereabouts": (whereabouts.lesson_batch, whereabouts.loss),
    "bind": (binding.lesson_batch, binding.loss),
    "direction": (binding.direction_batch, binding.direction_loss),
    "motion": (noticing.motion_batch, noticing.motion_loss),
    "event": (noticing.event_batch, noticing.event_loss),
    "speech": (speech.lesson_batch, speech.loss),
}
CYCLE = (
    "locate", "whereabouts", "event", "see", "whereabouts", "locate", "event", "bind", "whereabouts", "locate",
    "event", "whereabouts", "hear", "see", "locate", "whereabouts", "event", "direction", "locate", "whereabouts",
    "event", "bind", "whereabouts", "see", "locate", "whereabouts", "event", "motion",
)  # fmt: skip
RECORDINGS_AFTER = 4
"""So many tasks of the cycle, then one turn of pictures and two of speech, where the run was given those."""


def cycle(context: Context) -> tuple[str, ...]:
    """The order of the tasks. Recordings come on top: no other task has fewer turns for them in a longer lesson."""
    extra = ("see",) * recordings.has_pictures(context.data) + ("speech",) * 2 * speech.taught(context)
    blocks = (CYCLE[i : i + RECORDINGS_AFTER] for i in range(0, len(CYCLE), RECORDINGS_AFTER))
    return tuple(task for block in blocks for task in (*block, *extra))


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """A batch of the task whose turn it is; the task sees its own count of turns, so that it meets all its levels."""
    order = cycle(context)
    task = order[update % len(order)]
    turn = update // len(order) * order.count(task) + order[: update % len(order)].count(task)
    return {"task": task} | TASKS[task][0](context, turn, size)


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, Mapping[str, Tensor]]:
    """The task's own loss."""
    return TASKS[batch["task"]][1](agent, batch)
