"""Teaching one lesson: the agent's mode, and the signals when it ends early."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from devmind.agent.agent import Agent
from devmind.curriculum.journal import Journal
from devmind.curriculum.teaching import teach
from devmind.learners.gradient import gradient_lesson
from devmind.testing import tiny_agent, tiny_context


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
