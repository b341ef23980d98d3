"""A stage's list of parts: what is added, by size, in order, and only once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.parts import Part, PartSpec, add_all
from devmind.errors import PluginError

LEAN = PartSpec(
    "lean", "head.categorical", "body", "push", options={"classes": 2, "hidden": 8}, sizes={"tiny": {"hidden": 4}}
)


def entry(agent: Agent, name: str) -> dict[str, Any]:
    return next(one for one in agent.config.heads if one["name"] == name)


def test_parts_are_added_in_order_with_the_options_of_the_agents_size_and_once() -> None:
    met: list[int] = []

    def count(agent: Agent) -> None:
        met.append(len(agent.heads))

    def wide(agent: Agent) -> PartSpec:
        return PartSpec("wide", "head.regression", "body", options={"shape": agent.config.width})

    parts: list[Part] = [PartSpec("body"), count, LEAN, count, wide]
    agent = Agent(AgentConfig(size="tiny"))
    add_all(agent, "walking", parts)
    assert met == [0, 1]
    assert entry(agent, "lean")["options"] == {"classes": 2, "hidden": 4}
    assert entry(agent, "wide")["options"] == {"shape": agent.config.width}
    assert {entry["stage"] for entry in (*agent.config.encoders, *agent.config.heads)} == {"walking"}
    before = agent.state_dict()
    add_all(agent, "running", parts)
    assert all(torch.equal(value, before[name]) for name, value in agent.state_dict().items())
    assert [one["name"] for one in agent.config.heads] == ["lean", "wide"]


def test_a_head_starts_from_another_only_when_it_is_new() -> None:
    agent = Agent(AgentConfig(size="tiny"))
    copy = PartSpec("copy", "head.categorical", "body", options={"classes": 3, "hidden": 4}, starts_from="lean")
    add_all(agent, "walking", [PartSpec("body"), LEAN, copy])
    theirs, own = agent.head("lean").reading(), list(agent.head("copy").reading())
    assert own
    assert all(torch.equal(one, other) for one, other in zip(own, theirs, strict=True))
    with torch.no_grad():
        own[0].add_(1)
    kept = own[0].clone()
    add_all(agent, "walking", [copy])
    assert torch.equal(own[0], kept)


def test_an_effectors_form_is_declared_before_its_first_head() -> None:
    agent = Agent(AgentConfig(size="tiny"))
    wrong = PartSpec("arm", "head.regression", "body", "reach", shape=(4,), options={"shape": 3})
    with pytest.raises(PluginError, match="The effector 'reach' takes"):
        add_all(agent, "walking", [PartSpec("body"), wrong])


def test_a_head_without_a_part_is_refused() -> None:
    with pytest.raises(PluginError, match="The head 'lean' of stage 'walking' names no part"):
        add_all(Agent(AgentConfig(size="tiny")), "walking", [PartSpec("body"), PartSpec("lean", tap="body")])
