"""Agents on disk: a loaded agent equals the saved one, and damage gives a clear error."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModel

from devmind import plugins
from devmind.agent.agent import Agent, register_auto_classes
from devmind.agent.batch import collate
from devmind.checkpointing.folders import verify
from devmind.errors import CheckpointError, PluginError
from tests.agent.conftest import make_rows


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
    verify(tmp_path)  # sealed as every other saved folder


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


def test_automodel_loads_agents(small_agent: Callable[..., Agent], tmp_path: Path) -> None:
    agent = small_agent(senses=("body",))
    agent.save_pretrained(tmp_path)
    register_auto_classes()
    assert AutoModel.from_pretrained(tmp_path).sha256() == agent.sha256()


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
