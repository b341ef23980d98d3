"""Supervised perception: one task a step, in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context
from stages.reflex import see

TASKS = {"see": see}
ORDER = ("see",)


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """A batch of the task whose turn it is."""
    task = ORDER[update % len(ORDER)]
    return {"task": task} | TASKS[task].lesson_batch(context, update, size)


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """The task's own loss."""
    return TASKS[batch["task"]].loss(agent, batch)
