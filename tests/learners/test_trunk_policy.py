"""Policies on the trunk: a pass over rows equals stepping, memory is learned by reward, and it is rehearsed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from devmind import worlds
from devmind.acting import returns, rollout, still
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.algorithms.rollout import columns, stack
from devmind.curriculum.stage import Batches, Lesson
from devmind.errors import ConfigError
from devmind.learners.actor_critics import TrunkPolicy
from devmind.learners.gradient import trainable
from devmind.learners.policy import Drill, PolicyLearner
from devmind.learners.ppo import PPO, collect
from devmind.raised import raised_agents
from devmind.seeding import torch_generator
from devmind.testing import check_learner, tiny_context
from devmind.testing.laws import ATOL
from devmind.testing.parts import check_rehearsed
from devmind.worlds.side_by_side import Joined

LENGTH = 3
"""Ticks between the sign and the question: a policy that sees one Moment alone earns 0 on average, with memory 1."""
DRILL = Drill(
    "choose", "memory_len", (str(LENGTH),), rows=64, ticks=LENGTH + 1,
    ppo=PPO(discount=1.0, epochs=4, batches=2, entropy=0.01), learning_rate=5e-3, head="choose", critic="value",
)  # fmt: skip


def make_agent() -> Agent:
    agent = Agent(AgentConfig(size="tiny"))
    agent.add_encoder("signal", "encoder.vector", options={"size": 3})
    agent.add_head("choose", "head.categorical", effector="choose", options={"classes": 2})
    agent.add_head("value", "head.value")
    return agent.eval()


def make_learner(agent: Agent, folder: Path, drill: Drill = DRILL, steps: int = 60) -> PolicyLearner:
    learner = PolicyLearner(agent, tiny_context(folder), {"sign": drill}, trains=trainable(agent))
    learner.steps = steps
    return learner


def earned(agent: Agent, n: int = 256, short_term: bool = True) -> float:
    """Mean return of the most likely choices in episodes of other seeds."""
    from devmind.acting import Actor

    actor = Actor(agent, short_term=short_term)
    return float(returns(actor, worlds.make("memory_len", str(LENGTH), np.arange(10**6, 10**6 + n))).mean())


def test_pass_over_rows_equals_stepping() -> None:
    """Also if episodes of different lengths begin within a row, so that the ratio of PPO begins at one."""
    agent = make_agent()
    network = DRILL.network(agent)
    world = Joined([worlds.make("memory_len", level, np.arange(3)) for level in ("2", "9")])
    seen = collect(network, world, 10, torch_generator("rows"))
    chosen = torch.tensor([4, 1, 0])
    choice, value = network.along(columns(seen.observation, chosen))
    valid = columns(seen.mask, chosen)
    log_prob = choice.log_prob(columns(seen.action, chosen))
    torch.testing.assert_close(log_prob[valid], columns(seen.log_prob, chosen)[valid], atol=ATOL, rtol=0)
    torch.testing.assert_close(value[valid], columns(seen.value, chosen)[valid], atol=ATOL, rtol=0)
    assert valid.sum(1).tolist() == [10, 3, 3]
    assert choice.log_prob(columns(seen.action, chosen)).requires_grad


def test_pass_over_rows_equals_stepping_of_an_agent_with_beliefs() -> None:
    agent = Agent.from_pretrained(raised_agents()["after-memory"])
    agent.add_head("aim", "head.categorical", effector="choose", options={"classes": 2})
    agent.add_head("aim_value", "head.value")
    agent.eval()
    network, seen = TrunkPolicy(agent, "choose", "aim", "aim_value"), []
    with torch.no_grad():
        for tick in rollout(still, worlds.make("nursery", "fetch", np.arange(2)), 5):
            seen.append(network.read(tick.senses, tick.first))
        rows = columns(stack(seen), torch.arange(2))
        torch.testing.assert_close(network.along(rows)[1], network(rows)[1], atol=1e-4, rtol=0)


def test_peek_does_not_change_the_state() -> None:
    agent = make_agent()
    plain, peeking = (DRILL.network(agent) for _ in range(2))
    world = worlds.make("memory_len", "4", np.arange(2))
    for tick in range(3):
        senses, first = world.observe(), np.full(2, tick == 0)
        one, other = plain.read(senses, first), peeking.read(senses, first)
        assert torch.equal(one["feature"], other["feature"])
        world.step({"choose": np.zeros(2, int)})
        peeked = peeking.peek(world.observe())
    assert torch.equal(peeked["feature"], plain.read(world.observe(), np.zeros(2, bool))["feature"])


def test_trunk_learns_to_remember_by_reward(tmp_path: Path) -> None:
    agent = make_agent()
    before = earned(agent)
    learner = make_learner(agent, tmp_path)
    learner.begin(0)
    agent.train()
    for step in range(learner.steps):
        learner.update({"drill": "sign"}, step)
    learner.end()
    agent.eval()
    assert abs(before) < 0.5
    assert earned(agent) > 0.95
    assert abs(earned(agent, short_term=False)) < 0.3, "without short-term memory the sign is not known"


def the_lesson(drill: Drill = DRILL) -> Lesson:
    def batches(agent, context, steps):
        return Batches(lambda update: {"drill": "sign"}, steps)

    def learner(agent, context):
        return PolicyLearner(agent, context, {"sign": drill}, trains=trainable(agent), crowd=0.2)

    return Lesson("sign", learner, batches, 20, 1.0)


def test_policy_lesson_keeps_the_laws_and_can_be_rehearsed(tmp_path: Path) -> None:
    agent = make_agent()
    check_learner(the_lesson(), agent, tiny_context(tmp_path))
    check_rehearsed(the_lesson(), agent, tiny_context(tmp_path))


def test_policy_is_rehearsed_towards_its_earlier_answers(tmp_path: Path) -> None:
    """The loss is zero while the answers are unchanged; after a change, the gradient leads back."""
    agent = make_agent()
    learner = make_learner(agent, tmp_path)
    with pytest.raises(ConfigError, match="Nothing of the drill 'sign' was kept"):
        learner.rehearse({"drill": "sign"})
    learner.remember()
    assert float(learner.rehearse({"drill": "sign"})[0]) == pytest.approx(0.0, abs=ATOL)
    with torch.no_grad():
        for parameter in agent.head("choose").parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=torch_generator("moved"))
    losses = []
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-2)
    for _ in range(40):
        loss, scalars = learner.rehearse({"drill": "sign"})
        losses.append(float(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[0] > 0.01
    assert losses[-1] < 0.1 * losses[0]
    assert list(scalars) == ["sign/kl"]


def test_distances_equal_divergences_of_torch(tmp_path: Path) -> None:
    from torch.distributions import Categorical as TorchCategorical
    from torch.distributions import Normal as TorchNormal
    from torch.distributions import kl_divergence

    from devmind.agent.output import Categorical, Normal
    from devmind.learners.distil import distance

    one, two, three, four = (torch.randn(2, 3, 4, generator=torch_generator(name)) for name in "abcd")
    wanted = kl_divergence(TorchCategorical(logits=one), TorchCategorical(logits=two))
    torch.testing.assert_close(distance(Categorical(two), {"logits": one}), wanted)
    by_axis = kl_divergence(TorchNormal(one, two.exp()), TorchNormal(three, four.exp()))
    found: Tensor = distance(Normal(three, four), {"mean": one, "log_std": two})
    torch.testing.assert_close(found, by_axis.sum(-1))


def test_policy_on_the_trunk_refuses_lasting_worlds(tmp_path: Path) -> None:
    from dataclasses import replace

    with pytest.raises(ConfigError, match="'sign' cannot be lasting"):
        make_learner(make_agent(), tmp_path, replace(DRILL, lasting=True))


def test_policy_and_critic_must_read_the_same_tap(tmp_path: Path) -> None:
    agent = make_agent()
    agent.add_head("early", "head.value", tap="signal")
    from dataclasses import replace

    with pytest.raises(ConfigError, match="both tap 'trunk'"):
        make_learner(agent, tmp_path, replace(DRILL, critic="early"))
