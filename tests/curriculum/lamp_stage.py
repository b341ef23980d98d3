"""A stage small enough for tests: name the lit lamp of the fake world, in two lessons, one with prefetched batches."""

from __future__ import annotations

import numpy as np
import torch

from devmind.agent.batch import collate_tick
from devmind.curriculum.exam import Exam, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Batches, Lesson, Skill
from devmind.learners.gradient import GradientLearner
from devmind.seeding import exam_seeds, lesson_seeds
from devmind.testing.fakes import LampRules


def shown(seeds):
    rules = LampRules()
    state = rules.initial(seeds)
    body = rules.observe(state)["body"]
    return collate_tick(
        {"body": np.concatenate([body[:, :1], np.eye(3, dtype=np.float32)[state.lit]], 1)}, np.ones(len(seeds), bool)
    ), torch.from_numpy(state.lit)


class LampStage:
    name, requires = "lamps", ()

    def __init__(self, bound=0.9, lesson_names=("one", "two"), steps=12, name="lamps", requires=()):
        self.bound, self.lesson_names, self.steps, self.name, self.requires = bound, lesson_names, steps, name, requires
        self.skills = (
            Skill(f"{name}-lit", self.examine, Gate([Threshold(f"{name}-lit", bound)]), "which lamp is lit"),
        )

    def admit(self, agent):
        agent.ensure_encoder("body", stage=self.name)
        if f"{self.name}-lit" not in agent.heads:
            for name, tap in ((f"{self.name}-lit", "body"), (f"{self.name}-deep", "trunk")):
                agent.add_head(name, "head.categorical", tap=tap, stage=self.name, options={"classes": 3})

    def loss(self, agent, batch):
        outputs = agent(batch, [f"{self.name}-lit", f"{self.name}-deep"])
        losses = [output.loss(batch["lit"]) for output in outputs.values()]
        return losses[0] + losses[1], {"lit": losses[0].detach()}

    def lessons(self, context):
        def learner(agent, context):
            return GradientLearner(agent, self.loss, seed=context.seed, learning_rate=2e-2)

        def batches(name):
            def make(update):
                batch, lit = shown(lesson_seeds(16, context.seed, name, update))
                return batch | {"lit": lit[:, None]}

            return lambda agent, context, steps: Batches(make, steps, prefetch=name == "two")

        return [
            Lesson(name, learner, batches(name), self.steps, 1.0, skills=(f"{self.name}-lit",))
            for name in self.lesson_names
        ]

    def examine(self, agent, context):
        batch, lit = shown(exam_seeds(64, "lamps"))
        right = (agent(batch, [f"{self.name}-lit"])[f"{self.name}-lit"].mode()[:, 0] == lit).numpy()
        return Exam([Measure(f"{self.name}-lit", "named", right.astype(float), 1 / 3, 1.0, rate=True)])
