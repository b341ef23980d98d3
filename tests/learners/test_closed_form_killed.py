"""A lesson in closed form that is killed by SIGKILL, by the command that a person gives."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from devmind import plugins
from devmind.agent.agent import Agent
from devmind.checkpointing import generations
from devmind.cli import app
from devmind.curriculum import machine, plan
from devmind.curriculum.journal import Journal
from tests.learners import solved_stage

ROOT = Path(__file__).parents[2]
DEVMIND = (sys.executable, "-c", "from devmind.cli import main; main()")
SETS = ("lessons.kinds.learner=closed_form", "checkpoint.every=1 step", "loggers=[]", "threads=1",
        "exam.episodes_scale=0.01")  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_lesson_in_closed_form_goes_on_to_the_bits_of_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes on after the kill is given here, as a process of its own would load torch for ten seconds."""

    def words(out: str) -> list[str]:
        asked = ["stage", "run", "voice", "--config", "tiny", "--out", str(tmp_path / out)]
        return [*asked, *(word for one in SETS for word in ("--set", one))]

    def ended(out: str) -> str:
        run = CliRunner().invoke(app, words(out))
        assert "voice: FAILED" in run.output, run.output[-2000:]  # a few steps at size tiny pass no gate
        return Agent.from_pretrained(tmp_path / out / "agent").sha256()

    env = solved_stage.installed(tmp_path / "site", ROOT)
    killed = subprocess.Popen([*DEVMIND, *words("killed")], cwd=ROOT, env=env, stderr=subprocess.DEVNULL)
    journal = Journal(tmp_path / "killed/journal.jsonl")
    until_s = time.monotonic() + 600
    while (journal.last("checkpoint") or {"step": 0})["step"] < 3:  # what it has seen since the last solve counts too
        assert killed.poll() is None
        assert time.monotonic() < until_s
        time.sleep(0.005)
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    assert journal.last("lesson_done") is None
    newest = generations.newest(tmp_path / "killed/checkpoints")
    assert newest is not None
    assert int(generations.load(newest)["learner"]["sums"]["rows"]) > 0, "sums are on the disk, not weights alone"
    monkeypatch.setattr(plan, "step_s", plan.step_s)  # the stage changes both, which ends with this test
    monkeypatch.setattr(machine, "PRODUCTS_S", machine.PRODUCTS_S)
    monkeypatch.syspath_prepend(tmp_path / "site")
    plugins._scan.cache_clear()
    try:
        assert ended("killed") == ended("whole")
    finally:
        plugins._scan.cache_clear()
    assert (journal.last("lesson_done") or {})["steps"] == solved_stage.STEPS
    assert journal.last("resumed") is not None
