"""A run that cannot begin or continue gives a clear error, and saved files stay intact."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from devmind.agent.agent import Agent
from devmind.checkpointing import engine, generations
from devmind.config import load
from devmind.curriculum import childhood, runner, stage_run
from devmind.errors import CheckpointError, ConfigError, ExamError, PluginError
from tests.curriculum.lamp_stage import LampStage

STAGE = LampStage()


@pytest.fixture(autouse=True)
def own_stage(monkeypatch):
    for module in (runner, stage_run, childhood):
        monkeypatch.setattr(module, "load_stage", {"lamps": STAGE}.__getitem__)
    monkeypatch.setattr(childhood, "_in_new_process", runner.examine_childhood)  # another process has no lamps stage


def config(**changes):
    return load("tiny", {"checkpoint.every": "1e9 s", "loggers": (), "threads": 1, "device": "cpu", **changes})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run, which no test changes."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (runner, stage_run):
            patch.setattr(module, "load_stage", {"lamps": STAGE}.__getitem__)
        return runner.run_stage("lamps", config(), out=tmp_path_factory.mktemp("finished") / "run")


def test_output_folder_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be made"):
        runner.run_stage("lamps", config(), out=tmp_path / "file" / "run")
    with pytest.raises(CheckpointError, match="cannot be made"):
        runner.Curriculum(["lamps"], config(), tmp_path / "file" / "run").run()


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_read_only_output_folder_is_refused(tmp_path, monkeypatch, code):
    def refuse(self, *args, **more):
        raise OSError(code, os.strerror(code), str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(CheckpointError, match="give another --out"):
        runner.run_stage("lamps", config(), out=tmp_path / "run")
    monkeypatch.undo()
    assert not list(tmp_path.iterdir())


def test_full_disk_gives_a_clear_error_and_the_run_resumes_later(tmp_path, monkeypatch):
    fsync, calls = os.fsync, []

    def full(number):
        calls.append(number)
        if len(calls) > 60:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(number)

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(engine, "GRACE_S", 0.0)
    monkeypatch.setattr(engine, "OTHERS_WRITE", False)  # another process would have a disk with room
    with pytest.raises(CheckpointError, match=r"(?i)space"):
        runner.run_stage("lamps", config(**{"checkpoint.every": "1 step"}), out=tmp_path / "full")
    monkeypatch.setattr(os, "fsync", fsync)
    went_on = runner.run_stage("lamps", config(), out=tmp_path / "full")
    straight = runner.run_stage("lamps", config(), out=tmp_path / "straight")
    assert Agent.from_pretrained(went_on.agent).sha256() == Agent.from_pretrained(straight.agent).sha256()


def test_checkpoint_with_a_flipped_bit_is_skipped_for_the_one_before(tmp_path, monkeypatch):
    class Stop(BaseException):
        pass

    def stop(*args, **more):
        raise Stop

    monkeypatch.setattr(stage_run, "run_exams", stop)
    with pytest.raises(Stop):
        runner.run_stage("lamps", config(), out=tmp_path / "run")
    newest = generations.newest(tmp_path / "run" / "checkpoints")
    weights = newest / "tensors.safetensors"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(data)
    monkeypatch.undo()
    for module in (runner, stage_run, childhood):
        monkeypatch.setattr(module, "load_stage", {"lamps": STAGE}.__getitem__)
    monkeypatch.setattr(childhood, "_in_new_process", runner.examine_childhood)  # another process has no lamps stage
    result = runner.run_stage("lamps", config(), out=tmp_path / "run")
    straight = runner.run_stage("lamps", config(), out=tmp_path / "straight")
    assert Agent.from_pretrained(result.agent).sha256() == Agent.from_pretrained(straight.agent).sha256()


def test_missing_data_and_sessions_are_named(tmp_path):
    with pytest.raises(ConfigError, match="no folder"):
        runner.run_stage("lamps", config(), out=tmp_path / "run", data=tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="no file"):
        runner.run_stage("lamps", config(), out=tmp_path / "run", sessions=[tmp_path / "nowhere.mcap"])
    assert not (tmp_path / "run").exists()


def test_agent_without_admission_cannot_be_examined(tmp_path):
    from devmind.testing import tiny_agent

    tiny_agent().save_pretrained(tmp_path / "agent")
    with pytest.raises(ExamError, match="never admitted"):
        runner.examine("lamps", tmp_path / "agent", config())
    with pytest.raises((CheckpointError, PluginError), match="nowhere"):
        runner.examine("lamps", tmp_path / "nowhere", config())


def test_mistyped_skill_suggests_the_nearest(finished):
    result = finished
    with pytest.raises(ExamError, match="did you mean 'lamps-lit'"):
        runner.examine("lamps", result.agent, config(), skill="lamps-lot")
    told = runner.examine("lamps", result.agent, config())
    assert told["skills"]["lamps-lit"]["passed"]
    assert told["skills"]["lamps-lit"]["rows"] == told["skills"]["lamps-lit"]["floors"] == {}
    assert told["agent_sha256"] == Agent.from_pretrained(result.agent).sha256()


def test_separate_exam_leaves_no_file_beside_the_agent(finished, monkeypatch):
    """Regression: an exam left a judge in the installed package, where the packaged agents are."""
    agent, wrote = finished.agent, []

    class Judging(LampStage):
        def examine(self, agent, context):
            (context.out / "judge.npz").write_bytes(b"judge")
            wrote.append(context.out)
            return super().examine(agent, context)

    monkeypatch.setattr(runner, "load_stage", {"lamps": Judging()}.__getitem__)
    before = sorted(finished.out.rglob("*"))
    assert runner.examine("lamps", agent, config())["skills"]["lamps-lit"]["passed"]
    assert wrote
    assert not any(out.exists() for out in wrote)
    assert sorted(finished.out.rglob("*")) == before


def test_given_agent_refuses_settings_of_another_trunk(finished, tmp_path):
    run = finished
    wanted = config(trunk={"pretrained": "x"})
    with pytest.raises(ConfigError, match=r"trunk.pretrained=x cannot be used: .* was made with None"):
        runner.run_stage("lamps", wanted, out=tmp_path / "again", agent=run.agent)
    with pytest.raises(ConfigError, match=r"trunk\.pretrained=x"):
        runner.examine("lamps", run.agent, wanted)
    assert not (tmp_path / "again" / "journal.jsonl").exists()


def test_agent_of_another_size_is_refused(finished, tmp_path):
    run = finished
    with pytest.raises(ConfigError, match="has size tiny, and this run has size nursery; give --config tiny"):
        runner.run_stage("lamps", config(size="nursery"), out=tmp_path / "again", agent=run.agent)
    assert not (tmp_path / "again" / "journal.jsonl").exists()


def test_given_agent_gets_the_requested_window(finished, tmp_path):
    run = finished
    again = runner.run_stage("lamps", config(trunk={"window": 5}), out=tmp_path / "again", agent=run.agent)
    assert Agent.from_pretrained(run.agent).config.window == 8
    assert Agent.from_pretrained(again.agent).config.window == 5
    assert runner.examine("lamps", run.agent, config(trunk={"window": 5}))["skills"]
