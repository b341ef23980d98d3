"""A sense with its own pass through the trunk: it and the other senses do not affect each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate, collate_recalled
from devmind.agent.text import add_text
from devmind.agent.trunk import Trunk
from devmind.errors import DevmindError
from devmind.testing.laws import ATOL
from tests.agent.conftest import make_rows, shake, tick_of
from tests.agent.test_stepping import all_at_once, stepped

ALONE, TAP = "sound", "trunk:sound"


@pytest.fixture
def hearer(small_agent: Callable[..., Agent]) -> Callable[..., Agent]:
    """Factory of agents whose sound has its own pass, with a layer grown for it."""

    def make(**config: object) -> Agent:
        agent = small_agent(**{"layers": 2, "window": 6, "shaken": False, **config})
        agent.encoder(ALONE).apart = True
        agent.grow(1, "later", {ALONE: ALONE})
        agent.add_head("hears", "head.categorical", tap=TAP, options={"classes": 4})
        return shake(agent)

    return make


def without(batch: Batch, *senses: str) -> Batch:
    """The Batch with these senses absent."""
    gone = {sense: torch.zeros_like(batch["present"][sense]) for sense in senses}
    return batch | {"present": batch["present"] | gone}


@torch.no_grad()
def test_apart_sense_and_other_senses_do_not_affect_each_other(
    hearer: Callable[..., Agent],
) -> None:
    agent, batch = hearer(), collate(make_rows(rows=3, length=20, seed=1))
    others = [sense for sense in batch["senses"] if sense != ALONE]
    taps = ["trunk", "trunk:body", TAP]
    both, deaf = agent.perceive(batch, taps), agent.perceive(without(batch, ALONE), taps)
    hearing = agent.perceive(without(batch, *others), taps)
    assert both.readout is not None
    assert deaf.readout is not None
    assert torch.equal(both.readout, deaf.readout)
    assert torch.equal(both.of_senses["body"].tokens, deaf.of_senses["body"].tokens)
    here = both.of_senses[ALONE].present
    assert here.any()
    assert torch.equal(both.of_senses[ALONE].tokens[here], hearing.of_senses[ALONE].tokens[here])
    agent.encoder(ALONE).apart = False
    assert not torch.equal(agent.perceive(batch, taps).readout, deaf.readout), "then its tokens are seen"


@torch.no_grad()
def test_apart_sense_remembers_only_its_own_episode(hearer: Callable[..., Agent]) -> None:
    agent, batch = hearer(), collate(make_rows(1, 5, 2, absent=0.0))
    batch["first"][:] = torch.tensor([[True, False, False, True, False]])
    other = {**batch, "senses": {**batch["senses"], ALONE: batch["senses"][ALONE].clone()}}
    other["senses"][ALONE][:, 0] *= -2
    changed = (
        agent.perceive(batch, [TAP]).of_senses[ALONE].tokens - agent.perceive(other, [TAP]).of_senses[ALONE].tokens
    )
    assert (changed.abs().flatten(2).amax(-1) > 0).tolist() == [[True, True, True, False, False]]
    alone = [agent.perceive(one, [TAP], short_term=False).of_senses[ALONE].tokens for one in (batch, other)]
    assert ((alone[0] - alone[1]).abs().flatten(2).amax(-1) > 0).tolist() == [[True, False, False, False, False]]


@torch.no_grad()
def test_stepping_with_an_apart_sense_equals_all_at_once_across_rebasing(hearer: Callable[..., Agent]) -> None:
    agent, batch = hearer(rebase_at=60), collate(make_rows(rows=3, length=40, seed=3))
    torch.testing.assert_close(stepped(agent, batch), all_at_once(agent, batch), atol=ATOL, rtol=0)
    seen, state = agent.perceive(batch, [TAP]).of_senses[ALONE], agent.new_state(3)
    for t in range(40):
        percepts = agent.encode(state, tick_of(batch, t))
        state, _ = agent.step(state, percepts, heads=["hears"])
        found, here = percepts.seen.of_senses.get(ALONE), seen.present[:, t]
        if here.any():
            assert found is not None
            torch.testing.assert_close(found.tokens[here], seen.tokens[:, t][here], atol=ATOL, rtol=0)
    assert state.apart[ALONE].highest < 60
    # Rows can be taken out, stepped and put back.
    some, batch = state.take([2, 0]), collate(make_rows(rows=3, length=1, seed=4, absent=0.0))
    picked = {key: _rows(value, [2, 0]) for key, value in batch.items()}
    percepts = agent.encode(some, picked)
    some, _ = agent.step(some, percepts)
    whole = agent.encode(state, batch)
    other = state.clone()
    other, _ = agent.step(other, whole)
    mine, theirs = percepts.seen.of_senses[ALONE].tokens, whole.seen.of_senses[ALONE].tokens[[2, 0]]
    torch.testing.assert_close(mine, theirs, atol=ATOL, rtol=0)
    state.put([2, 0], some)
    assert torch.equal(state.apart[ALONE].tick, other.apart[ALONE].tick - torch.tensor([0, 1, 0]))


@torch.no_grad()
def test_evaluate_of_an_apart_sense_equals_forward(hearer: Callable[..., Agent]) -> None:
    agent, batch = hearer(slots=0), collate(make_rows(rows=4, length=1, seed=5, absent=0.0))
    senses = {name: value[:, 0] for name, value in batch["senses"].items()}
    at_once, one_by_one = agent(batch, ["hears", "guess"], short_term=False), agent.evaluate(senses, ["hears", "guess"])
    for name in ("hears", "guess"):
        torch.testing.assert_close(at_once[name].numbers()[:, 0], one_by_one[name].numbers(), atol=ATOL, rtol=0)
    torch.testing.assert_close(
        agent.evaluate(senses, ["hears"])["hears"].numbers(), one_by_one["hears"].numbers(), atol=ATOL, rtol=0
    )


@torch.no_grad()
def test_only_tapped_passes_run(hearer: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch) -> None:
    agent, batch, passes, forward = hearer(), collate(make_rows(2, 3, 6, absent=0.0)), [], Trunk.forward

    def counted(trunk: Trunk, tokens: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        passes.append(tokens.shape[-2])
        return forward(trunk, tokens, *args, **kwargs)

    monkeypatch.setattr(Trunk, "forward", counted)
    alone = agent.encoder(ALONE).n_tokens
    seen = agent.perceive(batch, [TAP])
    assert passes == [alone]
    assert set(seen.encoded) == {ALONE}
    passes.clear()
    assert ALONE not in agent.perceive(batch, ["trunk"]).encoded
    assert len(passes) == 1
    passes.clear()
    agent.perceive(batch, ["trunk", TAP])
    assert len(passes) == 2


@torch.no_grad()
def test_recalled_tokens_omit_an_apart_sense(hearer: Callable[..., Agent]) -> None:
    agent, senses = hearer(), dict(make_rows(1, 1, 7, ("body", ALONE), absent=0.0)[0][0].senses)
    whole = agent.encode_recalled(collate_recalled([[(dict(senses), 1.0)]]))
    del senses[ALONE]
    assert torch.equal(whole.tokens, agent.encode_recalled(collate_recalled([[(senses, 1.0)]])).tokens)


def test_misuse_of_apart_senses_raises_clear_errors(
    hearer: Callable[..., Agent], small_agent: Callable[..., Agent]
) -> None:
    agent = hearer()
    add_text(agent, "bytes", 16)
    batch = collate(make_rows(1, 1, 8, absent=0.0))
    old = agent.new_state()
    agent.encoder(ALONE).apart = False
    with pytest.raises(DevmindError, match="windows of their own for the senses sound, the agent for none"):
        agent.encode(old, batch)
    with pytest.raises(DevmindError, match="go by themselves"):
        agent.new_state(2).put([0], old)
    agent.encoder(ALONE).apart = True
    state = agent.new_state()
    state, _ = agent.begin(state, agent.encode(state, batch))
    with pytest.raises(DevmindError, match="extended by the sense that streams"):
        agent.extend(state, ALONE, batch["senses"][ALONE][:, 0])


def _rows(value: object, rows: list[int]) -> object:
    if isinstance(value, dict):
        return {key: _rows(inner, rows) for key, inner in value.items()}
    return value[rows] if isinstance(value, torch.Tensor) else value
