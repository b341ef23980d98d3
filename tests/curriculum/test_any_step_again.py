"""Any step of a lesson is made again bit for bit, and `devmind checkpoint` shows, checks and deletes what is saved."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from devmind.agent.agent import Agent
from devmind.checkpointing import engine, writer
from devmind.checkpointing.generations import load, on_shelf, read_manifest
from devmind.cli import app
from devmind.curriculum import stage_run
from devmind.curriculum.stage_run import replay
from devmind.errors import CheckpointError, ConfigError
from tests.curriculum.test_run_identity import hurry, run


@pytest.fixture(autouse=True)
def own_stages(monkeypatch):
    hurry(monkeypatch)


@pytest.fixture(scope="module")
def every_step(tmp_path_factory):
    """A run that has kept the state behind every step, and a second copy of each."""
    out = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        hurry(patch)
        patch.setattr(engine, "OTHERS_WRITE", False)
        patch.setattr(engine.Writer, "_kept", None)
        patch.setattr(writer, "retire", lambda *_, **more: [])
        run(out, **{"checkpoint.backup": str(out.parent / "backup")})
    return out


@pytest.fixture
def whole(every_step, tmp_path):
    """A copy; its backups are found only by the run in the first place."""
    return shutil.copytree(every_step, tmp_path / "run")


def saved(out: Path) -> dict[tuple[str, int], Path]:
    about = {path: read_manifest(path)["about"] for path in on_shelf(out / "checkpoints")}
    return {(one["lesson"], one["step"]): path for path, one in about.items()}


def same(folder: Path, state: Path) -> bool:
    there, here = load(state)["agent"], Agent.from_pretrained(folder).state_dict()
    return there.keys() == here.keys() and all(torch.equal(value, here[name]) for name, value in there.items())


def test_step_is_made_again_from_the_newest_checkpoint_before_it(whole, every_step, tmp_path):
    kept = saved(whole)
    assert set(kept) == {(lesson, step) for lesson in ("one", "two") for step in range(1, 5)}
    for lesson, step in (("two", 1), ("two", 3), ("two", 4)):
        shutil.rmtree(kept[lesson, step])
    assert replay(whole, 4, tmp_path / "four") == ("two", 2)
    assert same(tmp_path / "four", saved(every_step)["two", 4])
    assert replay(whole, 3, tmp_path / "three") == ("two", 2)
    assert same(tmp_path / "three", saved(every_step)["two", 3])
    assert replay(whole, 2, tmp_path / "two") == ("two", 2)
    assert same(tmp_path / "two", saved(every_step)["two", 2])
    for step in (1, 5):
        with pytest.raises(ConfigError, match=rf"Step {step} of the lesson 'two' cannot be made again .* to 4"):
            replay(whole, step, tmp_path / "none")


def test_lesson_of_several_processes_is_not_made_again_by_one(whole, tmp_path, monkeypatch):
    """Regression: it took one process's batches, and gave another agent without a word."""
    monkeypatch.setattr(
        stage_run, "read_manifest", lambda path: {"about": {**read_manifest(path)["about"], "ranks": 2}}
    )
    with pytest.raises(ConfigError, match="was taught by 2 processes"):
        replay(whole, 3, tmp_path / "three")


def test_first_lesson_is_made_again_from_its_beginning(whole, every_step, tmp_path):
    for (lesson, step), path in saved(whole).items():
        if lesson == "two" or step < 4:
            shutil.rmtree(path)
    before = sorted(path.relative_to(whole) for path in whole.rglob("*"))
    assert replay(whole, 3, tmp_path / "three") == ("one", 0)
    assert same(tmp_path / "three", saved(every_step)["one", 3])
    assert sorted(path.relative_to(whole) for path in whole.rglob("*")) == before
    shutil.rmtree(whole / "checkpoints")
    with pytest.raises(CheckpointError, match="no checkpoint that is whole"):
        replay(whole, 3, tmp_path / "again")
    with pytest.raises(CheckpointError, match="There is no run of a stage"):
        replay(tmp_path, 3, tmp_path / "again")


def devmind(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_commands_list_verify_restore_and_prune(every_step, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    listed = devmind("checkpoint", "list", str(every_step)).stdout
    assert listed.count("gen-0000000") == 16, "eight, and their backups"
    assert "2 of 4" in listed
    assert devmind("checkpoint", "verify", str(every_step)).stdout.count(": whole") == 16
    made = devmind("checkpoint", "restore", str(every_step), "--step", "3", "--out", str(tmp_path / "three"))
    assert "two: step 3, taught again from step 3 in " in made.stdout
    newest = saved(every_step)["two", 4] / "tensors.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1] + b"?")
    checked = devmind("checkpoint", "verify", str(every_step))
    assert (checked.exit_code, "tensors.safetensors is damaged" in checked.stdout) == (1, True)
    pruned = devmind("checkpoint", "prune", str(every_step)).stdout
    assert pruned.count("deleted ") == 13, "of eight the damaged and the newest whole one stay, of their backups one"
    for wrong in (tmp_path, every_step.parent):
        refused = devmind("checkpoint", "list", str(wrong))
        assert (refused.exit_code, "has no checkpoints; give the folder of" in refused.stderr) == (2, True)
