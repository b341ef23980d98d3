"""How the stage's lessons are made: by gradient on a loss, each with the steps of its size; Muon steps the trunk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import Loss, gradient_lesson
from devmind.learners.muon import TRUNK, MuonLearner
from stages.language import parts

Make = Callable[[Context, int, int], Any]
"""`(context, update, rows) -> batch`: it reads nothing of the agent, so it is made ahead."""


class LanguageLearner(MuonLearner):
    """Muon on the trunk's matrices and on what is made of a look."""

    orthogonal: ClassVar[tuple[str, ...]] = (*TRUNK, f"heads.{parts.TEXT}.tells.")


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
        more: further arguments of `gradient_lesson`; without `skills` it improves the one of its own name.
    """
    return gradient_lesson(
        context, name, loss, lambda agent, context, update, rows, steps: make(context, update, rows), steps=steps,
        rows=rows, learning_rate=learning_rate, minutes=minutes, trains=parts.trained, prefetch=True,
        control_trains=parts.trained_without_trunk,
        **{"skills": (name,), "learner": LanguageLearner, "rehearsal_every": 0, **more},
    )  # fmt: skip
