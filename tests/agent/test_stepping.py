"""The law of the trunk: stepping with a state equals running all at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate, to_device
from devmind.agent.ring import Ring, window_mask
from devmind.agent.trunk import cut_at, number_tokens
from devmind.errors import DevmindError
from devmind.testing.laws import ATOL
from tests.agent.conftest import make_rows, tick_of


def all_at_once(agent: Agent, batch: Batch) -> torch.Tensor:
    with torch.no_grad():
        readout = agent.perceive(batch, ["trunk"]).readout
    assert readout is not None
    return readout


def stepped(agent: Agent, batch: Batch, short_term: bool = True) -> torch.Tensor:
    state, features = agent.new_state(len(batch["first"]), short_term), []
    for t in range(batch["first"].shape[1]):
        tick = tick_of(batch, t)
        recalled = agent.encode_recalled(tick["recalled"]) if "recalled" in tick else None
        if recalled is not None:
            recalled = recalled.map(lambda x: x[:, 0])
        state, out = agent.step(state, agent.encode(state, tick), recalled)
        assert out.features is not None
        features.append(out.features)
    return torch.stack(features, 1)


@pytest.mark.parametrize("layers", [1, 3])
def test_stepping_equals_all_at_once(small_agent: Callable[..., Agent], layers: int) -> None:
    agent = small_agent(layers=layers, window=6)
    batch = collate(make_rows(rows=3, length=20, seed=layers))
    torch.testing.assert_close(stepped(agent, batch), all_at_once(agent, batch), atol=ATOL, rtol=0)


def test_rebasing_positions_changes_nothing(small_agent: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch) -> None:
    agent = small_agent(layers=2, window=4, rebase_at=200)
    batch = collate(make_rows(rows=2, length=24, seed=5))
    rebase, moved = Ring.rebase, []

    def spy(ring: Ring, cos: torch.Tensor, sin: torch.Tensor, shift: torch.Tensor) -> None:
        rebase(ring, cos, sin, shift)
        moved.append(int(shift.max()))
        assert ring.highest < 200

    monkeypatch.setattr(Ring, "rebase", spy)
    torch.testing.assert_close(stepped(agent, batch), all_at_once(agent, batch), atol=ATOL, rtol=0)
    assert len(moved) >= 2
    assert max(moved) > 50


def test_recalled_entries_act_equally_in_stepping_and_all_at_once(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(layers=2, window=4)
    rows = make_rows(rows=2, length=9, seed=2)
    recalled = [[[(other.senses, 3.0 * t)] * (t % 3) for t, other in enumerate(row)] for row in rows]
    batch = collate(rows, recalled)
    with_memory = all_at_once(agent, batch)
    torch.testing.assert_close(stepped(agent, batch), with_memory, atol=ATOL, rtol=0)
    del batch["recalled"]
    assert not torch.allclose(all_at_once(agent, batch), with_memory, atol=1e-3)


def test_batch_of_rows_equals_single_rows(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(layers=2, window=4)
    rows = make_rows(rows=3, length=10, seed=7)
    together = stepped(agent, collate(rows))
    alone = torch.cat([stepped(agent, collate([row])) for row in rows])
    torch.testing.assert_close(together, alone, atol=ATOL, rtol=0)


def test_features_ignore_moments_outside_window_and_episode(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(layers=1, window=4, slots=0)
    rows = make_rows(rows=1, length=12, seed=3, absent=0.0)
    features = all_at_once(agent, collate(rows))
    row = list(rows[0])
    row[2] = make_rows(rows=1, length=1, seed=99, absent=0.0)[0][0]
    changed = (all_at_once(agent, collate([row])) - features).abs().amax(-1)[0] > 1e-6
    # One layer: Moment 2, now also a first, reaches Moments 2 to 5; sight sees the change in Moment 3.
    assert changed[2:6].all()
    assert not changed[:2].any()
    assert not changed[7:].any()


@pytest.mark.parametrize("limit", [None, 1, 4, 7])
def test_window_mask_equals_plain_loops(limit: int | None) -> None:
    generator = torch.Generator().manual_seed(0)
    length, n, window = 9, 3, 4
    present = torch.rand(2, length, n, generator=generator) < 0.6
    first = torch.rand(2, length, generator=generator) < 0.2
    cut = cut_at(first, None)
    count = present.sum(-1)
    offset = count.cumsum(1) - count
    offset = offset - offset.gather(1, cut.opened)
    asking, seen = number_tokens(0, present, cut, offset, None, 2, 0, length)
    mask = window_mask(asking, seen, window, limit)
    for b in range(2):
        so_far = 0
        for q in range(length * n):
            t, i = divmod(q, n)
            if i == 0 and first[b, t]:
                so_far = 0
            so_far += int(present[b, t, i])
            assert asking.position[b, q] == max(0, so_far - 1)
            opening = max((s for s in range(t + 1) if first[b, s]), default=0)
            for k in range(length * n):
                u, j = divmod(k, n)
                inside = (opening <= u < t and t - u < window) or (u == t and j <= i)
                # Tokens from the first of Moment u up to q must fit; otherwise the whole Moment is dropped.
                between = int(present[b, u : t + 1].sum()) - int(present[b, t, i + 1 :].sum())
                fits = u == t or limit is None or between <= limit
                if present[b, t, i]:
                    assert bool(mask[b, 0, q, k]) == ((inside and fits and bool(present[b, u, j])) or q == k)


def test_clone_shares_nothing(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(window=3)
    batch = collate(make_rows(rows=2, length=6, seed=4))
    state = agent.new_state(2)
    for t in range(5):
        state, _ = agent.step(state, agent.encode(state, tick_of(batch, t)))
    kept = state.clone()
    percepts = agent.encode(state, tick_of(batch, 5))
    _, once = agent.step(state, percepts)
    _, again = agent.step(kept, percepts)
    assert torch.equal(once.features, again.features)


def test_state_of_another_size_is_refused(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent()
    batch = collate(make_rows(rows=2, length=1, seed=4))
    with pytest.raises(DevmindError, match="state is for 3 agents; got a tick of 2"):
        agent.encode(agent.new_state(3), tick_of(batch, 0))


def test_states_made_under_inference_mode_work_outside(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(window=3)
    batch = to_device(collate(make_rows(rows=1, length=3, seed=4)), agent.device)
    with torch.inference_mode():
        state = agent.new_state(1)
        state, _ = agent.step(state, agent.encode(state, tick_of(batch, 0)))
    state, _ = agent.step(state, agent.encode(state, tick_of(batch, 1)))
    with torch.inference_mode():
        agent.step(state, agent.encode(state, tick_of(batch, 2)))
    agent.forward(batch, ["guess"])["guess"].loss(torch.zeros(1, 3, dtype=torch.long)).backward()
