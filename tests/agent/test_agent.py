"""The whole agent: independence of its parts, keys, growth, sizes, pretrained trunks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import (
    GPT2Config,
    GPT2Model,
    LlamaConfig,
    LlamaModel,
    Qwen2Config,
    Qwen2Model,
    Qwen3Config,
    Qwen3Model,
)

from devmind.agent.agent import Agent
from devmind.agent.batch import collate
from devmind.agent.config import SIZES, AgentConfig
from devmind.agent.threads import stepping_threads, training_threads
from devmind.errors import ConfigError, DevmindError, PluginError
from devmind.testing.laws import ATOL
from tests.agent.conftest import SENSES, make_rows, shake
from tests.agent.test_stepping import all_at_once, stepped


def test_adding_a_head_leaves_every_other_output_bit_equal(small_agent: Callable[..., Agent]) -> None:
    batch = collate(make_rows(2, 4, seed=0))
    agent = small_agent()
    before = agent.forward(batch)
    agent.add_head("more", "head.normal", tap="sight", effector="look", options={"size": 2})
    after = agent.forward(batch)
    assert torch.equal(before["guess"].logits, after["guess"].logits)
    assert torch.equal(before["steer"].mean, after["steer"].mean)


def test_part_weights_do_not_depend_on_earlier_parts(small_agent: Callable[..., Agent]) -> None:
    torch.manual_seed(1)
    alone = small_agent(senses=("sound",), shaken=False)
    torch.manual_seed(2)
    among = small_agent(shaken=False)
    for prefix in ("encoders.sound.", "heads.flinch.", "trunk."):
        assert alone.sha256(prefix) == among.sha256(prefix)
    other_seed = small_agent(senses=("sound",), shaken=False, seed=1)
    assert alone.sha256("heads.flinch.") != other_seed.sha256("heads.flinch.")


def test_building_a_part_keeps_the_random_state_of_torch(small_agent: Callable[..., Agent]) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    small_agent(shaken=False)
    assert torch.equal(torch.rand(3), expected)


def test_new_encoder_keeps_features_of_moments_without_its_sense(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=("sight", "body", "sound"))
    batch = collate(make_rows(2, 4, seed=0, senses=("sight", "body", "sound")))
    before = all_at_once(agent, batch)
    for sense in ("words", "periphery", "board"):
        agent.add_encoder(sense)
    assert torch.equal(all_at_once(agent, batch), before)


def test_each_sense_has_a_key_of_length_one(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent()
    percepts = agent.encode(agent.new_state(2), collate(make_rows(2, 1, seed=0, absent=0.0)))
    assert set(percepts.keys) == set(SENSES)
    for key in percepts.keys.values():
        assert key.shape == (2, 64)
        torch.testing.assert_close(key.norm(dim=-1), torch.ones(2))
    assert not any("key_projection" in name for name, _ in agent.named_parameters())


def test_grow_keeps_features_before_training(small_agent: Callable[..., Agent], tmp_path: Path) -> None:
    agent = small_agent(layers=2)
    batch = collate(make_rows(2, 10, seed=0))
    before, old_state = all_at_once(agent, batch), agent.new_state(2)
    agent.grow(layers=2)
    assert (agent.trunk.n_layers, agent.config.layers) == (4, 4)
    assert torch.equal(all_at_once(agent, batch), before)
    torch.testing.assert_close(stepped(agent, batch), before, atol=ATOL, rtol=0)
    with pytest.raises(DevmindError, match="trunk of 2 layers, the agent has 4 now"):
        agent.encode(old_state, collate(make_rows(2, 1, seed=0)))
    shake(agent)
    features = all_at_once(agent, batch)
    torch.testing.assert_close(stepped(agent, batch), features, atol=ATOL, rtol=0)
    agent.save_pretrained(tmp_path)
    assert torch.equal(all_at_once(Agent.from_pretrained(tmp_path), batch), features)


def test_evaluate_equals_forward_on_single_moments(small_agent: Callable[..., Agent]) -> None:
    """Any sense may be absent; if all heads are arcs, the trunk is not run."""
    agent = small_agent(layers=2)
    agent.add_head("peek", "head.normal", tap="raw:body", options={"size": 2})
    rows = make_rows(9, 1, seed=0)
    batch = collate(rows)
    senses = {name: value[:, 0] for name, value in batch["senses"].items()}
    present = {name: value[:, 0] for name, value in batch["present"].items()}
    names = ["guess", "flinch", "steer", "peek"]
    found, wanted = agent.evaluate(senses, names, present), agent.forward(batch, names, short_term=False)
    torch.testing.assert_close(found["guess"].logits, wanted["guess"].logits[:, 0], atol=ATOL, rtol=0)
    torch.testing.assert_close(found["flinch"].logits, wanted["flinch"].logits[:, 0], atol=ATOL, rtol=0)
    torch.testing.assert_close(found["peek"].mean, wanted["peek"].mean[:, 0], atol=ATOL, rtol=0)
    del agent.trunk
    assert torch.equal(agent.evaluate(senses, ["flinch"], present)["flinch"].logits, found["flinch"].logits)


def test_evaluate_of_a_batch_equals_single_evaluations(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(layers=2)
    boards = torch.randint(-1, 2, (7, 2, 6, 7), dtype=torch.int8, generator=torch.Generator().manual_seed(0))
    together = agent.evaluate({"board": boards}, ["guess"])["guess"].logits
    assert together.shape == (7, 5)
    alone = torch.cat([agent.evaluate({"board": board[None]}, ["guess"])["guess"].logits for board in boards])
    torch.testing.assert_close(together, alone, atol=ATOL, rtol=0)


def test_parts_hold_every_parameter_once(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent()
    agent.add_head("late", "head.value", stage="language")
    groups = agent.parts()
    assert ("head.late", "language") in groups
    assert ("trunk", "newborn") in groups
    listed = [id(parameter) for group in groups.values() for parameter in group]
    assert sorted(listed) == sorted(id(parameter) for parameter in agent.parameters())


def test_every_used_parameter_gets_a_gradient(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(window=2)
    rows = make_rows(2, 4, seed=0, absent=0.0)
    batch = collate(rows, [[[(m.senses, 1.0)] for m in row] for row in rows])
    batch["first"][:, 1:] = False  # long enough for slots to be written
    outputs = agent.forward(batch)
    (outputs["guess"].logits.sum() + outputs["steer"].mean.sum() + outputs["flinch"].logits.sum()).backward()
    idle = {name for name, p in agent.named_parameters() if p.grad is None}
    assert idle == {"trunk.decoder.embed_tokens.weight", "heads.steer.log_std"}


@pytest.mark.parametrize(("size", "low", "high"), [("tiny", 10_000, 30_000), ("nursery", 0.9e6, 1.4e6)])
def test_agent_sizes_have_the_expected_number_of_parameters(size: str, low: float, high: float) -> None:
    agent = Agent(AgentConfig(size=size))
    for sense in ("sight", "periphery", "sound", "body", "words"):
        agent.add_encoder(sense)
    assert low < agent.num_parameters() < high


def test_config_errors_name_the_wrong_value() -> None:
    with pytest.raises(ConfigError, match="no agent size 'nursary'; did you mean 'nursery'"):
        AgentConfig(size="nursary")
    with pytest.raises(ConfigError, match="multiple of 8"):
        AgentConfig(width=100, attention_heads=3)
    assert AgentConfig(size="child").width == SIZES["child"].width == 512


_SMALL = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
_DECODERS = {
    "llama": lambda: LlamaModel(LlamaConfig(**_SMALL)),
    "qwen2": lambda: Qwen2Model(Qwen2Config(**_SMALL, use_sliding_window=True, sliding_window=3, max_window_layers=1)),
    "qwen3": lambda: Qwen3Model(Qwen3Config(**_SMALL, head_dim=16)),
}


@pytest.mark.parametrize("kind", sorted(_DECODERS))
def test_pretrained_decoder_becomes_the_trunk(tmp_path: Path, kind: str) -> None:
    torch.manual_seed(0)
    decoder = _DECODERS[kind]()
    decoder.save_pretrained(tmp_path / "decoder")
    agent = Agent(AgentConfig(size="tiny", window=4, rebase_at=150, pretrained=str(tmp_path / "decoder")))
    for sense in SENSES:
        agent.add_encoder(sense)
    weight = "layers.0.self_attn.q_proj.weight"
    assert torch.equal(agent.trunk.decoder.state_dict()[weight], decoder.state_dict()[weight])
    batch = collate(make_rows(2, 14, seed=0))
    torch.testing.assert_close(stepped(agent, batch), all_at_once(agent, batch), atol=ATOL, rtol=0)

    before = all_at_once(agent, batch)
    agent.grow(1)
    torch.testing.assert_close(all_at_once(agent, batch), before)
    agent.save_pretrained(tmp_path / "agent")
    again = Agent.from_pretrained(tmp_path / "agent")
    assert again.trunk.decoder.config.model_type == kind
    assert torch.equal(all_at_once(again.eval(), batch), all_at_once(agent.eval(), batch))


def test_unsupported_decoders_raise_a_clear_error(tmp_path: Path) -> None:
    GPT2Model(GPT2Config(vocab_size=50, n_embd=32, n_layer=1, n_head=2)).save_pretrained(tmp_path / "gpt2")
    with pytest.raises(PluginError, match=r"\(gpt2\) cannot be the trunk: it lacks"):
        Agent(AgentConfig(size="tiny", pretrained=str(tmp_path / "gpt2")))
    dynamic = LlamaConfig(**_SMALL, rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4})
    LlamaModel(dynamic).save_pretrained(tmp_path / "dynamic")
    with pytest.raises(PluginError, match="angles change with the length"):
        Agent(AgentConfig(size="tiny", pretrained=str(tmp_path / "dynamic")))
    with pytest.raises(PluginError, match="cannot be loaded as a trunk"):
        Agent(AgentConfig(size="tiny", pretrained=str(tmp_path / "nowhere")))


def test_thread_counts_are_restored() -> None:
    before = torch.get_num_threads()
    with stepping_threads():
        assert torch.get_num_threads() == 1
        with training_threads(2):
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
