"""The lesson `criticise`: plans with and without a flaw, and where and why they fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.learners.gradient import GradientLearner
from devmind.seeding import numpy_rng
from stages.planning import parts
from stages.planning.criticise.drafts import Drafts, drafts
from stages.planning.route.lesson import shown

STEPS = {"tiny": 20, "nursery": 1500, "child": 6000, "adult": 12_000}
ROWS = {"tiny": 16}
MINUTES = 2.0
LEARNING_RATE = 2e-3
ALONE = "It trains only a head of its own on the numbers of a plan, which no later lesson changes."


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    size = context.config.size
    rows, rate = context.changed("criticise", ROWS.get(size, 64), LEARNING_RATE)

    def learner(agent: Agent, context: Context) -> GradientLearner:
        return GradientLearner(agent, loss, seed=context.seed, learning_rate=rate, trains=(f"heads.{parts.JUDGE}.",))

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        trips = shown(context)

        def make(update: int) -> dict[str, Any]:
            rng = numpy_rng(context.seed, "criticise", update)
            return batch(drafts(trips, context.rows(rows), rng, parts.horizon(size)))

        return Batches(make, steps, prefetch=True)

    return Lesson(
        "criticise", learner, batches, STEPS[size], MINUTES, rehearsal_every=0, skills=("criticise",), unrehearsed=ALONE
    )


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
