"""How the stage's lessons are made: by gradient on a loss, with steps by size; Muon updates the trunk's matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import Loss, gradient_lesson
from devmind.learners.muon import TRUNK, MuonLearner
from stages.language import parts

Make = Callable[[Context, int, int], Any]
"""`(context, update, rows) -> batch`. It does not need the agent, so batches are made ahead."""


class LanguageLearner(MuonLearner):
    """Muon on the trunk's matrices and on those of the writing head's look; AdamW on the rest."""

    orthogonal: ClassVar[tuple[str, ...]] = (*TRUNK, f"heads.{parts.TEXT}.tells.")


def supervised_lesson(
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
    """A lesson taught by gradient on `loss`, with batches by `make`.

    Args:
        steps: by size.
        rows: of a batch.
        more: further arguments of `gradient_lesson`; by default `skills` is the one of the lesson's name.
    """
    return gradient_lesson(
        context, name, loss, lambda agent, context, update, rows, steps: make(context, update, rows), steps=steps,
        rows=rows, learning_rate=learning_rate, minutes=minutes, trains=parts.trained_weights, prefetch=True,
        control=(), **{"skills": (name,), "learner": LanguageLearner, **more},
    )  # fmt: skip
