"""Slots: stepping equals segments, and slots carry gradients far beyond the window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate
from devmind.agent.config import SIZES, AgentConfig
from devmind.agent.ring import Ring
from devmind.agent.slots import GatedUnit, Slots
from devmind.agent.trunk import cut_at
from devmind.errors import ConfigError, DevmindError
from devmind.moment import Moment
from devmind.raised import FOLDER
from devmind.testing.laws import ATOL
from tests.agent.conftest import make_rows, tick_of
from tests.agent.test_stepping import all_at_once, stepped

FEW = ("body", "words", "periphery")


def bodies(rows: int, length: int, seed: int, firsts: tuple[tuple[int, int], ...] = ()) -> Batch:
    """A Batch of bodies without absences; `firsts` are further episode starts (row, Moment)."""
    rng = np.random.default_rng(seed)
    batch = collate(
        [
            [Moment(t / 10, {"body": rng.normal(0, 1, 6).astype(np.float32)}, first=t == 0) for t in range(length)]
            for _ in range(rows)
        ]
    )
    for row, moment in firsts:
        batch["first"][row, moment] = True
    return batch


@pytest.mark.parametrize("window", [2, 5, 8])
def test_stepping_equals_segments_over_five_windows(small_agent: Callable[..., Agent], window: int) -> None:
    agent = small_agent(senses=FEW, layers=2, window=window)
    rows = make_rows(rows=4, length=5 * window + 3, seed=window, senses=FEW)
    recalled = [[[(other.senses, 3.0 * t)] * (t % 3) for t, other in enumerate(row)] for row in rows]
    batch = collate(rows, recalled)
    # One row has no further episode; one starts an episode just before its first write, one just after.
    batch["first"][0, 1:] = False
    batch["first"][1, 1:] = torch.arange(1, 5 * window + 3) == 2 * window - 1
    batch["first"][2, 1:] = torch.arange(1, 5 * window + 3) == 2 * window + 1
    torch.testing.assert_close(stepped(agent, batch), all_at_once(agent, batch), atol=ATOL, rtol=0)


def test_rebasing_with_slots_changes_nothing(
    small_agent: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = small_agent(senses=FEW, layers=2, window=8, rebase_at=128)
    rebase, moved = Ring.rebase, []

    def spy(ring: Ring, cos: torch.Tensor, sin: torch.Tensor, shift: torch.Tensor) -> None:
        rebase(ring, cos, sin, shift)
        moved.append(int(shift.max()))

    monkeypatch.setattr(Ring, "rebase", spy)
    batch = collate(make_rows(rows=3, length=44, seed=1, senses=FEW))
    torch.testing.assert_close(stepped(agent, batch), all_at_once(agent, batch), atol=ATOL, rtol=0)
    assert len(moved) >= 2
    assert max(moved) > 30


def test_segments_do_not_depend_on_how_they_are_cut(small_agent: Callable[..., Agent]) -> None:
    """Episode starts in other rows move the cuts of the Batch; a row's own features stay."""
    agent = small_agent(senses=("body",), layers=2, window=6)
    batch = bodies(4, 40, seed=0, firsts=((1, 5), (1, 16), (2, 1), (3, 22), (3, 23)))
    together = all_at_once(agent, batch)
    for row in range(4):
        alone = {"senses": {"body": batch["senses"]["body"][row : row + 1]}}
        alone |= {"present": {"body": batch["present"]["body"][row : row + 1]}, "first": batch["first"][row : row + 1]}
        torch.testing.assert_close(all_at_once(agent, alone), together[row : row + 1], atol=ATOL, rtol=0)


def test_batch_is_cut_before_slots_depend_on_their_own_segment() -> None:
    aligned = torch.zeros(3, 100, dtype=torch.bool)
    assert cut_at(aligned, 16).starts == [0, 32, 64, 96]
    assert cut_at(aligned[:, :32], 16).starts == [0]
    generator = torch.Generator().manual_seed(0)
    for every in (1, 3, 8):
        first = torch.rand(5, 90, generator=generator) < 0.03
        cut = cut_at(first, every)
        assert min(b - a for a, b in zip(cut.starts, cut.starts[1:], strict=False)) > every
        for start, stop in zip(cut.starts, [*cut.starts[1:], 90], strict=True):
            writes = cut.late[:, start:stop].any(0).nonzero().flatten() + start
            assert all(int(moment) - every - 1 < start for moment in writes)


def far_gradients(agent: Agent, short_term: bool) -> torch.Tensor:
    """Gradient of the last feature of 5 W Moments with respect to each Moment's body, as a norm [T]."""
    length = 5 * agent.config.window
    batch = bodies(2, length, seed=3)
    body = batch["senses"]["body"] = batch["senses"]["body"].nan_to_num().requires_grad_()
    readout = agent.perceive(batch, ["trunk"], short_term).readout
    assert readout is not None
    readout[:, -1].square().sum().backward()
    assert body.grad is not None
    return body.grad.abs().sum((0, 2))


def test_cue_three_windows_ago_gets_a_gradient(small_agent: Callable[..., Agent]) -> None:
    with_slots = far_gradients(small_agent(senses=("body",), layers=1, window=8), True)
    assert (with_slots > 0).all()
    without = far_gradients(small_agent(senses=("body",), layers=1, window=8, slots=0), True)
    assert not without[:-8].any()
    off = far_gradients(small_agent(senses=("body",), layers=1, window=8), False)
    assert not off[:-1].any()
    assert off[-1] > 0


def plain_loop(agent: Agent, tokens: torch.Tensor) -> torch.Tensor:
    """Readouts [T, D] of one episode's tokens [T, n, D]; each Moment by a pass over everything before it."""
    slots, window, readouts, flat, moments = agent.trunk.slots, agent.config.window, [], [], []
    every, current = window // 2, None
    for t, own in enumerate(tokens):
        if t % every == 0:
            j = t // every
            leaving = readouts[(j - 2) * every : (j - 1) * every]
            current = slots.initial if j < 2 else slots.write(current[None], torch.stack(leaving)[None])[0]
            own = torch.cat((current, own))
        flat.append(own)
        moments += [t] * len(own)
        seen = [[t - window < u <= t and i <= q for i, u in enumerate(moments)] for q, t in enumerate(moments)]
        mask, position = torch.tensor(seen)[None, None], torch.arange(len(moments))[None]
        found = agent.trunk.decoder(inputs_embeds=torch.cat(flat)[None], attention_mask=mask, position_ids=position)
        readouts.append(found.last_hidden_state[0, -1])
    return torch.stack(readouts)


def test_features_and_gradients_equal_a_plain_loop(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=("body",), layers=2, window=4)
    found = []
    for run in (
        lambda x: agent.trunk(x[None], torch.ones(1, 17, 3, dtype=torch.bool), torch.zeros(1, 17, dtype=torch.bool)),
        lambda x: plain_loop(agent, x)[None, :, None],
    ):
        agent.zero_grad()
        tokens = torch.randn(17, 3, 16, generator=torch.Generator().manual_seed(1)).requires_grad_()
        readouts = run(tokens)[0, :, -1]
        (readouts[-1] * torch.arange(16)).sum().backward()
        found.append((readouts, tokens.grad, agent.trunk.slots.initial.grad, agent.trunk.slots.gate.news.weight.grad))
    for mine, plain in zip(*found, strict=True):
        torch.testing.assert_close(mine, plain, atol=1e-5, rtol=1e-4)
    assert (found[0][1].abs().sum((1, 2)) > 0).all()


def test_short_term_off_sees_one_moment_in_stepping_and_all_at_once(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=FEW, layers=2, window=4)
    batch = collate(make_rows(rows=3, length=14, seed=2, senses=FEW))
    with torch.no_grad():
        off = agent.perceive(batch, ["trunk"], short_term=False).readout
        guess = agent.forward(batch, ["guess"], short_term=False)["guess"].logits
        assert torch.equal(
            guess, agent.head("guess")(agent._read("guess", agent.perceive(batch, ["trunk"], False))).logits
        )
    torch.testing.assert_close(stepped(agent, batch, short_term=False), off, atol=ATOL, rtol=0)
    assert not torch.allclose(off[:, 1:], all_at_once(agent, batch)[:, 1:], atol=1e-3)


def test_clone_copies_slots_and_encode_checks_their_number(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=FEW, window=2)
    batch = collate(make_rows(rows=2, length=12, seed=4, senses=FEW))
    state = agent.new_state(2)
    for t in range(7):
        state, _ = agent.step(state, agent.encode(state, tick_of(batch, t)))
    kept, ends = state.clone(), []
    for one in (state, kept):
        for t in range(7, 12):
            one, out = agent.step(one, agent.encode(one, tick_of(batch, t)))
        ends.append(out.features)
    assert torch.equal(*ends)
    with pytest.raises(DevmindError, match="carries 2 slots, the agent has 3: make a new one"):
        small_agent(senses=FEW, window=2, slots=3).encode(state, tick_of(batch, 0))


def test_states_with_slots_made_under_inference_mode_work_outside(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=FEW, window=2)
    batch = collate(make_rows(rows=1, length=9, seed=4, senses=FEW))
    with torch.inference_mode():
        state = agent.new_state(1)
        for t in range(6):
            state, _ = agent.step(state, agent.encode(state, tick_of(batch, t)))
        kept = state.clone()
    for one in (state, kept):
        for t in range(6, 9):
            agent.step(one, agent.encode(one, tick_of(batch, t)))


def test_growing_an_agent_with_slots_keeps_its_features(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=FEW, window=4)
    batch = collate(make_rows(2, 20, seed=0, senses=FEW))
    batch["first"][:, 1:] = False
    before = all_at_once(agent, batch)
    agent.grow(layers=1)
    torch.testing.assert_close(all_at_once(agent, batch), before, atol=ATOL, rtol=0)
    torch.testing.assert_close(stepped(agent, batch), before, atol=ATOL, rtol=0)


def test_slots_follow_the_size_and_are_part_of_the_trunk() -> None:
    assert {name: size.slots for name, size in SIZES.items()} == {"tiny": 2, "nursery": 4, "child": 8, "adult": 16}
    agent = Agent(AgentConfig(size="tiny"))
    mine = {id(parameter) for parameter in agent.parts()["trunk", "newborn"]}
    slots = dict(agent.trunk.slots.named_parameters())
    assert {"initial", "place", "gate.news.bias"} < slots.keys()
    assert {id(parameter) for parameter in slots.values()} < mine
    assert AgentConfig(size="tiny", window=1).slots == 0
    with pytest.raises(ConfigError, match="window of 2 Moments at least; got 2 slots and a window of 1"):
        AgentConfig(size="tiny", window=1, slots=2)


def test_slots_do_not_change_the_weights_of_the_trunk() -> None:
    with_slots, without = Agent(AgentConfig(size="tiny")), Agent(AgentConfig(size="tiny", slots=0))
    assert without.trunk.slots is None
    assert with_slots.sha256("trunk.decoder.") == without.sha256("trunk.decoder.")
    assert with_slots.sha256("readout") == without.sha256("readout")


def test_the_newborn_has_slots() -> None:
    newborn = Agent.from_pretrained(FOLDER, strict=True)
    assert newborn.config.slots == 4
    assert newborn.new_state().slots is not None


def test_saved_slots_are_loaded(small_agent: Callable[..., Agent], tmp_path: Path) -> None:
    agent = small_agent(senses=FEW, window=4, slots=3)
    agent.save_pretrained(tmp_path)
    again = Agent.from_pretrained(tmp_path)
    batch = collate(make_rows(2, 24, seed=0, senses=FEW))
    assert again.config.slots == 3
    assert torch.equal(all_at_once(again, batch), all_at_once(agent, batch))


def test_new_head_keeps_answers_with_slots_bit_equal(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=FEW, window=4)
    batch = collate(make_rows(2, 20, seed=0, senses=FEW))
    before = agent.forward(batch, ["guess"])["guess"].logits
    agent.add_head("more", "head.normal", effector="look", options={"size": 2})
    assert torch.equal(agent.forward(batch, ["guess"])["guess"].logits, before)


def test_gate_equals_a_gru_cell() -> None:
    """If only the candidate reads the news, GTrXL's gate is torch's GRU cell with an inverted update gate."""
    torch.manual_seed(0)
    gate, cell = GatedUnit(6), torch.nn.GRUCell(6, 6)
    with torch.no_grad():
        cell.weight_ih.copy_(gate.news.weight)
        cell.bias_ih.copy_(gate.news.bias)
        cell.weight_hh[:12].copy_(gate.state.weight)
        cell.weight_hh[12:].zero_()
        cell.bias_hh.zero_()
        gate.candidate.weight.zero_()
        # torch's z keeps the state; ours replaces it.
        for part in (cell.weight_ih, cell.bias_ih, cell.weight_hh):
            part[6:12] *= -1
        x, y = torch.randn(4, 6), torch.randn(4, 6)
        torch.testing.assert_close(gate(x, y), cell(y, x))


def test_write_keeps_most_of_a_slot_at_birth() -> None:
    torch.manual_seed(0)
    slots = Slots(count=4, width=128, heads=4, every=16)
    before = 0.3 * torch.randn(8, 4, 128)
    with torch.no_grad():
        after = slots.write(before, torch.randn(8, 16, 128))
    kept = torch.nn.functional.cosine_similarity(before.flatten(1), after.flatten(1))
    assert (kept > 0.8).all()
    assert not torch.equal(before, after)
