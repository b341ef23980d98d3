"""Agents saved over others: only differences are kept, and a missing base agent gives a clear error."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from devmind.agent.agent import Agent
from devmind.agent.saving import CHECKSUMS, OVER, WEIGHTS, save
from devmind.errors import CheckpointError
from devmind.testing import tiny_agent


@pytest.fixture
def grown_up(tmp_path: Path) -> tuple[Path, Path, Agent]:
    """The folder of a child, the folder of the grown agent saved over it, and the grown agent."""
    child = tiny_agent()
    child.save_pretrained(tmp_path / "child")
    child.add_head("later", "head.categorical", options={"classes": 3})
    with torch.no_grad():
        child.readout.add_(1.0)
    save(child, tmp_path / "grown", over=tmp_path / "child")
    return tmp_path / "child", tmp_path / "grown", child


def test_saving_over_another_agent_keeps_only_differences_and_loads_whole(
    grown_up: tuple[Path, Path, Agent],
) -> None:
    _, folder, agent = grown_up
    own = set(load_file(folder / WEIGHTS))
    assert own == {"readout", *(f"heads.later.{name}" for name in agent.head("later").state_dict())}
    assert Agent.from_pretrained(folder).sha256() == agent.sha256()
    save(agent, folder.parent / "again", over=folder)
    assert load_file(folder.parent / "again" / WEIGHTS) == {}
    assert Agent.from_pretrained(folder.parent / "again").sha256() == agent.sha256()


def test_base_agent_must_be_present_and_unchanged(grown_up: tuple[Path, Path, Agent]) -> None:
    child, folder, agent = grown_up
    shutil.copytree(folder, folder.parent / "elsewhere" / "grown")
    with pytest.raises(CheckpointError, match="keeps only what 'child' lacks, and that is not beside it"):
        Agent.from_pretrained(folder.parent / "elsewhere" / "grown")
    whole = (child / WEIGHTS).read_bytes()
    (child / WEIGHTS).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CheckpointError, match=r"child/model\.safetensors' is damaged"):
        Agent.from_pretrained(folder)
    agent.save_pretrained(child)
    with pytest.raises(CheckpointError, match="another agent than the one"):
        Agent.from_pretrained(folder)


@pytest.mark.parametrize("name", ["../child", "..", ".", "", "grown", 3, None])
def test_invalid_name_of_a_base_folder_is_refused(grown_up: tuple[Path, Path, Agent], name: object) -> None:
    _, folder, _ = grown_up
    sums = json.loads((folder / CHECKSUMS).read_text())
    (folder / CHECKSUMS).write_text(json.dumps(sums | {OVER: sums[OVER] | {"folder": name}}))
    with pytest.raises(CheckpointError, match="names no folder beside it"):
        Agent.from_pretrained(folder)


def test_two_folders_over_each_other_are_refused(grown_up: tuple[Path, Path, Agent]) -> None:
    child, folder, _ = grown_up
    weights = json.loads((folder / CHECKSUMS).read_text())["files"][WEIGHTS]["sha256"]
    sums = json.loads((child / CHECKSUMS).read_text())
    (child / CHECKSUMS).write_text(json.dumps(sums | {OVER: {"folder": "grown", "sha256": weights}}))
    with pytest.raises(CheckpointError, match="was saved over itself"):
        Agent.from_pretrained(child)


def test_agent_is_not_saved_over_one_with_more_parts_or_elsewhere(grown_up: tuple[Path, Path, Agent]) -> None:
    _, folder, _ = grown_up
    with pytest.raises(CheckpointError, match=r"lacks heads\.later"):
        save(tiny_agent(), folder.parent / "new", over=folder)
    with pytest.raises(CheckpointError, match="stands beside it"):
        save(tiny_agent(), folder.parent / "there" / "new", over=folder.parent / "child")
