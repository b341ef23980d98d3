"""The planner whose denoiser runs the trunk's layers in both directions: else the same planner, also when saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.algorithms.diffusion import HybridPipeline
from devmind.errors import ConfigError
from devmind.worlds.pointmaze import MAZES
from stages.planning import parts
from stages.planning.planner import Candidates, PlannerHead
from stages.planning.reinforce.plans import Plans, learner


@pytest.fixture
def agent() -> Agent:
    """A tiny agent whose trunk's layers have an effect, and which has grown one more."""
    agent = Agent(AgentConfig(size="tiny"))
    parts.admit(agent, layers_of="trunk")
    agent.grow(1, "later", {"body": "body"})
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in agent.trunk.parameters():
            weight.copy_(0.3 * torch.randn(weight.shape, generator=generator))
    return agent.eval()


def head_of(agent: Agent) -> PlannerHead:
    head: Any = agent.head(parts.ROUTE)
    return head


@torch.no_grad()
def planned(agent: Agent) -> Candidates:
    head = head_of(agent)
    maze = torch.eye(len(MAZES))[[0, 0]]
    ends = torch.tensor([[0.0, 0.0], [0.4, 2.0]]), torch.tensor([[2.0, 2.0], [1.2, 0.0]])
    return head.search(head.thinking(*ends, maze))


def test_every_token_sees_every_other_and_grown_layers_are_skipped(agent: Agent) -> None:
    tokens = torch.randn(2, 4, agent.config.width, generator=torch.Generator().manual_seed(1))
    other = tokens.clone()
    other[0, -1] += 1.0
    with torch.no_grad():
        one, two = agent.trunk.both_ways(tokens), agent.trunk.both_ways(other)
        assert (one[0, 0] - two[0, 0]).abs().max() > 1e-3, "the first token sees the last"
        torch.testing.assert_close(one[1], two[1])
        agent.trunk.decoder.layers[-1].mlp.down_proj.weight.fill_(1.0)
        assert torch.equal(agent.trunk.both_ways(tokens), one)
        agent.trunk.decoder.layers[0].mlp.down_proj.weight.fill_(1.0)
        assert not torch.allclose(agent.trunk.both_ways(tokens), one)


def test_plans_depend_on_the_trunk_whose_layers_are_counted_and_saved_once(agent: Agent, tmp_path: Path) -> None:
    before = planned(agent)
    names = [name for name, _ in agent.named_parameters() if name.startswith(f"heads.{parts.ROUTE}.denoiser.")]
    assert not [name for name in names if ".blocks." in name or "decoder" in name]
    agent.save_pretrained(tmp_path)
    again = Agent.from_pretrained(tmp_path).eval()
    after = planned(again)
    assert torch.equal(before.plans, after.plans)
    assert torch.equal(before.symbols, after.symbols)
    with torch.no_grad():
        again.trunk.decoder.layers[0].self_attn.o_proj.weight.mul_(2.0)
    assert not torch.equal(planned(again).plans, before.plans), "a loaded one runs its own trunk"
    assert torch.equal(planned(agent).plans, before.plans)


def test_the_loaded_pipeline_needs_the_layers_and_says_so(agent: Agent, tmp_path: Path) -> None:
    pipeline = head_of(agent).pipeline
    pipeline.save_pretrained(tmp_path)
    again, form = HybridPipeline.from_pretrained(tmp_path), pipeline.denoiser.config
    noise = torch.randn(3, form.horizon, 2, generator=torch.Generator().manual_seed(1))
    told = torch.ones(3, form.told_by, form.condition), torch.ones(3, form.told_by, dtype=torch.bool)
    with pytest.raises(ConfigError, match="was lent none"):
        again(*told, noise, steps=2)
    again.denoiser.lend(agent.trunk.both_ways)
    one, two = (pipe(*told, noise, steps=2) for pipe in (pipeline, again))
    assert torch.equal(one.trajectory, two.trajectory)
    assert torch.equal(one.symbols, two.symbols)


def test_lessons_teach_the_planner_through_unchanged_layers(agent: Agent) -> None:
    head, generator = head_of(agent), torch.Generator().manual_seed(2)
    length = head.denoiser.config["length"]
    plans = Plans(
        *(torch.rand(4, 2, generator=generator) for _ in range(2)),
        torch.eye(len(MAZES))[[0, 0, 0, 0]],
        torch.rand(4, head.horizon, 2, generator=generator),
        torch.randint(5, (4, length), generator=generator),
        *(torch.rand(4, 2, generator=generator) for _ in range(2)),
        torch.ones(4),
    )
    before = {name: value.clone() for name, value in agent.state_dict().items()}
    agent.train()
    learner(agent, 0, 2, 1e-2).update(plans, 0)
    changed = {name for name, value in agent.state_dict().items() if not torch.equal(value, before[name])}
    assert f"heads.{parts.ROUTE}.denoiser.point.weight" in changed
    assert not [name for name in changed if name.startswith("trunk.")]


def test_unknown_layers_are_refused() -> None:
    agent = Agent(AgentConfig(size="tiny"))
    with pytest.raises(ConfigError, match="'own' or 'trunk'; got 'mine'"):
        parts.admit(agent, layers_of="mine")
