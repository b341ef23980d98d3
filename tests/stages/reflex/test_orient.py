"""Gaze: what the looking arc is shown, and that no other part of the agent learns from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.heads import Inlet
from devmind.agent.taps import Tapped
from devmind.config import load
from devmind.curriculum.stage import Context
from devmind.errors import ConfigError
from stages.reflex import parts
from stages.reflex.heads import AimHead
from stages.reflex.lessons import FROZEN
from stages.reflex.orient import lesson as gaze


def make_context(folder: Path) -> Context:
    return Context(load("tiny"), 0, "cpu", folder, worlds.make)


def update_of(level: str) -> int:
    return gaze.LEVELS.index(level)


def test_the_wanted_turn_leads_to_the_target(tmp_path: Path) -> None:
    context = make_context(tmp_path)
    world = context.make_world("nursery", "orient/sight", np.arange(32))
    for _ in range(3):
        world.step({"look": gaze.target_turn(world.truth())})
    assert world.truth()["error_deg"].max() < 1.0


def test_the_gaze_rests_where_there_is_no_target(tmp_path: Path) -> None:
    batch = gaze.lesson_batch(make_context(tmp_path), update_of("clutter/empty"), 16)
    assert not batch["turn"].any()
    assert batch["senses"]["sight"].float().std() > 0, "there is something to see, but no thing"


@pytest.mark.parametrize("level", ["clutter/orient", "orient/motion", "orient/sight", "clutter/empty"])
def test_most_children_sense_only_what_a_camera_gives(tmp_path: Path, level: str) -> None:
    batch = gaze.lesson_batch(make_context(tmp_path), update_of(level), 64)
    heard, body = batch["present"]["sound"], batch["senses"]["body"]
    assert 0.4 < 1 - heard.float().mean() < 0.8
    lacks = list(gaze.CAMERA_LACKS)
    assert body[~heard][:, lacks].isnan().all()
    assert not body[heard].isnan().any()
    kept = [column for column in range(body.shape[-1]) if column not in lacks]
    assert not body[..., kept].isnan().any()


def test_every_sense_is_present_where_a_sound_is_the_cue(tmp_path: Path) -> None:
    batch = gaze.lesson_batch(make_context(tmp_path), update_of("orient/sound"), 8)
    assert all(present.all() for present in batch["present"].values())
    assert not batch["senses"]["body"].isnan().any()
    assert batch["axes"].tolist() == [1.0, 0.0], "the ears cannot tell a sound's height"


def test_the_gaze_lesson_trains_only_the_arc(tmp_path: Path) -> None:
    context, agent = make_context(tmp_path), Agent(AgentConfig(size="tiny"))
    parts.admit(agent)
    before = {name: value.clone() for name, value in agent.state_dict().items()}
    trained = [p for name, p in agent.named_parameters() if name.startswith(gaze.TRAINS)]
    optimizer = torch.optim.Adam(trained, lr=1e-2)
    batch, errors = gaze.lesson_batch(context, update_of("orient/sight"), 32), []
    for _ in range(80):
        error, _ = gaze.loss(agent, batch)
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        errors.append(float(error))
    assert errors[-1] < 0.8 * errors[0]
    changed = {name for name, value in agent.state_dict().items() if not torch.equal(value, before[name])}
    assert changed
    assert all(name.startswith(gaze.TRAINS) for name in changed)


def test_rewards_do_not_change_the_arcs_reading() -> None:
    assert gaze.HEAD in FROZEN
    head = AimHead(Inlet(16, 22), size=2)
    read = {id(parameter) for parameter in head.reading()}
    answers = [name for name, parameter in head.named_parameters() if id(parameter) not in read]
    assert sorted(answers) == ["answer.bias", "answer.weight", "log_std"]


def test_absent_tokens_change_nothing() -> None:
    torch.manual_seed(0)
    head = AimHead(Inlet(16, 22), size=2)
    tokens, present = torch.randn(3, 22, 16), torch.ones(3, 22, dtype=torch.bool)
    present[:, 17:21] = False
    other = tokens.clone()
    other[:, 17:21] = 9.0
    told = [head(Tapped(each, present)).mode() for each in (tokens, other)]
    torch.testing.assert_close(told[0], told[1])


def test_sight_and_another_sense_must_be_tapped() -> None:
    with pytest.raises(ConfigError, match="sight first"):
        AimHead(Inlet(16, 16), size=2)
