"""Learners without a gradient: closed form, population, own replay. All keep the contract and resume exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from devmind.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.curriculum.stage import Batches, Context, Learner, Lesson, Rehearsed, Scalars
from devmind.errors import ConfigError
from devmind.seeding import lesson_seeds
from devmind.testing import BrokenLawError, LampRules, check_learner, tiny_agent, tiny_context
from devmind.testing.parts import check_rehearsed

HEAD, LAST = "lit", "read.net.2"
UNREHEARSED = "Nothing that later stages train changes it."


def shown(seeds: np.ndarray) -> dict[str, Any]:
    rules = LampRules()
    state = rules.initial(seeds)
    batch = collate_tick({"warmth": rules.observe(state)["warmth"]}, np.ones(len(seeds), bool))
    return batch | {"lit": torch.from_numpy(rules.truth(state)["lit"])[:, None]}


def make_agent() -> Agent:
    agent = tiny_agent()
    agent.add_encoder("warmth", space=LampRules().observation_space["warmth"])
    agent.add_head(HEAD, "head.categorical", tap="warmth", options={"classes": 3})
    return agent


def right(agent: Agent) -> float:
    batch = shown(np.arange(10**6, 10**6 + 90))
    with torch.no_grad():
        return float((agent(batch, [HEAD])[HEAD].mode() == batch["lit"]).float().mean())


class OfOneHead(Learner):
    """Base of the learners here: they change the last layer of one head."""

    def __init__(self, agent: Agent, seed: int) -> None:
        super().__init__(agent, seed=seed, trains=(f"heads.{HEAD}.{LAST}.",))
        self.layer = agent.head(HEAD).get_submodule(LAST)

    def features(self, batch: Mapping[str, Any]) -> Tensor:
        """The input of the last layer, [B, F]."""
        met: list[Tensor] = []
        handle = self.layer.register_forward_hook(lambda module, given, answer: met.append(given[0]))
        self.agent(batch, [HEAD])
        handle.remove()
        return met[0].flatten(0, -2)

    def rehearse(self, batch: Any) -> tuple[Tensor, Scalars]:
        raise ConfigError(UNREHEARSED)


class ClosedForm(OfOneHead):
    """Ridge regression on one-hot targets, with sums that grow from batch to batch."""

    def __init__(self, agent: Agent, seed: int) -> None:
        super().__init__(agent, seed)
        n = self.layer.in_features + 1
        self.xx, self.xy = torch.eye(n) * 1e-3, torch.zeros(n, 3)

    @torch.no_grad()
    def update(self, batch: Any, step: int) -> Scalars:
        x = self.features(batch)
        x = torch.cat((x, torch.ones(len(x), 1)), 1)
        self.xx += x.T @ x
        self.xy += x.T @ torch.nn.functional.one_hot(batch["lit"].flatten(), 3).float()
        solved = torch.linalg.solve(self.xx, self.xy)
        self.layer.weight.copy_(solved[:-1].T)
        self.layer.bias.copy_(solved[-1])
        return {"examples": float(self.xx[-1, -1])}

    def state_dict(self) -> dict[str, Any]:
        return {"xx": self.xx, "xy": self.xy}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.xx, self.xy = state["xx"].clone(), state["xy"].clone()


class Population(OfOneHead):
    """An evolution strategy with antithetic noise; it mixes: rehearsals are part of every member's fitness."""

    mixes: ClassVar[bool] = True
    PAIRS, SIGMA, RATE = 16, 0.3, 2.0

    def __init__(self, agent: Agent, seed: int) -> None:
        super().__init__(agent, seed)
        self.best = torch.tensor(float("inf"))

    @torch.no_grad()
    def update(self, batch: Any, step: int) -> Scalars:
        weight, moved = self.layer.weight, torch.zeros_like(self.layer.weight)
        center = weight.clone()
        for _ in range(self.PAIRS):
            noise = torch.randn(center.shape)
            losses = []
            for sign in (1, -1):
                weight.copy_(center + sign * self.SIGMA * noise)
                losses.append(self.loss_of(batch))
                self.best = torch.minimum(self.best, losses[-1])
            moved += (losses[1] - losses[0]) * noise
        weight.copy_(center + self.RATE / self.PAIRS * moved)
        return {"best": self.best}

    def loss_of(self, batch: Any) -> Tensor:
        if isinstance(batch, Rehearsed):
            return batch.learner.rehearse(batch.batch)[0]
        return self.agent(batch, [HEAD])[HEAD].loss(batch["lit"])

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.best = state["best"].clone()


class Replaying(OfOneHead):
    """The perceptron rule on examples drawn from all those met: a learner with its own replay, as in self-play."""

    def __init__(self, agent: Agent, seed: int) -> None:
        super().__init__(agent, seed)
        self.met = torch.zeros(0, self.layer.in_features + 1)

    @torch.no_grad()
    def update(self, batch: Any, step: int) -> Scalars:
        x, lit = self.features(batch), batch["lit"].flatten()
        self.met = torch.cat((self.met, torch.cat((x, lit[:, None].float()), 1)))
        for number in torch.randint(len(self.met), (32,)):
            features, answer = self.met[number, :-1], int(self.met[number, -1])
            said = int((self.layer.weight @ features + self.layer.bias).argmax())
            if said != answer:
                self.layer.weight[answer] += features
                self.layer.weight[said] -= features
        return {"met": float(len(self.met))}

    def state_dict(self) -> dict[str, Any]:
        return {"met": self.met}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.met = state["met"].clone()


KINDS = (ClosedForm, Population, Replaying)


def lesson_of(kind: Callable[[Agent, int], Learner], **more: Any) -> Lesson:
    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: shown(lesson_seeds(context.rows(24), context.seed, update)), steps)

    return Lesson("lamps", lambda agent, context: kind(agent, context.seed), batches, 20, 0.1, **more)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_learner_without_gradient_keeps_the_laws_and_learns(kind: type[OfOneHead], tmp_path: Path) -> None:
    from devmind.curriculum.journal import Journal
    from devmind.curriculum.teaching import teach

    agent, context = make_agent(), tiny_context(tmp_path / "run", "loggers=[]")
    context.out.mkdir()
    check_learner(lesson_of(kind), agent, tiny_context(tmp_path / "laws"))
    check_rehearsed(lesson_of(kind), agent, context)
    taught = teach(lesson_of(kind), 20, agent, context, Journal(context.out / "journal.jsonl"))
    assert right(agent) > 0.9
    layer = agent.head(HEAD).get_submodule(LAST)
    assert taught.trained == {f"heads.{HEAD}": sum(p.numel() for p in layer.parameters())}


class Forgetful(Replaying):
    """Does not save its replay."""

    def state_dict(self) -> dict[str, Any]:
        return {"met": self.met[:0]}


class Wandering(Population):
    """Changes parameters that it does not name."""

    def update(self, batch: Any, step: int) -> Scalars:
        with torch.no_grad():
            self.agent.readout += 1
        return super().update(batch, step)


class Losing(ClosedForm):
    """Loads another state than it is given; the next update does not read it."""

    note = 0

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"note": self.note}

    def update(self, batch: Any, step: int) -> Scalars:
        self.note += 1
        return super().update(batch, step)


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Forgetful, "goes on exactly where it was"),
        (Wandering, "only what a learner names in `trains` changes"),
        (Losing, "load_state_dict takes back what state_dict gave"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_check_learner_names_the_broken_law(kind: type[OfOneHead], law: str, tmp_path: Path) -> None:
    with pytest.raises(BrokenLawError) as told:
        check_learner(lesson_of(kind), make_agent(), tiny_context(tmp_path))
    assert law in str(told.value)


def test_check_learner_refuses_an_object_that_is_no_learner(tmp_path: Path) -> None:
    with pytest.raises(BrokenLawError, match=r"a lesson's learner is a Learner\. Found: a Tensor"):
        check_learner(lesson_of(lambda agent, seed: torch.zeros(1)), make_agent(), tiny_context(tmp_path))  # type: ignore[arg-type,return-value]


def test_rehearsals_hold_a_population_to_earlier_lessons(tmp_path: Path) -> None:
    """With rehearsals of a lesson that wants other answers, it does not learn its own."""
    from dataclasses import replace

    from devmind.curriculum.journal import Journal
    from devmind.curriculum.rehearsal import rehearsals
    from devmind.curriculum.teaching import teach
    from devmind.learners.gradient import GradientLearner

    def never(agent: Agent, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        return agent(batch, [HEAD])[HEAD].loss((batch["lit"] + 1) % 3), {}

    other = replace(
        lesson_of(Population),
        name="never",
        make_learner=lambda agent, context: GradientLearner(agent, never, seed=0, learning_rate=1e-3),
    )
    shares = {}
    for named in ((), ("never",)):
        agent, context = make_agent(), tiny_context(tmp_path / str(len(named)), "loggers=[]")
        context.out.mkdir()
        lesson = lesson_of(Population, rehearses=named, rehearsal_every=2)
        old = rehearsals(lesson, [other], (), agent, context)
        teach(lesson, 20, agent, context, Journal(context.out / "journal.jsonl"), rehearsal=old)
        shares[named] = right(agent)
    assert shares[()] > 0.9
    assert shares["never",] < 0.6
