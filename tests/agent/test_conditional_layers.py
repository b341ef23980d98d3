"""Layers for some senses: other tokens stay bit-equal, and stepping equals one pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.attention import ReadoutAttention
from devmind.agent.batch import READOUT, Batch, collate, collate_recalled
from devmind.agent.encoders import BoardEncoder
from devmind.agent.text import add_text
from devmind.errors import ConfigError
from devmind.learners.gradient import EARLIER, rate_of
from devmind.moment import Moment
from devmind.testing.laws import ATOL
from tests.agent.conftest import make_rows, shake
from tests.agent.test_state import pages as letters_pages
from tests.agent.test_state import reader as letters_reader
from tests.agent.test_state import said_in_pieces
from tests.agent.test_stepping import all_at_once, stepped


def reader(small_agent: Callable[..., Agent], **config: object) -> Agent:
    """An agent with a layer grown for pages, whose weights show in every token that passes through it."""
    agent = small_agent(senses=("body", "words"), shaken=False, **config)
    add_text(agent, "bytes", 64)
    agent.grow(1, "language", {"text": "text", READOUT: "text"})
    return shake(agent)


def mixed(length: int = 14) -> Batch:
    """Two rows of Moments; two in three have a page."""
    rng = np.random.default_rng(0)
    rows = make_rows(2, length, 3, ("body", "words"))
    return collate(
        [
            [
                Moment(m.time_s, {**m.senses, "text": "x" * int(rng.integers(1, 30))}, first=m.first) if t % 3 else m
                for t, m in enumerate(row)
            ]
            for row in rows
        ]
    )


@torch.no_grad()
def test_grown_layer_changes_only_moments_with_a_page(small_agent: Callable[..., Agent]) -> None:
    """There are no slots: they are made of readouts, so an earlier page may show in them."""
    agent, batch = reader(small_agent, layers=2, slots=0), mixed()
    paged = batch["present"]["text"]
    assert paged.any()
    assert not paged.all()
    seen = agent.perceive(batch, ["trunk", "trunk:body", "trunk:text"])
    for projection in (agent.trunk.decoder.layers[2].self_attn.o_proj, agent.trunk.decoder.layers[2].mlp.down_proj):
        projection.weight.zero_()
    before = agent.perceive(batch, ["trunk", "trunk:body", "trunk:text"])
    assert torch.equal(seen.readout[~paged], before.readout[~paged])
    assert torch.equal(seen.of_senses["body"].tokens, before.of_senses["body"].tokens)
    assert ((seen.readout - before.readout)[paged].abs().amax(-1) > 1e-3).all()
    here = seen.of_senses["text"].present
    assert ((seen.of_senses["text"].tokens - before.of_senses["text"].tokens)[here].abs().amax(-1) > 1e-3).all()


@torch.no_grad()
def test_page_attends_to_earlier_moments(small_agent: Callable[..., Agent]) -> None:
    """The body felt before the page changes the page's tokens, and only the grown layer can carry that."""
    agent = reader(small_agent, layers=1, slots=0)
    # The layer below is the identity.
    for projection in (agent.trunk.decoder.layers[0].self_attn.o_proj, agent.trunk.decoder.layers[0].mlp.down_proj):
        projection.weight.zero_()
    moments = [Moment(0.0, {"body": np.zeros(7, np.float32)}, first=True), Moment(0.1, {"text": "a page"})]
    felt = [Moment(0.0, {"body": np.ones(7, np.float32)}, first=True), moments[1]]
    tokens = [agent.perceive(collate([row]), ["trunk:text"]).of_senses["text"].tokens[:, 1] for row in (moments, felt)]
    assert not torch.allclose(tokens[0], tokens[1], atol=1e-4)


@pytest.mark.parametrize("slots", [0, 2])
def test_stepping_equals_all_at_once(small_agent: Callable[..., Agent], slots: int) -> None:
    agent, batch = reader(small_agent, layers=2, window=4, slots=slots), mixed(24)
    torch.testing.assert_close(stepped(agent, batch), all_at_once(agent, batch), atol=ATOL, rtol=0)
    torch.testing.assert_close(
        stepped(agent, batch, False), agent.perceive(batch, ["trunk"], False).readout, atol=ATOL, rtol=0
    )


def test_grown_layers_do_not_run_without_a_page(small_agent: Callable[..., Agent], monkeypatch) -> None:
    agent = reader(small_agent, layers=2, window=4, slots=2)
    monkeypatch.setattr(agent.trunk.decoder.layers[2].self_attn, "forward", None)
    batch = collate(make_rows(2, 24, 3, ("body", "words")))
    assert torch.isfinite(all_at_once(agent, batch)).all()
    with pytest.raises(TypeError):
        all_at_once(agent, mixed())


QWEN = {
    "model_type": "qwen3",
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
}


@pytest.mark.parametrize("trunk", [None, QWEN], ids=["llama", "qwen3"])
def test_tick_without_a_page_skips_the_mlp_of_the_grown_layer(
    small_agent: Callable[..., Agent], monkeypatch, trunk: dict[str, object] | None
) -> None:
    agent = reader(small_agent, layers=2, window=4, slots=0, trunk=trunk)
    batch = mixed(24)
    whole = all_at_once(agent, batch)
    layer, asked = agent.trunk.decoder.layers[2].mlp, list[int]()
    layer.register_forward_hook(lambda *_: asked.append(1))
    torch.testing.assert_close(stepped(agent, batch), whole, atol=ATOL, rtol=0)
    assert len(asked) == int(batch["present"]["text"].any(0).sum()) < 24
    # A decoder with an unknown kind of attention runs every layer.
    asked.clear()
    monkeypatch.setattr("devmind.agent.trunk.is_known", lambda attention: False)
    torch.testing.assert_close(stepped(agent, batch), whole, atol=ATOL, rtol=0)
    assert len(asked) == 24


@pytest.mark.parametrize("piece", [1, 100])
def test_page_extended_in_pieces_equals_the_whole_page(small_agent: Callable[..., Agent], piece: int) -> None:
    """Rows with and without a page side by side; each readout is as deep as its row's Moment."""
    agent = letters_reader(small_agent, layers=2, window=3, slots=2, window_tokens=60)
    agent.grow(1, "language", {"letters": "letters", READOUT: "letters"})
    shake(agent)
    batch = letters_pages([[4, 30, 0, 0, 45, 8, 30], [30, 0, 7, 0, 1, 40, 0]], seed=2)
    batch["first"][0, 1:] = False
    torch.testing.assert_close(said_in_pieces(agent, batch, piece), all_at_once(agent, batch), atol=ATOL, rtol=0)


def test_grown_layers_are_saved_and_loaded(small_agent: Callable[..., Agent], tmp_path: Path) -> None:
    agent, batch = reader(small_agent, layers=2), mixed()
    agent.save_pretrained(tmp_path)
    again = Agent.from_pretrained(tmp_path)
    assert (again.config.grown, again.config.deep) == (["language"], {"language": {"text": "text", READOUT: "text"}})
    assert torch.equal(all_at_once(again, batch), all_at_once(agent, batch))


def test_stage_trains_its_grown_layers_at_full_rate_and_lower_layers_slower(small_agent) -> None:
    agent = reader(small_agent, layers=2)
    agent.config.stages = ["newborn", "language"]
    rate = rate_of(agent)
    assert rate("trunk.decoder.layers.2.mlp.down_proj.weight") == 1.0
    assert rate("trunk.decoder.layers.1.mlp.down_proj.weight") == EARLIER["trunk"]
    agent.config.stages.append("reasoning")
    assert rate_of(agent)("trunk.decoder.layers.2.mlp.down_proj.weight") == EARLIER["trunk"]
    assert ("trunk", "language") in agent.parts()


def two_stages(agent: Agent, letters: str, **more: str) -> Agent:
    """Grow a layer for pages, and in another stage one for the body and a page beside it, without the readout."""
    agent.grow(1, "language", {letters: letters, READOUT: letters})
    agent.grow(1, "reasoning", {"body": "body", letters: "body", **more})
    return shake(agent)


@torch.no_grad()
def test_layers_of_a_stage_change_only_its_own_tokens(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=("body", "words"), shaken=False, layers=2, slots=0)
    add_text(agent, "bytes", 64)
    two_stages(agent, "text")
    batch = mixed()
    paged, felt = batch["present"]["text"], batch["present"]["body"]
    assert (paged & felt).any()
    assert (paged & ~felt).any()
    taps = ["trunk", "trunk:body", "trunk:text"]
    seen = agent.perceive(batch, taps)
    for projection in (agent.trunk.decoder.layers[3].self_attn.o_proj, agent.trunk.decoder.layers[3].mlp.down_proj):
        projection.weight.zero_()
    before = agent.perceive(batch, taps)
    assert torch.equal(seen.readout, before.readout)
    for sense in ("body", "text"):
        moved = (seen.of_senses[sense].tokens - before.of_senses[sense].tokens).abs().amax(-1)
        moved = torch.where(seen.of_senses[sense].present, moved, 0.0).amax(-1)
        here = batch["present"][sense] & felt
        assert (moved[here] > 1e-3).all(), sense
        assert (moved[~here] == 0).all(), sense


@pytest.mark.parametrize("piece", [1, 100])
def test_stepping_with_layers_of_two_stages_equals_all_at_once(small_agent: Callable[..., Agent], piece: int) -> None:
    agent = letters_reader(small_agent, layers=2, window=3, slots=2, window_tokens=60)
    two_stages(agent, "letters", **{READOUT: "body"})
    batch = letters_pages([[4, 30, 0, 0, 45, 8, 30], [30, 0, 7, 0, 1, 40, 0]], seed=2)
    batch["first"][0, 1:] = False
    torch.testing.assert_close(said_in_pieces(agent, batch, piece), all_at_once(agent, batch), atol=ATOL, rtol=0)


def test_grow_refuses_other_tokens_for_the_same_stage(small_agent: Callable[..., Agent]) -> None:
    agent = reader(small_agent)
    with pytest.raises(ConfigError, match="'language' has grown some for text, readout; got all"):
        agent.grow(1, "language")
    agent.grow(1, "another")
    agent.grow(1, "another")
    assert agent.config.grown == ["language", "another", "another"]


def test_readout_attention_reads_the_last_layer_of_all_tokens(small_agent: Callable[..., Agent]) -> None:
    agent = reader(small_agent, layers=2)
    attention, state = ReadoutAttention(agent), agent.new_state(1)
    agent.step(state, agent.encode(state, [Moment(0.0, {"body": np.zeros(7, np.float32)}, first=True)]))
    weights = attention.weights()
    assert weights is not None
    assert attention._attention is agent.trunk.decoder.layers[1].self_attn
    assert float(weights.sum()) == pytest.approx(1.0, abs=1e-5)


class Aside(BoardEncoder):
    """A second encoder of the board, for heads only."""

    of = "board"
    enters = False


@torch.no_grad()
def test_sense_that_does_not_enter_changes_no_readout_and_no_recall(small_agent) -> None:
    agent = small_agent(senses=("board", "body"), shaken=False, layers=1)
    batch = collate(make_rows(2, 6, 3, ("board", "body")))
    recalled = collate_recalled([[({"board": np.ones((2, 3, 3), np.int8)}, 60.0)]])
    before, kept = agent.perceive(batch, ["trunk"]).readout, agent.encode_recalled(recalled).tokens
    agent.encoders["aside"] = Aside(agent.config.width)
    seen = agent.perceive(batch, ["trunk", "aside"])
    assert torch.equal(seen.readout, before)
    assert "aside" in seen.encoded
    assert "aside" not in agent.perceive(batch, ["trunk"]).encoded
    assert torch.equal(agent.encode_recalled(recalled).tokens, kept)
