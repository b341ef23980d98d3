"""Learning by gradient: the learning rate of parts that an earlier stage or lesson has trained."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.config import ANEW, AgentConfig
from devmind.curriculum.ablation import fresh_parts
from devmind.curriculum.stage import Batches, Lesson
from devmind.errors import ConfigError
from devmind.learners.gradient import EARLIER, GradientLearner, slower
from devmind.learners.muon import MuonLearner
from devmind.testing import tiny_context

RATE = 2e-3


@pytest.fixture
def agent() -> Agent:
    """An agent in its first stage, with a head of that stage."""
    agent = Agent(AgentConfig(size="tiny"))
    agent.add_encoder("board", stage="first")
    agent.add_head("old", "head.categorical", stage="first", options={"classes": 2})
    agent.config.stages = ["first"]
    return agent


def enter_second(agent: Agent) -> None:
    """Bring the agent into a second stage, with a head of that stage."""
    agent.add_head("new", "head.categorical", stage="second", options={"classes": 2})
    agent.config.stages.append("second")


def rates(agent: Agent) -> dict[str, float]:
    """The full rate of each parameter that a lesson trains, by name."""
    learner = GradientLearner(agent, lambda agent, batch: (torch.zeros(()), {}), seed=0, learning_rate=RATE, steps=100)
    learner.set_rates(25)
    of = {id(p): group["lr"] for group in learner.optimizer.param_groups for p in group["params"]}
    return {name: of[id(p)] for name, p in learner.trained_parameters()}


@pytest.mark.parametrize("kind", [GradientLearner, MuonLearner])
def test_steps_equal_those_of_one_parameter_after_another_to_the_bit(agent, kind):
    """Parameters that a lesson trains are listed once and stepped together, which must not change what is learned."""
    found = []
    for foreach in (True, False):
        child = copy.deepcopy(agent)
        x = torch.randn(4, 3, child.config.width, generator=torch.Generator().manual_seed(0))

        def loss(child, batch, x=x):
            return 1e3 * child.trunk.both_ways(x).square().mean(), {}

        learner = kind(child, loss, seed=0, learning_rate=RATE, steps=100)
        for group in learner.optimizer.param_groups:
            group["foreach"] = foreach
        before = child.sha256()
        for step in range(3):
            learner.update({}, step)
        listed = [p for _, p in learner.trained_parameters()]
        assert all(one is other for one, other in zip(learner._clipped, listed, strict=True))
        assert child.sha256() != before
        found.append(child.sha256())
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", [GradientLearner, MuonLearner])
def test_steps_do_not_depend_on_the_order_in_which_gradients_lie_in_memory(agent, kind):
    """Regression: torch 2.13's fused AdamW on a CPU gave numbers the gradients of others, as of a convolution by
    `autograd.grad` (findings/fused_adamw_on_a_cpu_gives_each_number_anothers_gradient.sh)."""
    found = []
    for turned in (False, True):
        child, draw = copy.deepcopy(agent), torch.Generator().manual_seed(0)
        learner = kind(child, lambda agent, batch: (torch.zeros(()), {}), seed=0, learning_rate=RATE, steps=100)
        learner.set_rates(1)
        for _, parameter in learner.trained_parameters():
            gradient = torch.randn(parameter.shape, generator=draw)
            parameter.grad = gradient.mT.contiguous().mT if turned and gradient.ndim > 1 else gradient
        learner.step_down()
        found.append(child.sha256())
    assert found[0] == found[1] != agent.sha256()


def test_first_stage_trains_all_parts_at_the_full_rate_and_so_does_no_stage(agent):
    assert {name.split(".")[0] for name in rates(agent)} >= {"trunk", "heads", "encoders", "readout"}
    assert set(rates(agent).values()) == {RATE}
    agent.config.stages.clear()
    assert set(rates(agent).values()) == {RATE}


def test_only_matrices_decay_and_the_gradients_of_all_parts_are_clipped_together(agent):
    def loss(agent, batch):
        return 1e3 * sum(p.square().sum() + p.sum() for p in agent.parameters()), {}

    learner = GradientLearner(agent, loss, seed=0, learning_rate=RATE, steps=100, weight_decay=0.07)
    learner.update(None, 25)
    for group in learner.optimizer.param_groups:
        matrices = {p.ndim >= 2 for p in group["params"]}
        assert matrices == {group["weight_decay"] > 0}
        assert group["weight_decay"] in (0.0, 0.07)
    squares = sum(float(p.grad.square().sum()) for _, p in learner.trained_parameters())
    assert squares == pytest.approx(1.0, rel=1e-3)


def test_parts_of_an_earlier_stage_learn_more_slowly(agent):
    enter_second(agent)
    found = rates(agent)
    assert "encoders.board" not in {".".join(name.split(".")[:2]) for name in found}, "it is not trained at all"
    for name, rate in found.items():
        slowed = 1.0 if name.startswith("heads.new.") else EARLIER["heads" if name.startswith("heads.") else "trunk"]
        assert rate == pytest.approx(slowed * RATE), name


def test_parts_that_a_lesson_names_as_slower_learn_more_slowly(agent, tmp_path):
    def learner(agent, context):
        return GradientLearner(agent, lambda *_: (torch.zeros(()), {}), seed=0, learning_rate=RATE, steps=100)

    plain = Lesson("plain", learner, lambda *_: Batches(lambda _: None, 1), 1, 0.0)
    slowed = slower(plain, {"encoders.board.": 0.25})
    made = slowed.make_learner(agent, tiny_context(tmp_path))
    made.set_rates(25)
    of = {id(p): group["lr"] for group in made.optimizer.param_groups for p in group["params"]}
    found = {name: of[id(p)] for name, p in made.trained_parameters()}
    assert any(name.startswith("encoders.board.") for name in found)
    for name, rate in found.items():
        assert rate == pytest.approx((0.25 if name.startswith("encoders.board.") else 1.0) * RATE), name
    with pytest.raises(ConfigError, match="only a GradientLearner can be slowed"):
        slower(replace(plain, make_learner=lambda *_: object()), {}).make_learner(agent, tiny_context(tmp_path))


def test_new_trunk_does_not_count_as_trained_by_an_earlier_stage(agent, tmp_path):
    agent.save_pretrained(tmp_path / "taught")
    twin = Agent.from_pretrained(fresh_parts(tmp_path / "taught", tmp_path / "twin", ("trunk",)))
    assert twin.config.trunk_stage == ANEW
    enter_second(twin)
    found = rates(twin)
    assert {rate for name, rate in found.items() if name.startswith("trunk.")} == {RATE}
    assert {rate for name, rate in found.items() if name.startswith("heads.old.")} == {RATE * EARLIER["heads"]}
