"""The readout's attention equals transformers' eager weights; listening to it keeps the step bit-equal."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from transformers import LlamaConfig, Olmo2Config, Qwen2Config, Qwen3Config

from devmind.agent.agent import Agent
from devmind.agent.attention import ReadoutAttention
from devmind.agent.batch import collate
from devmind.errors import DevmindError
from devmind.testing.laws import ATOL
from tests.agent.conftest import make_rows, shake, tick_of
from tests.agent.test_stepping import all_at_once, stepped

SHAPE = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 16,
    "num_key_value_heads": 2,
}  # fmt: skip


@pytest.mark.parametrize("kind", [LlamaConfig, Qwen2Config, Qwen3Config])
def test_weights_equal_eager_attention(small_agent: Callable[..., Agent], kind: type) -> None:
    agent = small_agent(window=3, trunk=kind(**SHAPE).to_dict())
    batch = collate(make_rows(rows=1, length=8, seed=3))
    plain, state = [], agent.new_state()
    for t in range(8):
        state, out = agent.step(state, agent.encode(state, tick_of(batch, t)))
        plain.append(out.features)
    listening, state, checked = ReadoutAttention(agent), agent.new_state(), 0
    for t in range(8):
        percepts = agent.encode(state, tick_of(batch, t))
        twin = state.clone()
        eager = eager_weights(agent, twin, percepts)
        at = twin.ring.last_columns()[0]
        state, out = agent.step(state, percepts)
        assert torch.equal(out.features, plain[t]), "listening changed the step"
        weights = listening.weights()
        assert weights is not None
        torch.testing.assert_close(weights, eager, atol=ATOL, rtol=0)
        shares = listening.over("sight", percepts)
        if shares is None:
            assert "sight" not in percepts.encoded or not percepts.encoded["sight"].present.any()
            continue
        places = agent._assemble(percepts.encoded, None, (1,))
        used = [-1] * 2 + places[1][0].nonzero().squeeze(-1).tolist()  # with a window of 3, slots lead every Moment
        columns = [int(at[used.index(i)]) for i in range(*places[2]["sight"].indices(999))]
        torch.testing.assert_close(shares[0], eager[0, columns] / eager[0, columns].sum(), atol=ATOL, rtol=0)
        checked += 1
    assert checked >= 3
    listening.close()


def eager_weights(agent: Agent, state, percepts) -> torch.Tensor:
    """The last layer's weights of the last token by transformers' eager attention, as a mean over the heads."""
    attention, kept = agent.trunk.decoder.layers[-1].self_attn, []
    handle = attention.register_forward_hook(lambda module, args, out: kept.append(out[1]))
    agent.set_attn_implementation("eager")
    try:
        agent.step(state, percepts)
    finally:
        agent.set_attn_implementation("sdpa")
        handle.remove()
    return kept[0][:, :, -1].mean(1)


def test_step_of_another_thread_does_not_change_the_weights(small_agent: Callable[..., Agent]) -> None:
    """Regression: while a life answered a question in another thread, its page showed the attention of that answer."""
    agent = small_agent(window=3)
    batch = collate(make_rows(rows=1, length=8, seed=3))
    listening, state = ReadoutAttention(agent), agent.new_state()
    for t in range(4):
        percepts = agent.encode(state, tick_of(batch, t))
        state, _ = agent.step(state, percepts)
    weights = listening.weights()

    def answer() -> None:
        other = agent.new_state(2)
        two = collate(make_rows(rows=2, length=1, seed=5))
        agent.step(other, agent.encode(other, tick_of(two, 0)))

    thread = threading.Thread(target=answer)
    thread.start()
    thread.join()
    assert weights is not None
    assert torch.equal(weights, listening.weights())
    listening.close()
    assert listening.weights() is None


def test_unsupported_attention_gives_none(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=("sight",), trunk=Olmo2Config(**SHAPE).to_dict())
    listening = ReadoutAttention(agent)
    state = agent.new_state()
    percepts = agent.encode(state, tick_of(collate(make_rows(1, 1, 0, ("sight",), absent=0.0)), 0))
    agent.step(state, percepts)
    assert listening.over("sight", percepts) is None
    listening.close()


@torch.no_grad()
@pytest.mark.parametrize("kind", ["sdpa", "eager"])
@pytest.mark.parametrize("grown", [False, True])
def test_no_attention_sees_the_future(small_agent: Callable[..., Agent], kind: str, grown: bool) -> None:
    """Regression: eager attention of transformers 5 adds its mask, and it was given a bool one, which hid nothing: the
    features of earlier Moments changed by 0.1 with the last one.
    """
    agent = small_agent(layers=2, window=4, slots=0)
    if grown:
        agent.grow(1, "later", {"sound": "sound"})
        shake(agent)
    row, absent = make_rows(rows=1, length=9, seed=11)[0], make_rows(rows=1, length=1, seed=12, absent=0.0)[0]
    one, other = collate([row]), collate([[*row[:-1], absent[0]]])
    other["first"][:] = one["first"]
    usual = all_at_once(agent, one)
    agent.set_attn_implementation(kind)
    for run in (all_at_once, stepped):
        before, after = run(agent, one), run(agent, other)
        torch.testing.assert_close(after[:, :-1], before[:, :-1], atol=ATOL, rtol=0)
        assert (after[:, -1] - before[:, -1]).abs().max() > 1e-3
        torch.testing.assert_close(before, usual, atol=ATOL, rtol=0)


def test_attention_that_may_not_keep_to_the_window_is_refused(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent()
    agent.trunk.decoder.set_attn_implementation("flex_attention")
    with pytest.raises(DevmindError, match=r"'sdpa' or 'eager'.*is set to 'flex_attention'"):
        all_at_once(agent, collate(make_rows(1, 2, 0)))
