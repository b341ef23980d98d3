"""How the stage's lessons are made: by gradient on a loss, each with the steps of its size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from devmind.agent.agent import Agent
from devmind.algorithms.muon import Muon
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.learners.gradient import GradientLearner, Loss
from stages.language import parts

TINY_ROWS = 8
MATRICES = "trunk.decoder.layers."
"""Prefix of the parameters of which the matrices are stepped by Muon."""
RMS = 0.5
"""Root mean square of a step's entries at a rate of 1. AdamW's entries are about 0.2 to 0.4 of their rate; at 0.2 the
text of Shakespeare was learned more slowly in 100 to 400 steps.
"""


class TextLearner(GradientLearner):
    """A GradientLearner whose matrices of the trunk step by Muon: it reads better after equal steps."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Muon and AdamW as one optimizer: all matrices decay, vectors and gains do not."""
        groups: dict[str, list[nn.Parameter]] = {"trunk": [], "matrix": [], "vector": []}
        for name, parameter in self.trained_parameters():
            kind = "vector" if parameter.ndim < 2 else "trunk" if name.startswith(MATRICES) else "matrix"
            groups[kind].append(parameter)
        options: dict[str, dict[str, Any]] = {
            "trunk": {"orthogonal": True, "rms": RMS, "betas": (0.95, 0.95), "weight_decay": self.weight_decay},
            "matrix": {"weight_decay": self.weight_decay},
            "vector": {"weight_decay": 0.0},
        }
        made = [{"params": own, **options[kind]} for kind, own in groups.items() if own]
        return Muon(made, lr=self.learning_rate, betas=(0.9, 0.95))


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
