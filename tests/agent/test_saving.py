"""Agents on disk: a loaded agent equals the saved one, and damage gives a clear error."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import socket
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING, PreTrainedConfig, PreTrainedModel

from devmind import plugins
from devmind.agent import saving
from devmind.agent.agent import Agent
from devmind.agent.batch import collate
from devmind.agent.config import AgentConfig
from devmind.agent.decoders import TRUNKS, why_unsupported
from devmind.errors import CheckpointError, PluginError
from tests.agent.conftest import make_rows
from tests.test_testing_parts import TiedHead, TurningHead


def test_loaded_agent_equals_the_saved_one(small_agent: Callable[..., Agent], tmp_path: Path) -> None:
    agent = small_agent(layers=2)
    agent.config.trained_on = ["speaker/theo"]
    agent.save_pretrained(tmp_path)
    again = Agent.from_pretrained(tmp_path)
    batch = collate(make_rows(2, 5, seed=0))
    assert torch.equal(agent.forward(batch)["guess"].logits, again.forward(batch)["guess"].logits)
    assert agent.sha256() == again.sha256()
    assert again.config.trained_on == ["speaker/theo"]
    assert agent.config.to_dict() == again.config.to_dict()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checksums.json", "config.json", "model.safetensors"]


def test_saving_again_replaces_and_the_hash_follows_the_weights(
    small_agent: Callable[..., Agent], tmp_path: Path
) -> None:
    agent = small_agent()
    agent.save_pretrained(tmp_path)
    before, sight = agent.sha256(), agent.sha256("encoders.sight.")
    with torch.no_grad():
        agent.readout[0] += 1
    agent.save_pretrained(tmp_path)
    assert agent.sha256() != before
    assert agent.sha256("encoders.sight.") == sight
    assert Agent.from_pretrained(tmp_path).sha256() == agent.sha256()


def test_agent_whose_window_was_shortened_to_one_moment_is_loaded(
    small_agent: Callable[..., Agent], tmp_path: Path
) -> None:
    agent = small_agent(senses=("body",))
    agent.set_window(1)
    agent.save_pretrained(tmp_path)
    again = Agent.from_pretrained(tmp_path)
    assert agent.config.to_dict() == again.config.to_dict()
    batch = collate(make_rows(2, 9, seed=0, senses=("body",)))
    assert torch.equal(agent(batch)["guess"].logits, again(batch)["guess"].logits)


def test_agent_loaded_for_one_stage_answers_and_is_saved_as_the_whole_one(
    small_agent: Callable[..., Agent], tmp_path: Path
) -> None:
    whole = small_agent()
    whole.add_head("early", "head.categorical", tap="sight", stage="first", options={"classes": 3})
    whole.add_head("late", "head.categorical", stage="second", options={"classes": 3})
    whole.save_pretrained(tmp_path / "whole")
    part = Agent.from_pretrained(tmp_path / "whole", stages=("first",))
    assert (list(part.heads), list(part.encoders)) == (["early"], ["sight"])
    batch = collate(make_rows(2, 5, seed=0))
    assert torch.equal(part(batch, ["early"])["early"].logits, whole.eval()(batch, ["early"])["early"].logits)
    assert part.sha256() == whole.sha256()
    part.save_pretrained(tmp_path / "part")
    assert Agent.from_pretrained(tmp_path / "part").sha256() == whole.sha256()
    assert list(Agent.from_pretrained(tmp_path / "part").heads) == list(whole.heads)


def test_tied_and_lazily_turned_tensors_are_saved_as_they_are(
    small_agent: Callable[..., Agent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: safetensors 0.8.0 raises for tensors that share memory, and writes those of torch 2.13 that are
    lazily conjugated or negated with the wrong signs; their bytes cannot be hashed either.
    """
    find = plugins.find
    own = {
        f"head.{kind.__name__}": plugins.Plugin("parts", kind.__name__, f"{__name__}:{kind.__name__}", "x", "1")
        for kind in (TiedHead, TurningHead)
    }
    monkeypatch.setattr(plugins, "find", lambda group, name: own.get(name) or find(group, name))
    agent = small_agent(senses=("body",))
    agent.add_head("tied", "head.TiedHead", options={"classes": 4})
    agent.add_head("turning", "head.TurningHead", options={"classes": 4})
    tied, turning = agent.head("tied"), agent.head("turning")
    assert turning.phase.is_conj()
    assert turning.sine.is_neg()
    phase = turning.phase.resolve_conj().clone()
    agent.save_pretrained(tmp_path / "whole")
    again = Agent.from_pretrained(tmp_path / "whole")
    assert agent.sha256() == again.sha256()
    assert torch.equal(again.head("turning").phase, phase)
    assert torch.equal(again.head("turning").sine, phase.imag)
    table, write = again.head("tied").table.weight, again.head("tied").write.weight
    assert torch.equal(table, tied.table.weight)
    assert table.data_ptr() == write.data_ptr(), "tied again"
    batch = collate(make_rows(2, 5, seed=0, senses=("body",)))
    for name in ("tied", "turning"):
        assert torch.equal(agent(batch)[name].logits, again(batch)[name].logits)
    with torch.no_grad():
        write[0] += 1
        again.head("turning").phase[0] *= 1j
    saving.save(again, tmp_path / "over", over=tmp_path / "whole")
    third = Agent.from_pretrained(tmp_path / "over")
    assert third.sha256() == again.sha256() != agent.sha256()


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _newer(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "devmind_version": 99}))


@pytest.mark.parametrize(
    ("name", "damage", "sentence"),
    [
        ("model.safetensors", _flip, "model.safetensors' is damaged: its checksum"),
        ("model.safetensors", Path.unlink, "the file model.safetensors is missing"),
        ("config.json", Path.unlink, "the file config.json is missing"),
        ("checksums.json", Path.unlink, "the file checksums.json is missing"),
        ("checksums.json", lambda path: path.write_text("{}"), "does not name the agent's files"),
        ("config.json", lambda path: path.write_text("{"), "is not JSON"),
        ("config.json", _newer, "is of format 99 and this devmind reads up to 1: update devmind"),
        ("config.json", lambda path: path.write_text('{"model_type": "llama"}'), "not a devmind agent"),
    ],
)
def test_damage_gives_a_clear_error(
    small_agent: Callable[..., Agent], tmp_path: Path, name: str, damage: Callable[[Path], object], sentence: str
) -> None:
    small_agent(senses=("body",)).save_pretrained(tmp_path)
    damage(tmp_path / name)
    with pytest.raises(CheckpointError, match=sentence):
        Agent.from_pretrained(tmp_path)


def test_error_names_a_folder_that_cannot_be_written(small_agent: Callable[..., Agent], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be saved in"):
        small_agent(senses=("body",)).save_pretrained(tmp_path / "file")


def test_part_of_a_missing_plugin_is_kept_on_disk(
    small_agent: Callable[..., Agent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = small_agent()
    agent.save_pretrained(tmp_path / "whole")
    find = plugins.find

    def without_board(group: str, name: str) -> plugins.Plugin:
        if name == "encoder.board":
            raise PluginError("There is no part named 'encoder.board'.")
        return find(group, name)

    with monkeypatch.context() as patch:
        patch.setattr(plugins, "find", without_board)
        with pytest.warns(UserWarning, match="'board' is left out, its weights are kept") as warned:
            partial = Agent.from_pretrained(tmp_path / "whole")
        assert len([w for w in warned if "left out" in str(w.message)]) == 1
        with pytest.raises(PluginError, match=r"encoder\.board"):
            Agent.from_pretrained(tmp_path / "whole", strict=True)
        assert "board" not in partial.encoders
        assert partial.sha256() == agent.sha256()
        partial.forward(collate(make_rows(1, 2, seed=0)))
        partial.save_pretrained(tmp_path / "again")
    assert Agent.from_pretrained(tmp_path / "again").sha256("encoders.board.") == agent.sha256("encoders.board.")


@pytest.mark.slow
def test_another_process_gives_equal_outputs(small_agent: Callable[..., Agent], tmp_path: Path) -> None:
    agent = small_agent()
    agent.save_pretrained(tmp_path)
    torch.set_num_threads(1)
    expected = agent.forward(collate(make_rows(2, 5, seed=0)))["guess"].logits
    script = (
        "import sys, torch; torch.set_num_threads(1)\n"
        "from devmind.agent.agent import Agent; from devmind.agent.batch import collate\n"
        "from tests.agent.conftest import make_rows; from safetensors.torch import save_file\n"
        "logits = Agent.from_pretrained(sys.argv[1]).forward(collate(make_rows(2, 5, seed=0)))['guess'].logits\n"
        "save_file({'logits': logits.detach()}, sys.argv[2])\n"
    )
    out = tmp_path / "out.safetensors"
    subprocess.run([sys.executable, "-c", script, str(tmp_path), str(out)], check=True, cwd=Path(__file__).parents[2])
    from safetensors.torch import load_file

    assert torch.equal(load_file(out)["logits"], expected)


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object], file: str = "config.json") -> None:
    """Change a saved agent's config as a stranger would, with a right checksum."""
    config = json.loads((folder / file).read_text())
    change(config)
    data = json.dumps(config).encode()
    (folder / file).write_bytes(data)
    sums = json.loads((folder / "checksums.json").read_text())
    sums["files"][file] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "checksums.json").write_text(json.dumps(sums))


def _library_words() -> list[str]:
    """Every name that transformers may take from a config or as an argument where a model is built."""
    taken = [PreTrainedConfig.__init__, PreTrainedConfig.__post_init__, PreTrainedConfig.from_dict]
    taken += [PreTrainedModel.__init__, PreTrainedModel._from_config, PreTrainedModel.from_pretrained]
    found = {name for function in taken for name in inspect.signature(function).parameters}
    found |= {field.name for field in dataclasses.fields(PreTrainedConfig)}
    found |= {
        f"{one}{name}_implementation{two}"
        for one in ("", "_")
        for name in ("attn", "experts")
        for two in ("", "_internal")
    }
    found |= {
        "auto_map",
        "quantization_config",
        "torchscript",
        "_commit_hash",
        "use_kernels",
        "kernel_config",
        "base_model",
    }
    return sorted(found - {"self", "cls", "args", "kwargs"})


def test_words_of_the_library_in_a_received_config_change_nothing(
    small_agent: Callable[..., Agent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("loading an agent asked for something from elsewhere")

    agent = small_agent(senses=("body",))
    agent.save_pretrained(tmp_path)
    kernels = types.ModuleType("kernels")
    kernels.__getattr__ = lambda name: refuse  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "kernels", kernels)
    monkeypatch.setattr(socket, "socket", refuse)
    words = _library_words()
    assert {"attn_implementation", "_attn_implementation", "dtype", "use_safetensors"} <= set(words)
    for value in ("stranger/kernel", {"": "stranger/kernel"}, True):
        rewrite(tmp_path, lambda config, value=value: config.update({w: value for w in words if w not in OWN}))
        again = Agent.from_pretrained(tmp_path)
        assert again.sha256() == agent.sha256()
        assert again.config.to_dict() == agent.config.to_dict()
        assert {one.config._attn_implementation for one in (again, again.trunk.decoder)} == {"eager", "sdpa"}


OWN = (*AgentConfig.__annotations__, "model_type")


def test_words_of_the_library_in_a_received_trunk_change_nothing(tmp_path: Path) -> None:
    trunk = {"model_type": "qwen3", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1}
    trunk |= {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8}
    agent = Agent(AgentConfig(size="tiny", trunk=trunk))
    agent.save_pretrained(tmp_path)
    rewrite(tmp_path, lambda config: config["trunk"].update({w: "stranger/kernel" for w in _library_words()}))
    again = Agent.from_pretrained(tmp_path)
    assert again.sha256() == agent.sha256()
    assert again.trunk.decoder.config._attn_implementation == "sdpa"
    rewrite(tmp_path, lambda config: config.update(trunk={"model_type": "mamba2", "hidden_size": 16}))
    with pytest.raises(PluginError, match="'mamba2' cannot be the trunk"):
        Agent.from_pretrained(tmp_path)


@pytest.mark.parametrize("kind", TRUNKS)
def test_every_kind_of_trunk_works_as_one(kind: str) -> None:
    names = {field.name for field in dataclasses.fields(CONFIG_MAPPING[kind])}
    small = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    small |= {"num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64}
    trunk = {"model_type": kind, **{name: value for name, value in small.items() if name in names}}
    assert why_unsupported(Agent(AgentConfig(size="tiny", trunk=trunk)).trunk.decoder) is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda config: config.update(width=1 << 20), "asks for parts of over"),
        (lambda config: config.update(layers=10**9), "names 1,000,000,000 layers"),
        (lambda config: config.update(slots=10**9), "asks for parts of over"),
        (lambda config: config.update(stages=["x"] * 10**4), "names 10,000 stages"),
        (lambda config: config.update(grown=["reflex"] * 10**4), "names 10,000 grown"),
        (lambda config: config.update(deep={"reflex": {"body": "body"}}), "'reflex', which has grown none"),
        (lambda config: config.update(grown=["a"], deep={"a": {"taste": "body"}}), "tokens of 'taste'"),
        (lambda config: config.update(hearing={"encoder": ["abacus"]}), "says how it hears, and not rightly"),
        (lambda config: config["heads"][0].update(labels=["\x1b[2J"]), "one printable line is expected"),
        (lambda config: config.update(encoders=7), "describes no agent"),
    ],
)
def test_config_that_does_not_fit_its_weights_is_refused_before_memory_is_taken(
    small_agent: Callable[..., Agent], tmp_path: Path, change: Callable[[dict[str, Any]], object], sentence: str
) -> None:
    small_agent(senses=("body",)).save_pretrained(tmp_path)
    rewrite(tmp_path, change)
    with pytest.raises(CheckpointError, match=sentence):
        Agent.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("make", "bytes_"),
    [
        (lambda: torch.arange(7), 56),
        (lambda: torch.arange(1, 8, 2), 32),
        (lambda: torch.arange(0, 1, 0.25, dtype=torch.float32), 16),
        (lambda: torch.arange(end=3, start=1, dtype=torch.uint8, device="cpu"), 2),
        (lambda: torch.linspace(0, 1, 5, dtype=torch.float32), 20),
        (lambda: torch.logspace(0, 1, steps=5, base=2.0, dtype=torch.float64), 40),
        (lambda: torch.eye(3, dtype=torch.float32), 36),
        (lambda: torch.eye(3, 2, dtype=torch.float32), 24),
        (lambda: torch.randint(5, (2, 3)), 48),
        (lambda: torch.randint(0, 5, size=(4,), generator=torch.Generator()), 32),
        (lambda: torch.randperm(6), 48),
    ],
)
def test_tensors_are_counted_before_they_are_made(
    make: Callable[[], torch.Tensor], bytes_: int, tmp_path: Path
) -> None:
    assert make().nbytes == bytes_
    with saving._Allowance(tmp_path, bytes_):
        make()
    with pytest.raises(CheckpointError, match="asks for parts"), saving._Allowance(tmp_path, bytes_ - 1):
        make()


def test_weights_that_are_not_finite_are_refused(small_agent: Callable[..., Agent], tmp_path: Path) -> None:
    agent = small_agent(senses=("body",))
    for value in (float("nan"), float("inf")):
        with torch.no_grad():
            agent.readout[3] = value
        agent.save_pretrained(tmp_path)
        with pytest.raises(CheckpointError, match="hold numbers in 'readout' that are not finite"):
            Agent.from_pretrained(tmp_path)


def test_deep_nesting_in_an_agents_files_is_a_sentence(small_agent: Callable[..., Agent], tmp_path: Path) -> None:
    small_agent(senses=("body",)).save_pretrained(tmp_path)
    for name in ("config.json", "checksums.json"):
        kept = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(b'{"a":' * 100_000)
        with pytest.raises(CheckpointError, match="is damaged: it is not JSON"):
            Agent.from_pretrained(tmp_path)
        (tmp_path / name).write_bytes(kept)
