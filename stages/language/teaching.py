"""How the stage's lessons are made: by gradient on a loss, each with the steps of its size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.learners.gradient import GradientLearner, Loss
from devmind.learners.muon import Muon
from stages.language import parts

TINY_ROWS = 8


class TextLearner(GradientLearner):
    """A GradientLearner whose matrices of the trunk step by Muon: it reads better after equal steps."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Muon and AdamW as one optimizer."""
        return Muon(self.trained_parameters(), self.learning_rate, self.weight_decay)


Make = Callable[[Context, int, int], Any]
"""`(context, update, rows) -> batch`: it reads nothing of the agent, so it is made ahead."""


def taught(
    context: Context,
    name: str,
    loss: Loss,
    make: Make,
    steps: Mapping[str, int],
    rows: int,
    learning_rate: float,
    minutes: float,
    **more: Any,
) -> Lesson:
    """A lesson taught by gradient on `loss`, whose batches `make` makes.

    Args:
        steps: by size.
        rows: of a batch (8 at size tiny), unless the configuration says otherwise.
        more: further arguments of Lesson.
    """
    changed, size = context.config.lessons.get(name), context.config.size
    count = (changed and changed.batch) or (rows if size != "tiny" else TINY_ROWS)
    rate = (changed and changed.learning_rate) or learning_rate

    def learner(agent: Agent, context: Context) -> TextLearner:
        mine = parts.trained(agent)
        return TextLearner(agent, loss, seed=context.seed, learning_rate=rate, trains=mine)

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: make(context, update, context.rows(count)), steps, ahead=True)

    return Lesson(name, learner, batches, steps[size], minutes, skills=(name,), **more)
