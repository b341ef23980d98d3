"""A lesson is taught in training mode, whatever the agent's mode was."""

from __future__ import annotations

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
