"""Lessons in which one head learns alone: ear, eye and trunk are frozen, so nothing taught before is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import GradientLearner, Loss, gradient_lesson
from devmind.learners.muon import MuonLearner


class HeadByMuon(MuonLearner):
    """Muon on the head's matrices."""

    orthogonal: ClassVar[tuple[str, ...]] = ("heads.",)


def head_lesson(
    context: Context,
    name: str,
    head: str,
    loss: Loss,
    make: Callable[[Context, int, int], Any],
    *,
    steps: Mapping[str, int],
    rows: int,
    learning_rate: float,
    minutes: float,
    skill: str,
    learner: Callable[..., GradientLearner] = GradientLearner,
    learns_from: Sequence[str] = (),
) -> Lesson:
    """A lesson that changes `head` and nothing else. Its control is the same on a trunk that lets all tokens through.

    Args:
        make: `(context, update, rows) -> batch`.
        steps: by size; further arguments: as those of `gradient_lesson` and Lesson.
    """

    def trains(agent: Agent) -> Sequence[str]:
        return (f"heads.{head}.",)

    return gradient_lesson(
        context, name, loss, lambda agent, context, update, rows, steps: make(context, update, rows),
        steps=steps, rows=rows, learning_rate=learning_rate, minutes=minutes, learner=learner, trains=trains,
        control=(), prefetch=True, skills=(skill,), learns_from=tuple(learns_from),
    )  # fmt: skip
