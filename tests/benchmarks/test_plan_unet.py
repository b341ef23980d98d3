"""`planning.py` and `plan_unet.py`: the maze judges first plans, and a UNet learns in the denoiser's place."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from devmind.errors import ConfigError
from devmind.testing import tiny_agent
from devmind.testing.laws import ATOL
from devmind.worlds.pointmaze import PointMazeRules
from stages.planning import parts
from stages.planning.planner import Candidates, Route
from stages.planning.route import trips

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def plan_unet(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("plan_unet")
    for name in ("plan_unet", "planning"):
        sys.modules.pop(name, None)


def test_first_plans_hold_where_they_cross_no_wall(plan_unet: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = tiny_agent()
    parts.admit(agent)
    head = agent.head(parts.ROUTE)

    def search(read: Route) -> Candidates:
        share = torch.linspace(0, 1, parts.HORIZON)[:, None]
        straight = read.place[:, None] + share * (read.goal - read.place)[:, None]
        plans = torch.stack((straight, read.place[:, None].expand_as(straight)), 1)
        return Candidates(plans, torch.zeros(len(plans), 2, 0), torch.zeros(len(plans), 2), torch.tensor([1, 0] * 5))

    monkeypatch.setattr(head, "search", search)
    first = plan_unet.first_plans(head, "large-tasks", np.arange(10))
    assert first.chosen.tolist() == [True, False] * 5, "who stays runs into nothing; all tasks have walls between"
    assert first.candidates.tolist() == [0.5] * 10


def test_a_unet_takes_the_denoisers_place_and_reads_what_it_is_told(plan_unet: ModuleType) -> None:
    head = plan_unet.planners("tiny", 0, ["unet"]).head("unet")
    rules = PointMazeRules("medium")
    seen = rules.observe(rules.initial(np.arange(3)))
    place, goal, maze = (torch.from_numpy(seen[sense]) for sense in parts.SENSES)
    with torch.inference_mode():
        read = head.thinking(place, goal, maze)
        plans = head.search(read).plans
        assert torch.allclose(plans[:, :, 0], place[:, None], atol=ATOL)
        assert torch.allclose(plans[:, :, -1], goal[:, None], atol=ATOL)
        x = torch.randn(3, plan_unet.HORIZON, 2, generator=torch.Generator().manual_seed(0))
        given, level = torch.zeros(3, plan_unet.HORIZON, dtype=torch.bool), torch.full((3,), 0.5)
        symbols = torch.zeros(3, 0, dtype=torch.int64)

        def denoised(thought: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
            return head.denoiser(x, given, level, symbols, level, thought, present)[0]

        told = denoised(read.thought, read.present)
        assert not torch.allclose(told, denoised(read.thought.flip(0), read.present)), "it reads the condition"
        absent = torch.zeros_like(read.present)
        assert torch.equal(denoised(read.thought, absent), denoised(read.thought.flip(0), absent))


def test_a_peer_has_as_many_parameters_as_asked_for(plan_unet: ModuleType) -> None:
    head = plan_unet.planners("tiny", 0, ["unet"]).head("unet")
    form = {name: head.denoiser.config[name] for name in ("channels", "horizon", "words", "condition", "told_by")}
    wide = plan_unet.UNetDenoiser(**form, width=48, levels=100)
    assert plan_unet.peer(head, plan_unet.count(wide) + 1).config["width"] == 48


@pytest.mark.parametrize("name", ["ours", "unet", "unet-adamw@200"])
def test_each_kind_learns_the_same_plans_and_changes_only_its_own_planner(plan_unet: ModuleType, name: str) -> None:
    agent = plan_unet.planners("tiny", 0, ["unet", "unet-adamw@200"])
    learner = plan_unet.learner_of(agent, name, argparse.Namespace(seed=0, steps=30))
    ways = [trips.made("medium", 0, 4000)]
    batch = trips.batch(ways, 1, 1, 16, np.random.default_rng(0), plan_unet.HORIZON)["asked"]
    before = {key: value.clone() for key, value in agent.state_dict().items()}
    errors = []
    for step in range(30):
        torch.manual_seed(0)
        errors.append(float(learner.update(batch, step)["trajectory"]))
    assert errors[-1] < 0.5 * errors[0]
    changed = {key for key, value in agent.state_dict().items() if not torch.equal(value, before[key])}
    assert changed
    assert all(key.startswith(f"heads.{name}.") for key in changed)


def test_the_plot_shows_each_share_at_its_height(plan_unet: ModuleType) -> None:
    planning = sys.modules["planning"]
    half = planning.First(np.array([True, False]), np.zeros(2))
    whole = planning.First(np.array([True, True]), np.zeros(2))
    found = {planning.STEPS: {1: [half, whole]}, planning.CANDIDATES: {1: [whole, half], 8: [half, half]}}
    drawn = ElementTree.fromstring(planning.plot(found, ["medium", "large"], 2))
    heights = [float(circle.attrib["cy"]) for circle in drawn.iter("{http://www.w3.org/2000/svg}circle")]
    top, middle = planning.TOP, (planning.TOP + planning.HEIGHT - planning.BOTTOM) / 2
    assert heights == [middle, top, top, middle, middle, middle]


def test_a_stopped_lesson_goes_on_to_the_same_weights(
    plan_unet: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(plan_unet, "SAVED_EVERY", 2)
    asked = argparse.Namespace(size="tiny", seed=0, kinds=["ours", "unet"], mazes=["medium"], steps=4, rows=4)
    asked.every, asked.pairs, batch = 4, 2, trips.batch

    def taught(folder: Path) -> dict[str, torch.Tensor]:
        agent = plan_unet.planners("tiny", 0, asked.kinds)
        asked.folder = folder
        plan_unet.teach(agent, asked)
        return agent.state_dict()

    whole, calls = taught(tmp_path / "whole"), []

    def stopping(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return batch(*arguments)

    monkeypatch.setattr(trips, "batch", stopping)
    with pytest.raises(KeyboardInterrupt):
        taught(tmp_path / "stopped")
    resumed = taught(tmp_path / "stopped")
    assert len(calls) == 4 + 2, "the third step was done twice, the first two once"
    assert all(torch.equal(value, whole[name]) for name, value in resumed.items())
    asked.rows = 5
    with pytest.raises(ConfigError, match="other settings"):
        taught(tmp_path / "stopped")
