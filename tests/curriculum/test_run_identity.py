"""The identity of a run: what it depends on is pinned, edits are refused, and only one process writes at a time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from devmind import plugins
from devmind.acting.standing import read_results
from devmind.agent.agent import Agent
from devmind.agent.saving import seal
from devmind.checkpointing import engine, generations
from devmind.checkpointing.lock import lock_folder
from devmind.config import load
from devmind.curriculum import pinned, runner, stage_run
from devmind.curriculum.finished import check_same_run, found_path, identity
from devmind.curriculum.journal import Journal
from devmind.curriculum.start import gate_passed
from devmind.errors import CheckpointError, ConfigError
from devmind.raised import raised_agents as packed
from tests.curriculum.lamp_stage import LampStage


class Killed(BaseException):
    """Stands for a kill -9."""


@pytest.fixture(autouse=True)
def own_stages(monkeypatch):
    hurry(monkeypatch)


def hurry(monkeypatch):
    monkeypatch.setattr("devmind.curriculum.machine.LESSON_S", 0.01)
    monkeypatch.setattr("devmind.curriculum.machine.PRODUCTS_S", 0.01)
    for module in (runner, stage_run):
        monkeypatch.setattr(module, "load_stage", {"lamps": LampStage(0.0, steps=4)}.__getitem__)


def config(**changes):
    return load("tiny", {"checkpoint.every": "1 step", "loggers": (), "device": "cpu", **changes})


def run(out, **changes):
    return runner.run_stage("lamps", config(**changes), out=out)


@pytest.fixture(scope="module")
def killed_once(tmp_path_factory):
    """A run that was killed in its second lesson, on two threads."""
    out = tmp_path_factory.mktemp("killed") / "run"
    write = Journal.write

    def until(self, event, **fields):
        if event == "progress" and fields["lesson"] == "two":
            raise Killed
        write(self, event, **fields)

    with pytest.MonkeyPatch.context() as patch:
        hurry(patch)
        patch.setattr(Journal, "write", until)
        patch.setattr("devmind.agent.threads.cores", lambda: 2)
        with pytest.raises(Killed):
            run(out)
    assert generations.newest(out / "checkpoints") is not None
    return out


@pytest.fixture
def killed(killed_once, tmp_path):
    return shutil.copytree(killed_once, tmp_path / "run")


def test_recorded_number_of_threads_is_used_on_any_number_of_cores(killed, monkeypatch):
    used = []
    monkeypatch.setattr("devmind.agent.threads.cores", lambda: 1)
    examine = stage_run.run_exams
    monkeypatch.setattr(
        stage_run, "run_exams", lambda *all, **more: used.append(torch.get_num_threads()) or examine(*all, **more)
    )
    assert run(killed).passed
    assert used == [2]
    assert Journal(killed / "journal.jsonl").last("start")["pinned"]["threads"] == 2


def test_every_checkpoint_names_the_inputs_of_its_run(killed):
    saved = generations.load(generations.newest(killed / "checkpoints"))
    assert saved["run"] == pinned.pinned_settings(Journal(killed / "journal.jsonl"))
    assert {"threads", "versions", "device", "data", "sessions"} <= set(saved["run"])


def test_other_package_versions_are_refused_by_name(killed, monkeypatch):
    before = (killed / "journal.jsonl").read_bytes()
    found = pinned.versions()
    monkeypatch.setattr(pinned, "version", lambda name: "9.9" if name == "torch" else found[name])
    with pytest.raises(CheckpointError, match=rf"torch was {found['torch'].split('+')[0]}.*, now 9.9"):
        run(killed)
    events = [event["event"] for event in Journal(killed / "journal.jsonl").events()]
    assert (killed / "journal.jsonl").read_bytes().startswith(before)
    assert "resumed" not in events


def test_another_version_of_the_stages_own_package_is_refused(tmp_path, monkeypatch):
    """Regression: only devmind's own packages were compared, so other lessons went on in a plugin's run."""
    lamps = plugins.Plugin("devmind.stages", "lamps", "lamp_stage:LampStage", "lamp-stage", "1.0")
    available = plugins.available
    monkeypatch.setattr(plugins, "available", lambda group: {"lamps": lamps} if group == "stages" else available(group))
    found = {**pinned.versions(), "lamp-stage": "1.0"}
    monkeypatch.setattr(pinned, "version", found.__getitem__)

    def stop(*all, **more):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(stage_run.StageRun, "_examine", stop)
        with pytest.raises(Killed):
            run(tmp_path / "run")
    found["lamp-stage"] = "1.1"
    with pytest.raises(CheckpointError, match=r"lamp-stage was 1\.0, now 1\.1"):
        run(tmp_path / "run")
    found["lamp-stage"] = "1.0"
    assert run(tmp_path / "run").passed


def test_exams_of_runs_are_the_same_though_the_later_one_has_further_packages():
    def start(**packages):
        return {"identity": {"config": {"seed": 0}}, "commit": "a", "pinned": {"data": None, "versions": packages}}

    assert pinned.same_exams(start(torch="2"), start(torch="2", lamps="1"))
    assert not pinned.same_exams(start(torch="2", lamps="1"), start(torch="2", lamps="2"))
    assert not pinned.same_exams(start(torch="2", lamps="1"), start(torch="2"))


def test_stage_that_adds_more_parts_is_refused_by_name(killed, monkeypatch):
    """Otherwise lessons would continue without the parts that they train now."""
    admit = LampStage.admit

    def more(self, agent):
        admit(self, agent)
        agent.add_head("further", "head.value", stage="lamps")

    monkeypatch.setattr(LampStage, "admit", more)
    with pytest.raises(CheckpointError, match=r"another version of the stage 'lamps': its agent lacks further"):
        run(killed)
    assert "resumed" not in [event["event"] for event in Journal(killed / "journal.jsonl").events()]


def test_stage_with_other_lessons_is_refused_by_name(killed, monkeypatch):
    """Regression: a lesson with another name ended in a KeyError, and a new one was taught to a finished agent."""
    renamed = LampStage(0.0, lesson_names=("one", "third"), steps=4)
    monkeypatch.setattr(stage_run, "load_stage", {"lamps": renamed}.__getitem__)
    monkeypatch.setattr(runner, "load_stage", {"lamps": renamed}.__getitem__)
    with pytest.raises(
        CheckpointError, match=r"version of the stage 'lamps': its lessons were one, two, now one, third\."
    ):
        run(killed)


@pytest.mark.parametrize("gone", [True, False])
def test_run_does_not_continue_without_the_agent_that_it_began_with(tmp_path, monkeypatch, gone):
    """Regression: it was taught to its end, and then its exams could not be compared, or were with another agent's."""
    stages = {"lamps": LampStage(0.0, steps=4), "later": LampStage(0.0, ("third",), 4, "later", ("lamps",))}
    for module in (runner, stage_run):
        monkeypatch.setattr(module, "load_stage", stages.__getitem__)
    first, second = (run(tmp_path / name, seed=seed) for name, seed in (("first", 0), ("second", 1)))

    def stop(*all, **more):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(stage_run.StageRun, "_examine", stop)
        with pytest.raises(Killed):
            runner.run_stage("later", config(), out=tmp_path / "later", agent=first.agent)
    first.agent.rename(tmp_path / "kept")
    if not gone:
        second.agent.rename(first.agent)
    with pytest.raises(CheckpointError, match=f"the agent in '.*' was .*, now {'gone' if gone else '[0-9a-f]{12}'}"):
        runner.run_stage("later", config(), out=tmp_path / "later", agent=first.agent)
    if not gone:
        shutil.rmtree(first.agent)
    (tmp_path / "kept").rename(first.agent)
    assert runner.run_stage("later", config(), out=tmp_path / "later", agent=first.agent).passed


def test_packaged_agent_is_found_where_devmind_is_installed_now(tmp_path):
    assert found_path("/gone/site-packages/devmind/raised/after-memory", tmp_path) == packed()["after-memory"]
    assert found_path("/gone/raised/mine", tmp_path) == Path("/gone/raised/mine")


def test_run_continues_though_a_name_of_its_stage_has_a_slash(tmp_path, monkeypatch):
    """Regression: checkpoints lay in a folder more than where they are looked for, so the run began anew."""
    stages = {"lamps": LampStage(0.0, lesson_names=("see/one", "two", "three"), steps=4)}
    for module in (runner, stage_run):
        monkeypatch.setattr(module, "load_stage", stages.__getitem__)
    taught = []

    def stop(self, lesson, agent):
        taught.append(lesson.name)
        if len(taught) == 1:
            raise Killed

    monkeypatch.setattr(stage_run.StageRun, "_glimpse", stop)
    with pytest.raises(Killed):
        run(tmp_path / "run")
    assert run(tmp_path / "run").passed
    assert taught == ["see/one", "two"]


def test_paths_of_a_run_are_compared_by_place(tmp_path, monkeypatch):
    """Paths of older journals are as they were typed."""
    monkeypatch.chdir(tmp_path)
    out, agent, sessions = Path("runs/later"), Path("runs/lamps/agent"), [Path("a.mcap"), Path("runs/b.mcap")]
    agent.mkdir(parents=True)
    sessions[1].touch()
    mine = identity("later", load("tiny"), agent, Path("data"), sessions, out)
    kept = {name: mine[name] for name in ("agent", "data", "experience")}
    beside, away = os.path.join("..", "lamps", "agent"), str(tmp_path / "data")
    assert kept == {
        "agent": beside,
        "data": away,
        "experience": [str(tmp_path / "a.mcap"), os.path.join("..", "b.mcap")],
    }
    assert [found_path(one, out) for one in (beside, away, None)] == [agent, tmp_path / "data", None]
    check_same_run(out, mine, mine | {"agent": str(agent), "data": "data", "experience": ["a.mcap", "runs/b.mcap"]})
    for changed in ({"agent": "runs/other"}, {"data": None}, {"experience": ["a.mcap"]}):
        with pytest.raises(ConfigError, match=f"{next(iter(changed))} was "):
            check_same_run(out, mine, mine | changed)


def test_changed_recordings_are_refused(tmp_path, monkeypatch):
    data = tmp_path / "data"
    (data / "theo").mkdir(parents=True)
    (data / "theo" / "one.wav").write_bytes(b"a")

    def stop(*all, **more):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(stage_run, "run_exams", stop)
        with pytest.raises(Killed):
            runner.run_stage("lamps", config(), out=tmp_path / "run", data=data)
    (data / "theo" / "one.wav").write_bytes(b"b")
    with pytest.raises(CheckpointError, match="the content of --data was"):
        runner.run_stage("lamps", config(), out=tmp_path / "run", data=data)


def test_setting_newer_than_the_run_counts_as_its_default(tmp_path):
    mine, theirs = (identity("lamps", load("tiny"), None, None, [], Path("run")) for _ in range(2))
    del theirs["config"]["stages"], theirs["config"]["exam"]["bootstrap"]
    check_same_run(tmp_path, mine, theirs)
    other = identity("lamps", load("tiny", sets=["stages.voice.encoder=conv"]), None, None, [], Path("run"))
    with pytest.raises(ConfigError, match=r"settings: stages.voice.encoder was None, now 'conv';"):
        check_same_run(tmp_path, other, theirs)


def test_setting_that_stands_elsewhere_now_is_the_same_setting(tmp_path):
    """Runs of older versions keep how a stage hears in a section of its own."""
    new = [
        identity("lamps", load("tiny", sets=sets), None, None, [], Path("run"))
        for sets in (["hearing.encoder=conv"], [])
    ]
    for mine, encoder in zip(new, ("conv", None), strict=True):
        theirs = mine | {"config": mine["config"] | {"hearing": {"encoder": encoder, "words": None}}}
        del theirs["config"]["stages"]
        check_same_run(tmp_path, mine, theirs)
    with pytest.raises(ConfigError, match=r"settings: stages.voice.encoder was 'conv', now None;"):
        check_same_run(tmp_path, new[1], new[0])


def test_setting_that_exists_no_more_is_ignored(tmp_path):
    """Regression: the run was refused without a reason."""
    mine, theirs = (identity("lamps", load("tiny"), None, None, [], Path("run")) for _ in range(2))
    theirs["config"] |= {"gone": 1, "exam": {**theirs["config"]["exam"], "gone": 2}}
    check_same_run(tmp_path, mine, theirs)


def test_setting_of_a_lesson_that_is_given_no_more_is_refused(tmp_path):
    given = identity("lamps", load("tiny", sets=["lessons.one.steps=3"]), None, None, [], Path("run"))
    mine = identity("lamps", load("tiny"), None, None, [], Path("run"))
    with pytest.raises(ConfigError, match=r"settings: lessons\.one\.steps was 3, now None;"):
        check_same_run(tmp_path, mine, given)
    with pytest.raises(ConfigError, match=r"settings: lessons\.one\.steps was None, now 3;"):
        check_same_run(tmp_path, given, mine)


def test_curriculum_continues_although_a_setting_is_newer(tmp_path, monkeypatch):
    """Regression: it was refused as another curriculum, even by 'curriculum resume'."""
    monkeypatch.setattr(runner.Curriculum, "_run", lambda walk, cut: walk._planned(walk.stages)["stages"])
    out = tmp_path / "c"
    assert runner.Curriculum(["lamps"], config(), out).run() == ["lamps"]
    plan = {
        k: v for k, v in (Journal(out / "curriculum.jsonl").last("plan") or {}).items() if k not in ("time", "event")
    }
    del plan["config"]["stages"], plan["config"]["exam"]["bootstrap"]
    (out / "curriculum.jsonl").unlink()
    Journal(out / "curriculum.jsonl").write("plan", **plan)
    assert runner.Curriculum.resume(out) == runner.Curriculum(["lamps"], config(), out).run() == ["lamps"]
    with pytest.raises(ConfigError, match="settings: seed was 0, now 1;"):
        runner.Curriculum(["lamps"], config(seed=1), out).run()


def test_checkpoints_without_their_journal_are_refused(killed):
    (killed / "journal.jsonl").unlink()
    with pytest.raises(CheckpointError, match="holds checkpoints of a run, and its journal is gone"):
        run(killed, seed=1)


def test_checkpoints_of_another_run_are_refused(killed, tmp_path):
    newest = generations.newest(killed / "checkpoints")
    state = generations.load(newest)
    engine.save(newest, state | {"run": {**state["run"], "threads": 1}})
    with pytest.raises(CheckpointError, match="of another run than its journal"):
        run(killed)


def test_plan_with_a_flipped_bit_is_refused(killed):
    journal = killed / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"one": 4', b'"one": 5'))
    with pytest.raises(CheckpointError, match="is damaged or was edited"):
        run(killed)


def test_edited_verdict_is_detected_wherever_it_is_used(tmp_path):
    done = run(tmp_path / "run", threads=1)
    assert gate_passed(done.agent)
    for path in (done.agent / "results.json", done.results):
        whole = path.read_text()
        path.write_text(whole.replace('"passed": true', '"passed": false', 1))
        if path == done.results:
            with pytest.raises(CheckpointError, match="damaged or edited"):
                run(tmp_path / "run", threads=1)
        else:
            for trusting in (gate_passed, read_results, Agent.from_pretrained):
                with pytest.raises(CheckpointError, match="damaged"):
                    trusting(done.agent)
        path.write_text(whole)
    assert run(tmp_path / "run", threads=1).already_finished


def test_results_count_only_if_they_were_saved_with_their_agent(tmp_path):
    from devmind.testing import tiny_agent

    tiny_agent().save_pretrained(tmp_path / "agent")
    assert read_results(tmp_path / "agent") is None
    (tmp_path / "agent" / "results.json").write_text('{"verdict": {"passed": true}}')
    with pytest.raises(CheckpointError, match="was not saved with its agent"):
        gate_passed(tmp_path / "agent")
    seal(tmp_path / "agent", "results.json", b'{"verdict": {"passed": true}}')
    seal(tmp_path / "agent", "results.json", b'{"verdict": {"passed": false}}')
    assert not gate_passed(tmp_path / "agent")
    Agent.from_pretrained(tmp_path / "agent")


def test_second_process_in_a_folder_is_refused_and_a_killed_one_leaves_no_lock(tmp_path):
    program = (
        "import sys, time; from pathlib import Path; from devmind.checkpointing.lock import lock_folder\n"
        "with lock_folder(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "run")], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    try:
        with pytest.raises(CheckpointError, match=rf"Another process \({holder.pid}\) is writing to"):
            run(tmp_path / "run")
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    with lock_folder(tmp_path / "run"):
        pass
    assert not (tmp_path / "run" / "journal.jsonl").exists()


def hostile(tmp_path: Path, change) -> Path:
    """A saved agent with an edited config and matching checksums."""
    import hashlib

    from devmind.testing import tiny_agent

    folder = tmp_path / "received"
    tiny_agent().save_pretrained(folder)
    saved = json.loads((folder / "config.json").read_text())
    text = json.dumps(change(saved)).encode()
    (folder / "config.json").write_bytes(text)
    sums = json.loads((folder / "checksums.json").read_text())
    sums["files"]["config.json"] = {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
    (folder / "checksums.json").write_text(json.dumps(sums))
    return folder


def test_received_agent_downloads_no_decoder(tmp_path, monkeypatch):
    from transformers import AutoModel

    asked = []
    monkeypatch.setattr(AutoModel, "from_pretrained", lambda *all, **more: asked.append(all))
    folder = hostile(tmp_path, lambda saved: saved | {"pretrained": "evil/model"})
    with pytest.raises(CheckpointError, match="asks for a decoder from elsewhere"):
        Agent.from_pretrained(folder)
    assert asked == []


@pytest.mark.parametrize("key", ["width", "encoders", "heads", "layers"])
@pytest.mark.parametrize("value", [None, "x", [5], {"a": 1}])
def test_config_that_describes_no_agent_gives_a_clear_error(tmp_path, key, value):
    folder = hostile(tmp_path, lambda saved: saved | {key: value})
    try:
        Agent.from_pretrained(folder)
    except Exception as error:
        assert type(error).__module__ == "devmind.errors", repr(error)  # noqa: PT017


def test_invalid_checksums_file_gives_a_clear_error(tmp_path):
    from devmind.testing import tiny_agent

    tiny_agent().save_pretrained(tmp_path / "agent")
    path = tmp_path / "agent" / "checksums.json"
    whole = path.read_text()
    for changed in (whole.replace('"sha256"', '"sha25v"', 1), whole.replace('"model.safetensors"', '"/dev/zero"')):
        path.write_text(changed)
        with pytest.raises(CheckpointError, match="damaged"):
            Agent.from_pretrained(tmp_path / "agent")
    shutil.rmtree(tmp_path / "agent")
