"""Exams through life: the live loop, the room and its clock change nothing, and faults are detected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from devmind import worlds
from devmind.acting import Actor, rollout
from devmind.acting.in_life import SINGLE
from devmind.acting.rollout import acting_through
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.cli.app import app
from devmind.config import RunConfig
from devmind.curriculum.examining import pick_skills
from devmind.curriculum.stage import Context
from devmind.live import exams, virtual
from devmind.live.exams import LiveExamResult, examine_in_life
from devmind.moment import TICK_HZ
from devmind.worlds.nursery.views import frames
from devmind.worlds.room import Room
from stages.memory.stage import MemoryStage
from stages.reflex.stage import ReflexStage
from tests.agent.conftest import shake


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exams, "EPISODES", 4)


@pytest.fixture(scope="module")
def agent() -> Agent:
    torch.manual_seed(0)
    agent = Agent(AgentConfig(size="tiny")).eval()
    ReflexStage().admit(agent)
    agent.config.stages = ["reflex"]
    shake(agent)
    return agent


@pytest.fixture(scope="module")
def context() -> Context:
    return Context(RunConfig(size="tiny"), 0, "cpu", Path("unused"), worlds.make)


def held(agent: Agent, context: Context, skill: str, stage: Any = None) -> LiveExamResult:
    stage = stage or ReflexStage()
    return examine_in_life(stage, pick_skills(stage, skill)[0], agent, context, 100)


@pytest.mark.parametrize("skill", [pytest.param("startle", marks=pytest.mark.slow), "track"])
def test_exam_through_a_mailbox_has_the_moments_and_actions_of_the_plain_exam(
    agent: Agent, context: Context, skill: str
) -> None:
    found = held(agent, context, skill)
    assert found.comparison.ticks >= 8 * 20
    assert found.comparison.different == 0
    assert found.comparison.worst <= exams.TOLERANCE
    for name, measure in found.mailbox.items():
        assert np.array_equal(measure.values, found.plain[name].values)
    assert found.rendered.keys() == found.plain.keys()
    assert found.in_life == "asked in life, through the mailbox and rendered"


@pytest.mark.parametrize("fault", ["late", "blind", "other"])
def test_loop_that_changes_a_moment_is_detected(
    agent: Agent, context: Context, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    given: dict[int, Any] = {}
    post = virtual.Mailbox.post

    def broken(self: virtual.Mailbox, value: np.ndarray) -> None:
        if fault == "late":  # every sense comes one tick too late
            given[id(self)], value = value, given.get(id(self), value)
        if fault == "blind" and self.sense == "sight":
            return
        post(self, value + np.float32(1e-3) if fault == "other" and self.sense == "body" else value)

    monkeypatch.setattr(virtual.Mailbox, "post", broken)
    monkeypatch.setattr(exams, "EPISODES", 1)  # what is changed is changed in every one
    found = held(agent, context, "track")
    assert found.comparison.different > 0
    assert found.comparison.first
    assert not found.passed


def test_loop_that_changes_an_action_is_detected(
    agent: Agent, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devmind.live.loop.standing", lambda agent, results: {"look": ("look_trunk",)})
    monkeypatch.setattr(exams, "EPISODES", 1)
    found = held(agent, context, "track")
    assert found.comparison.different > 0
    assert "look" in found.comparison.first


def test_exam_without_compared_ticks_does_not_pass_and_gives_the_reason(agent: Agent, context: Context) -> None:
    found = held(agent, context, "locate")
    assert found.comparison.ticks == 0
    assert not found.asked
    assert not found.passed
    assert found.in_life == f"not examined in the live loop: {SINGLE}"


@pytest.mark.parametrize(
    ("skill", "effector"), [pytest.param("reach", "reach", marks=pytest.mark.slow), ("balance", "push")]
)
def test_effector_that_a_camera_room_lacks_is_examined_only_through_a_mailbox(
    agent: Agent, context: Context, skill: str, effector: str
) -> None:
    found = held(agent, context, skill)
    assert found.comparison.ticks > 0
    assert found.passed, found.comparison.first
    assert not found.rendered
    assert found.in_life.endswith(f"; not rendered: a camera's room has no effector '{effector}'")


@pytest.mark.slow
def test_agent_with_memory_acts_in_life_as_in_its_exams(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exams, "EPISODES", 2)  # side by side, each with a state and an end of its own
    torch.manual_seed(0)
    agent = Agent(AgentConfig(size="tiny")).eval()
    for stage in (ReflexStage(), MemoryStage()):
        stage.admit(agent)
    shake(agent)
    assert agent.tracker is not None, "its trunk is told beliefs in life"
    for skill, stage, measure in (
        ("track", ReflexStage(), "track/look_trunk"),
        ("memory_len", MemoryStage(), "memory_len"),
        ("fetch", MemoryStage(), "fetch/reach_trunk"),
    ):
        found = held(agent, context, skill, stage)
        assert found.comparison.ticks > 100
        assert found.comparison.different == 0, found.comparison.first
        assert np.array_equal(found.mailbox[measure].values, found.plain[measure].values)


def test_fovea_of_a_frame_shows_what_the_world_shows() -> None:
    world = worlds.make("nursery", "track", np.arange(3))
    state, fovea = world.state(), Room({}).fovea
    frame = frames(state, state.pan, state.tilt, *exams.FRAME)
    assert frame.shape == (3, 480, 640, 3)
    for one, sight in zip(frame, world.observe()["sight"], strict=True):
        off = np.abs(fovea.see(one)["sight"].astype(int) - sight.astype(int)).mean()
        assert off < 4  # of 255: averaged from 213 pixels instead of drawn at 64
    assert np.abs(frame[0].astype(int) - frame[1].astype(int)).mean() > 4


def test_virtual_life_skips_no_tick_and_gives_each_sense_once(agent: Agent) -> None:
    world = worlds.make("nursery", "track", np.arange(1))
    actor, senses = Actor(agent, effectors=["look"]), world.observe()
    life = virtual.VirtualLife(actor, senses, rendered=False)
    row = {name: value[0] for name, value in senses.items()}
    times = [life.tick(row, tick == 0).moment.time_s for tick in range(12)]
    assert times == pytest.approx([(tick + 1) / TICK_HZ for tick in range(12)])
    assert life.loop.summary.skipped == 0
    assert life.tick({}, False).moment.senses == {}  # without a new post, nothing is given again


def test_only_actors_are_replaced(agent: Agent) -> None:
    asked: list[Any] = []

    def rule(senses: Any, first: np.ndarray) -> dict[str, np.ndarray]:
        asked.append(first)
        return {}

    through_life = exams._ReplaceActors("mailbox", exams.Comparison())
    with acting_through(through_life):
        list(rollout(rule, worlds.make("nursery", "track", np.arange(2)), 3))
    assert len(asked) == 3
    assert not through_life.lives


def test_the_command_prints_the_compared_ticks(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exams, "EPISODES", 1)
    agent.save_pretrained(tmp_path / "agent")
    scores = tmp_path / "scores.json"
    told = ["stage", "exam", "reflex", "--through", "life", "--agent", str(tmp_path / "agent"), "--json", str(scores)]
    result = CliRunner().invoke(app, [*told, "--skill", "startle"])
    assert result.exit_code in (0, 1), result.output
    found = json.loads(scores.read_text())["startle"]
    assert found["compared_ticks"] > 0
    assert f"{found['compared_ticks']:,} ticks compared" in result.output
    none = CliRunner().invoke(app, [*told, "--skill", "locate"])
    assert none.exit_code == 2
    assert "single Moments" in none.output
    assert "No tick" in none.output
