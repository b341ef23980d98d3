"""The commands as a person gives them, each in a process of its own: serve, push, act, and a stage that is fed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from devmind.agent.agent import Agent
from devmind.cli import app
from devmind.curriculum.journal import Journal
from devmind.errors import FeedError
from devmind.feed.client import Acting, Connection
from devmind.feed.schema import Row
from devmind.moment import Action, Moment
from devmind.sessions import replay
from devmind.testing import tiny_agent
from tests.feed import fed_stage
from tests.feed.conftest import stored

ROOT = Path(__file__).parents[2]
DEVMIND = (sys.executable, "-c", "from devmind.cli import main; main()")
Start = Callable[..., str]


@pytest.fixture
def start(tmp_path: Path) -> Generator[Start]:
    """`start(*options)`: the address of `devmind feed serve`, whose spool is `tmp_path / "spool"`."""
    servers = []

    def make(*options: str) -> str:
        command = [*DEVMIND, "feed", "serve", str(tmp_path / "spool"), "--at", "127.0.0.1:0", *options]
        servers.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        assert servers[-1].stdout is not None
        return servers[-1].stdout.readline().split()[2].rstrip(",")

    yield make
    for server in servers:
        server.terminate()
        assert server.communicate(timeout=30)[0].endswith("stopped\n")


def test_pushed_recordings_are_on_the_disk_tick_by_tick(start: Start, tmp_path: Path) -> None:
    session, address, token = ROOT / "devmind" / "live" / "demo.mcap", start(), str(tmp_path / "spool/token")
    pushed = CliRunner().invoke(app, ["feed", "push", address, str(session), "--token", token, "--world", "room"])
    recorded = list(replay(session))
    assert pushed.output == f"{len(recorded)} sent, {len(recorded)} on disk, 0 kept here, lost 0\n"
    rows = [row for name, row in stored(tmp_path / "spool") if name == "recordings"]
    assert [(row.moment, row.action) for row in rows] == [(one, done or Action()) for one, done in recorded]
    shown = CliRunner().invoke(app, ["feed", "status", address, "--token", token, "--json"])
    assert json.loads(shown.output)["rows"] == len(recorded)
    refused = CliRunner().invoke(app, ["feed", "push", address, str(session), "--token", str(session)])
    assert refused.exit_code != 0


def pusher(folder: Path, push: int) -> None:
    """Save a small agent that always pushes to this side."""
    agent = tiny_agent()
    agent.add_encoder("body")
    agent.add_head("nudge", "head.categorical", tap="body", effector="push", options={"classes": 2})
    for name, x in agent.heads["nudge"].named_parameters():
        x.data.zero_()
        if name.endswith("bias") and x.shape == (2,):
            x.data[push] = 1.0
    agent.save_pretrained(folder)


def test_served_agent_acts_and_a_newer_milestone_takes_over(start: Start, tmp_path: Path) -> None:
    milestones = tmp_path / "run" / "milestones"
    pusher(milestones / "after-one", 0)
    connection = Connection(start("--agent", str(milestones / "after-one")), tmp_path / "spool/token")
    acting = Acting(connection, "carts", effectors=["push"])

    def ask() -> list[int]:
        rows = [Row(env, Moment(0.0, {"body": np.zeros(4, np.float32)}, first=True), Action()) for env in range(3)]
        found = acting.act(rows, 30.0)
        assert found is not None
        return [int(one) for one in found["push"]]

    assert ask() == [0, 0, 0]
    time.sleep(0.05)  # the newer one has a later time
    pusher(milestones / "after-two", 1)
    until_s = time.monotonic() + 20
    while ask() != [1, 1, 1]:
        assert time.monotonic() < until_s
        time.sleep(0.2)
    acting.close()
    other = Acting(connection, "carts", effectors=["pull"])
    with pytest.raises(FeedError, match="No head of this agent answers for 'pull'"):
        other.act([Row(0, Moment(0.0, {"body": np.zeros(4, np.float32)}), Action())], 20.0)
    other.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_stage_learns_from_a_feed_is_killed_and_ends_with_the_same_agent_and_verdict(
    start: Start, tmp_path: Path
) -> None:
    """Server, simulator and `devmind stage run` are processes of their own."""
    env = fed_stage.installed(tmp_path / "site", ROOT)
    address, spool = start(), tmp_path / "spool"
    carts = [sys.executable, str(ROOT / "docs/feed_carts.py"), address, str(spool / "token"), "800"]
    sets = ("checkpoint.every=1 step", "loggers=[]", "threads=1", "exam.episodes_scale=0.01")

    def command(out: str) -> list[str]:
        run = [*DEVMIND, "stage", "run", "reasoning", "--experience", f"feed:{spool}", "--config", "tiny"]
        return [*run, *(word for one in sets for word in ("--set", one)), "--out", str(tmp_path / out)]

    def ended(out: str) -> tuple[str, Any]:
        run = subprocess.run(command(out), cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        assert run.returncode == 1, run.stderr[-2000:]  # a few steps at size tiny pass no gate
        assert "reasoning: FAILED" in run.stdout
        results = json.loads((tmp_path / out / "reports/reasoning/results.json").read_text())
        weights = Agent.from_pretrained(tmp_path / out / "agent").sha256()
        return weights, [[row["name"], row["score"]] for skill in results["skills"] for row in skill["measures"]]

    with subprocess.Popen(carts, cwd=ROOT) as simulator:
        killed = subprocess.Popen(command("killed"), cwd=ROOT, env=env, stderr=subprocess.DEVNULL)
        journal = Journal(tmp_path / "killed/journal.jsonl")
        until_s = time.monotonic() + 600
        while (journal.last("checkpoint") or {"step": 0})["step"] < 2:
            assert killed.poll() is None
            assert time.monotonic() < until_s
            time.sleep(0.02)
        killed.kill()
        killed.wait()
        assert journal.last("lesson_done") is None
        assert simulator.wait(300) == 0
    again = ended("killed")
    assert (journal.last("lesson_done") or {})["steps"] == fed_stage.STEPS
    assert again == ended("whole"), "whatever had come when it was killed"
