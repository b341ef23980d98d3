"""Teaching one lesson: the agent's mode, its precision, and the signals when it ends early."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.precision import InDouble
from devmind.curriculum.journal import Journal
from devmind.curriculum.teaching import position, teach
from devmind.learners.gradient import GradientLearner, gradient_lesson
from devmind.testing import tiny_agent, tiny_context
from tests.curriculum.lamp_stage import LampStage


@pytest.mark.parametrize("training", [False, True])
def test_agent_learns_in_training_mode_and_returns_to_its_own_mode(tmp_path: Path, training: bool) -> None:
    """Regression: a saved agent loads in eval mode, so there was no dropout, and recurrent layers failed on a GPU."""
    context, modes = tiny_context(tmp_path), list[set[bool]]()

    def loss(agent: Agent, batch: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        modes.append({module.training for module in agent.modules()})
        return agent.readout.square().sum(), {}

    lesson = gradient_lesson(
        context, "any", loss, lambda agent, context, update, rows, steps: {"rows": torch.zeros(1)},
        steps={"tiny": 3}, rows=1, learning_rate=1e-3, minutes=0.1,
    )  # fmt: skip
    agent = tiny_agent().train(training)
    teach(lesson, 3, agent, context, Journal(tmp_path / "journal.jsonl"))
    assert modes == [{True}] * 3
    assert {module.training for module in agent.modules()} == {training}


def test_second_ctrl_c_ends_a_step_as_any_other_command(tmp_path: Path) -> None:
    """Regression: Lightning then ended the process with code 1, which means that a gate failed."""
    context = tiny_context(tmp_path)

    def loss(agent: Agent, batch: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        return agent.readout.square().sum(), {}

    lesson = gradient_lesson(
        context, "any", loss, lambda agent, context, update, rows, steps: {"rows": torch.zeros(1)},
        steps={"tiny": 3}, rows=1, learning_rate=1e-3, minutes=0.1,
    )  # fmt: skip
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(KeyboardInterrupt):
        teach(lesson, 3, tiny_agent(), context, Journal(tmp_path / "journal.jsonl"))
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def lamps(folder: Path, precision: str, **how: Any) -> tuple[Agent, list[torch.dtype]]:
    """An agent that the lamps' lesson taught in six steps, and the types that its losses had."""
    context = tiny_context(folder, f"precision={precision}")
    agent, stage, types = tiny_agent(), LampStage(), list[torch.dtype]()
    stage.admit(agent)

    def loss(agent: Agent, batch: Any) -> tuple[torch.Tensor, Any]:
        value, scalars = stage.loss(agent, batch)
        types.append(value.dtype)
        return value, scalars

    (lesson,) = LampStage(lesson_names=("one",)).lessons(context)
    lesson = replace(
        lesson, make_learner=lambda agent, context: GradientLearner(agent, loss, seed=0, learning_rate=0.02)
    )
    teach(lesson, 6, agent, context, Journal(folder / "journal.jsonl"), **how)
    return agent, types


def test_lesson_in_double_precision_computes_and_resumes_in_it(tmp_path: Path) -> None:
    single, _ = lamps(tmp_path / "single", "32-true")
    agent, types = lamps(tmp_path / "double", "64-true")
    assert types == [torch.float64] * 6
    there, here = single.state_dict(), agent.state_dict()
    assert all(there[name].dtype == value.dtype for name, value in here.items())
    gaps = [float((there[name] - value).abs().max()) for name, value in here.items() if value.is_floating_point()]
    assert 0 < max(gaps) < 1e-3  # rounding alone
    lamps(tmp_path / "cut", "64-true", until=3)
    saved = position(tiny_context(tmp_path / "cut", "precision=64-true"))
    assert saved is not None
    weight = saved["agent"]["readout"]
    assert weight.dtype == torch.float64
    assert not torch.equal(weight, weight.float().double())
    again, _ = lamps(tmp_path / "again", "64-true", resume=saved)
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in here.items())


def test_double_precision_keeps_views_and_what_is_written_in_place() -> None:
    """Regression: orthogonal weights were written into a copy, so a new head began with what lay in memory."""
    table = torch.zeros(4)
    with InDouble():
        table.view(2, 2)[0].copy_(torch.ones(2))
        product = table[:2].float() @ torch.ones(2, dtype=torch.float64)
        inner = torch.nn.Linear(3, 3)
        torch.nn.init.orthogonal_(inner.weight)
    assert table.tolist() == [1, 1, 0, 0]
    assert (product.dtype, float(product)) == (torch.float64, 2)
    torch.testing.assert_close(inner.weight @ inner.weight.T, torch.eye(3))
