"""Heads on the trunk's features of several senses, copies of arcs, and heads that predict tokens."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.batch import collate, collate_recalled, map_tensors
from devmind.agent.config import AgentConfig
from devmind.agent.heads import NextTokensHead, WithReadoutHead
from devmind.agent.output import Categorical, Normal, Output, Regression
from devmind.errors import ConfigError
from devmind.testing.laws import ATOL
from tests.agent.conftest import make_rows, shake

TAPS = ("trunk:sight", "trunk:body", "trunk")
INNER = {"part": "head.normal", "options": {"size": 2}}


@pytest.fixture
def agent() -> Agent:
    made = Agent(AgentConfig(size="tiny"))
    for sense in ("sight", "body"):
        made.add_encoder(sense)
    made.add_head("arc", "head.normal", tap=("sight", "body"), effector="look", options={"size": 2})
    made.add_head("own", "head.with-readout", tap=TAPS, effector="look", options=INNER)
    return made.eval()


def test_tuple_tap_concatenates_trunk_features_and_marks_absent_senses(agent: Agent) -> None:
    batch = collate(make_rows(2, 5, 0, ("sight", "body")))
    seen = agent.perceive(batch, [TAPS])
    tapped = agent._read("own", seen)
    assert tapped is not None
    assert tapped.tokens.shape == (2, 5, 18, agent.config.width)
    assert seen.readout is not None
    torch.testing.assert_close(tapped.tokens[..., :16, :], seen.of_senses["sight"].tokens)
    torch.testing.assert_close(tapped.tokens[..., 17, :], seen.readout)
    assert torch.equal(tapped.present[..., 16], batch["present"]["body"])
    without = {name: {"body": batch[name]["body"]} for name in ("senses", "present")}
    alone = agent._read("own", agent.perceive(batch | without, [TAPS]))
    assert alone is not None
    assert not alone.present[..., :16].any()
    assert alone.present[..., 17].all()


def test_copy_on_a_new_trunk_answers_almost_as_its_arc(agent: Agent) -> None:
    head = agent.head("own")
    assert isinstance(head, WithReadoutHead)
    with torch.no_grad():
        for parameter in agent.head("arc").parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    batch = collate(make_rows(4, 3, 1, ("sight", "body"), absent=0.0))

    def apart() -> float:
        outputs = agent(batch, ["arc", "own"])
        return float((outputs["arc"].mode() - outputs["own"].mode()).norm() / outputs["arc"].mode().norm())

    before = apart()
    head.copy_of(agent.head("arc"))
    assert apart() < 0.6 < before
    with pytest.raises(ConfigError, match="another shape"):
        head.copy_of(torch.nn.Linear(2, 2))  # type: ignore[arg-type]


def test_readout_alone_can_change_the_answer(agent: Agent) -> None:
    shake(agent)
    batch = collate(make_rows(1, 4, 2, ("sight", "body"), absent=0.0))
    seen = agent.perceive(batch, [TAPS])
    assert seen.readout is not None
    said = agent.run_heads(["own"], seen)["own"].mode()
    seen.readout = seen.readout + 1.0
    assert not torch.allclose(agent.run_heads(["own"], seen)["own"].mode(), said)


def test_stepping_equals_all_at_once_and_standing_silences_arcs(agent: Agent) -> None:
    shake(agent)
    rows = make_rows(1, 6, 3, ("sight", "body"), absent=0.2)
    at_once = agent(collate(rows), ["own"])["own"].mode()[0]
    silenced, usual = (Actor(agent, effectors=["look"], standing=asked) for asked in ({"look": ("own",)}, None))
    for t, moment in enumerate(rows[0]):
        said = silenced.act(moment).action
        usual.act(moment)
        if moment.senses:
            torch.testing.assert_close(said["look"][0], at_once[t], atol=ATOL, rtol=0)
        else:
            assert "look" not in said, "nothing was sensed that the head reads"
    assert silenced.counts["look"] == {"own": sum(bool(moment.senses) for moment in rows[0])}
    assert usual.counts["look"]["arc"] > 0


def test_think_on_encoded_senses_equals_forward(agent: Agent) -> None:
    shake(agent)
    batch = collate(make_rows(2, 4, 4, ("sight", "body")))
    seen = agent.encode_batch(batch)
    thought = agent.think(seen, batch["first"])
    assert seen.readout is None
    wanted = agent(batch, ["own"])["own"].mode()
    torch.testing.assert_close(agent.run_heads(["own"], thought)["own"].mode(), wanted)
    others = [moment for row in make_rows(2, 4, 9, ("sight",)) for moment in row]
    entries = collate_recalled([[(moment.senses, 60.0)] for moment in others])
    recalled = map_tensors(entries, lambda x: x.reshape(2, 4, *x.shape[1:]))
    at_once = agent({**batch, "recalled": recalled}, ["own"])["own"].mode()
    assert not torch.allclose(at_once, wanted)
    again = agent.think(seen, batch["first"], recalled=agent.encode_recalled(recalled))
    torch.testing.assert_close(agent.run_heads(["own"], again)["own"].mode(), at_once)


@pytest.mark.parametrize(
    "output",
    [Categorical(torch.zeros(2, 3), 0.5), Normal(torch.zeros(2, 3), torch.ones(2, 3)), Regression(torch.zeros(2, 3))],
)
def test_with_numbers_keeps_the_type_of_output(output: Output) -> None:
    other = output.with_numbers(output.numbers() + torch.tensor([0.0, 2.0, 1.0]))
    assert type(other) is type(output)
    assert other.numbers().tolist() == [[0.0, 2.0, 1.0]] * 2
    assert getattr(other, "threshold", None) == getattr(output, "threshold", None)
    with pytest.raises(NotImplementedError, match="not made of one tensor"):
        Output().numbers()


def test_whitened_changes_have_unit_covariance(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(("sight", "body"))
    agent.add_head("foresee", "head.next-tokens", tap=("trunk:sight", "sight", "trunk"))
    head = agent.head("foresee")
    assert isinstance(head, NextTokensHead)
    generator = torch.Generator().manual_seed(0)
    width = agent.config.width
    changes = torch.randn(4000, width, generator=generator) @ torch.randn(width, width, generator=generator)
    head.set_whitening(changes, least=1e-9)
    white = head.changes(torch.zeros_like(changes), changes)
    torch.testing.assert_close(white.T @ white / 4000, torch.eye(width), atol=0.05, rtol=0)
    batch = collate(make_rows(1, 3, 5, ("sight",), absent=0.0))
    assert agent(batch, ["foresee"])["foresee"].mode().shape == (1, 3, 16, width)
    with pytest.raises(ConfigError, match="must tap"):
        agent.add_head("wrong", "head.next-tokens", tap=("trunk:body", "trunk"))
