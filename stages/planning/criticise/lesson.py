"""The lesson `criticise`: plans with and without a flaw, and where and why they fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.agent.config import by_size
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import gradient_lesson
from devmind.seeding import numpy_rng
from stages.planning import parts
from stages.planning.criticise.drafts import Drafts, drafts
from stages.planning.route.lesson import oracle_trips

STEPS = {"tiny": 20, "nursery": 1500, "child": 6000, "adult": 12_000}
ROWS = by_size(64, tiny=16)


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    return gradient_lesson(
        context, "criticise", loss, make, steps=STEPS, rows=ROWS, learning_rate=2e-3, minutes=2.0,
        trains=lambda agent: (f"heads.{parts.JUDGE}.",), prefetch=True, skills=("criticise",),
    )  # fmt: skip


def make(agent: Agent, context: Context, update: int, rows: int, steps: int = 0) -> dict[str, Any]:
    """`rows` drafts."""
    rng = numpy_rng(context.seed, "criticise", update)
    return batch(drafts(oracle_trips(context), rows, rng, parts.HORIZONS[context.config.size]))


def batch(plans: Drafts) -> dict[str, Any]:
    """Drafts as a Batch of one Moment a row, with their targets."""
    target = {name: torch.from_numpy(getattr(plans, name))[:, None] for name in ("hit", "stuck", "reason")}
    return collate_tick({parts.DRAFT: plans.draft}, np.ones(len(plans.draft), bool)) | target


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Nats of the judgement on strides, moves and whole plans."""
    output: Any = agent.forward(dict(batch), [parts.JUDGE])[parts.JUDGE]
    target = {name: batch[name].to(agent.device) for name in ("hit", "stuck", "reason")}
    value = output.loss(target)
    return value, {"judge": value.detach(), "reason right": (output.mode() == target["reason"]).float().mean()}
