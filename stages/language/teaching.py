"""How the stage's lessons are made: by gradient on a loss, each with the steps of its size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from devmind.algorithms.muon import Muon
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import GradientLearner, Loss, gradient_lesson
from stages.language import parts

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
        rows: of a batch.
        more: further arguments of Lesson; without `skills` it improves the one of its own name.
    """
    return gradient_lesson(
        context, name, loss, lambda agent, context, update, rows, steps: make(context, update, rows), steps=steps,
        rows=rows, learning_rate=learning_rate, minutes=minutes, trains=parts.trained, learner=TextLearner,
        prefetch=True, control_trains=parts.trained_without_trunk, **{"skills": (name,), **more},
    )  # fmt: skip
