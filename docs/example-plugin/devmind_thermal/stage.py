"""The stage `warmth`: which side is warmest? It requires nothing and brings its own sense."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent import Agent, collate_tick
from devmind.curriculum.episodes import of_lessons, of_worlds
from devmind.curriculum.exam import Exam, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Batches, Context, Lesson, Skill
from devmind.learners.gradient import GradientLearner, trainable
from devmind.seeding import exam_seeds, lesson_seeds
from devmind_thermal.world import ThermalRules


def sit(context: Context, seeds: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    """N children sit down: a Batch of one Moment each with the target `side`, and the readings float32 [N, 4]."""
    world = context.make_world("thermal", "", seeds)
    warmth = world.observe()["warmth"]
    batch = collate_tick({"warmth": warmth}, np.ones(len(seeds), dtype=bool))
    return batch | {"side": torch.from_numpy(world.truth()["side"])[:, None]}, warmth


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of the side."""
    value = agent(batch, ["warm_side"])["warm_side"].loss(batch["side"])
    return value, {"side": value.detach()}


def examine(agent: Agent, context: Context) -> Exam:
    """Share of unseen seats whose warmest side is named; the baseline answers with the strongest reading."""
    seeds = exam_seeds(context.episodes(600), "warmth")
    batch, warmth = sit(context, seeds)
    side = batch["side"]
    right = (agent(batch, ["warm_side"])["warm_side"].mode() == side).numpy()[:, 0]
    floor = float((warmth.argmax(axis=1) == side.numpy()[:, 0]).mean())
    floors = {"strongest reading": floor}
    episodes = of_worlds(context.make_world, "thermal", "", seeds)
    return Exam([Measure("warmth", "sides named correctly", right, 0.25, 1.0, floors, rate=True, episodes=episodes)])


def taught(context: Context, n: int) -> np.ndarray:
    """Seats of lessons; the exam has none of them."""
    return of_lessons(context.make_world, n, context.seed, "thermal", [""])


class WarmthStage:
    """A plugin with five members."""

    name = "warmth"
    requires = ()
    skills = (
        Skill("warmth", examine, Gate([Threshold("warmth", 0.9, beats_floor=True)]), "which side is warmest", taught),
    )

    def admit(self, agent: Agent) -> None:
        """Add the sense (its encoder follows from its space) and a head that reads its tokens."""
        agent.ensure_encoder("warmth", space=ThermalRules.observation_space["warmth"], stage=self.name)
        agent.ensure_head("warm_side", "head.categorical", tap="warmth", stage=self.name, options={"classes": 4})

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """One lesson by gradient; a batch is a function of (seed, update)."""

        def learner(agent: Agent, context: Context) -> GradientLearner:
            mine = trainable(agent, self.name)
            return GradientLearner(agent, loss, seed=context.seed, learning_rate=3e-3, trains=mine)

        def batches(agent: Agent, context: Context, steps: int) -> Batches:
            rows = context.rows(64)
            return Batches(lambda update: sit(context, lesson_seeds(rows, context.seed, "warmth", update))[0], steps)

        return [Lesson("sit", learner, batches, steps=600, minutes=0.5, skills=("warmth",))]
