"""The stage `crowd`: name handwritten digits of 8 x 8 pixels, taught by a population."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from sklearn.datasets import load_digits

from devmind.agent import Agent, collate_tick
from devmind.algorithms.ridge import fit_ridge_classifier
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Exam, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context, Lesson, Skill
from devmind.learners.population import population_lesson
from devmind.seeding import numpy_rng

HEAD, SENSE, HELD_OUT = "digit", "pixels", 400
OPTIONS = {"classes": 10, "hidden": 32, "activation": "relu"}


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pictures float32 [N, 64] and labels int64 [N] of lessons, then those of exams."""
    found = load_digits()
    x, y = (found.data / 16).astype(np.float32), found.target.astype(np.int64)
    return x[:-HELD_OUT], y[:-HELD_OUT], x[-HELD_OUT:], y[-HELD_OUT:]


def batch_of(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Pictures as a Batch of one Moment each, with labels [N, 1]."""
    return collate_tick({SENSE: x}, np.ones(len(x), bool)) | {HEAD: torch.from_numpy(y)[:, None]}


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """Pictures that the members share; each goes through them in an order of its own."""
    x, y, *_ = digits()
    some = numpy_rng("crowd", context.seed, update).integers(0, len(x), rows)
    return batch_of(x[some], y[some])


def examine(agent: Agent, context: Context) -> Exam:
    """Share of unseen digits named correctly; the floor is a ridge on the same pixels."""
    x, y, unseen, labels = (part[: context.episodes(HELD_OUT)] if i > 1 else part for i, part in enumerate(digits()))
    right = (agent(batch_of(unseen, labels), [HEAD])[HEAD].mode()[:, 0].cpu().numpy() == labels).astype(np.float64)
    floor = float((fit_ridge_classifier(x, y, penalty=100.0).predict(unseen) == labels).mean())
    return Exam([Measure("digits", "digits named correctly", right, chance=0.1, floors={"ridge on pixels": floor},
                         rate=True, episodes=identities({SENSE: unseen}))])  # fmt: skip


def taught(context: Context, n: int) -> np.ndarray:
    """Pictures that lessons show; the exam has none of them."""
    return identities({SENSE: digits()[0][:n]})


class CrowdStage:
    """Name handwritten digits."""

    name = "crowd"
    requires = ()
    skills = (
        Skill("digits", examine, Gate([Threshold("digits", 0.8)]), "names unseen digits of 8 x 8 pixels", taught),
    )

    def admit(self, agent: Agent) -> None:
        """Add the sense, and the head that reads its numbers as they are."""
        if SENSE not in agent.encoders:
            agent.add_encoder(SENSE, space=spaces.Box(0, 1, (64,), np.float32), stage=self.name)
            agent.add_head(HEAD, "head.categorical", tap=f"raw:{SENSE}", stage=self.name, options=OPTIONS)

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """One lesson: 200 members, each with its own learning rate, weight decay and order of the pictures."""
        return [
            population_lesson(
                context, "digits", HEAD, HEAD, lesson_batch, steps=60, rows=256, minutes=0.2, members=200,
                skills=("digits",),
            )
        ]  # fmt: skip
