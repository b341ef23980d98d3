"""The stage `walk`: imitate a guide by whole plans, and follow each for four ticks before the next is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from devmind.acting import Actor, Policy, returns
from devmind.agent import Agent, collate_tick
from devmind.curriculum.episodes import of_lessons, of_worlds
from devmind.curriculum.exam import Exam, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Batches, Context, Lesson, Skill
from devmind.learners.gradient import GradientLearner
from devmind.seeding import exam_seeds, numpy_rng, torch_generator
from devmind_diffuser.world import SHORE, PondRules, Walk, guide

HEAD, HORIZON, FOLLOW = "walk_plan", 16, 4
RULES = PondRules()


def places(n: int, rng: np.random.Generator) -> Walk:
    """N random states of walks: flag, pond and walker are drawn, the walker outside of the water."""
    at, flag, pond = (rng.uniform(-scale, scale, (n, 2)).astype(np.float32) for scale in (1.1, 1.0, 0.35))
    away, far = at - pond, np.linalg.norm(at - pond, axis=1, keepdims=True)
    at = np.where(far < SHORE + 0.02, pond + away / far * (SHORE + 0.02), at).astype(np.float32)
    return Walk(at, flag, pond, np.zeros(n, np.int64), np.zeros(n, bool))


def shown(n: int, rng: np.random.Generator) -> dict[str, Any]:
    """A Batch of N such walks with the guide's next 16 steps, [N, 1, 16, 2]."""
    walk, side, plan = places(n, rng), rng.choice([-1.0, 1.0], n), []
    batch = collate_tick(RULES.observe(walk), np.ones(n, dtype=bool))
    for _ in range(HORIZON):
        plan.append(guide(RULES.observe(walk)["body"], side))
        walk = RULES.step(walk, {"move": plan[-1]})
    return batch | {"plan": torch.from_numpy(np.stack(plan, 1))[:, None]}


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """The error of the guide's plans, predicted from noised ones."""
    value = agent(batch, [HEAD])[HEAD].loss(batch["plan"])
    return value, {"plan": value.detach()}


def examine(agent: Agent, context: Context) -> Exam:
    """Walks that reach the flag: by plans, each followed for four ticks, and by baselines on the same walks."""
    seeds = exam_seeds(context.episodes(1000), "pond")
    rng, side = numpy_rng("pond", "floors"), np.ones(len(seeds))
    noise = torch_generator("pond", "exam", device=agent.device)
    policies: dict[str, Policy] = {
        "plans": Actor(agent, len(seeds), effectors=["move"], generator=noise),
        "straight on": lambda senses, first: {"move": senses["body"][:, :2] / 0.01},
        "random": lambda senses, first: {"move": rng.normal(size=(len(first), 2))},
        "guide": lambda senses, first: {"move": guide(senses["body"], side)},
    }
    arrived = {name: returns(policy, context.make_world("pond", "", seeds)) for name, policy in policies.items()}
    floors = {name: float(arrived[name].mean()) for name in ("straight on", "random")}
    reference = f"the guide {arrived['guide'].mean():.2f}"
    measure = Measure("walk", "arrived", arrived["plans"], 0.0, 1.0, floors, rate=True, reference=reference,
                      episodes=of_worlds(context.make_world, "pond", "", seeds))  # fmt: skip
    return Exam([measure])


def taught(context: Context, n: int) -> np.ndarray:
    """The first states of lessons."""
    return of_lessons(context.make_world, n, context.seed, "pond", [""])


class WalkStage:
    """A walk around a pond by plans of 16 steps, drawn by diffusion."""

    name = "walk"
    requires = ()
    skills = (Skill("walk", examine, Gate([Threshold("walk", 0.9, beats_floor=True)]), "arrives, and dry", taught),)
    part_classes: ClassVar = {"head.walk-plan": "devmind_diffuser.head:PlanHead"}

    def admit(self, agent: Agent) -> None:
        """Declare the effector with its horizon, and add the head that plans for it."""
        agent.ensure_encoder("body", stage=self.name)
        if HEAD not in agent.heads:
            agent.add_effector("move", (2,), horizon=HORIZON)
            options = {"size": 2, "horizon": HORIZON, "follow": FOLLOW}
            agent.add_head(HEAD, "head.walk-plan", "raw:body", "move", stage=self.name, options=options)

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """One lesson; a batch is a function of (seed, update)."""

        def learner(agent: Agent, context: Context) -> GradientLearner:
            return GradientLearner(agent, loss, seed=context.seed, learning_rate=3e-3)

        def batches(agent: Agent, context: Context, steps: int) -> Batches:
            n = context.rows(256)
            return Batches(lambda update: shown(n, numpy_rng("pond", context.seed, update)), steps, prefetch=True)

        return [Lesson("follow", learner, batches, steps=2000, minutes=0.5, skills=("walk",))]
