"""Small agents and random experience for the agent's tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, map_tensors
from devmind.agent.config import AgentConfig
from devmind.moment import Moment

SENSES = ("sight", "periphery", "sound", "body", "words", "board")


def make_reading(name: str, rng: np.random.Generator) -> np.ndarray | str:
    """One random reading of a standard sense."""
    return {
        "sight": lambda: rng.integers(0, 256, (64, 64, 3), dtype=np.uint8),
        "periphery": lambda: rng.random((1, 16, 16), dtype=np.float32),
        "sound": lambda: rng.normal(0, 0.1, (2, 1600)).astype(np.float32),
        "body": lambda: rng.normal(0, 1, 12).astype(np.float32),
        "words": lambda: "red ball and the green box"[: int(rng.integers(1, 26))],
        "board": lambda: rng.integers(-1, 2, (2, 6, 7)).astype(np.int8),
    }[name]()


def make_rows(rows: int, length: int, seed: int, senses: tuple[str, ...] = SENSES, absent: float = 0.4) -> list:
    """Rows of Moments in which each sense is often absent and episodes end at random."""
    rng = np.random.default_rng(seed)
    return [
        [
            Moment(
                t / 10,
                {name: make_reading(name, rng) for name in senses if rng.random() >= absent},
                first=t == 0 or rng.random() < 0.08,
            )
            for t in range(length)
        ]
        for _ in range(rows)
    ]


def shake(agent: Agent, seed: int = 0) -> Agent:
    """Add a random value to every weight, so that nothing is zero by construction."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in agent.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return agent.eval()


@pytest.fixture
def small_agent() -> Callable[..., Agent]:
    """Factory of tiny agents with all standard senses, some heads, and random weights."""

    def make(senses: tuple[str, ...] = SENSES, shaken: bool = True, **config: object) -> Agent:
        agent = Agent(AgentConfig(size="tiny", **config))
        for sense in senses:
            agent.add_encoder(sense)
        agent.add_head("guess", "head.categorical", options={"classes": 5})
        if "sound" in senses:
            agent.add_head("flinch", "head.categorical", tap="sound", effector="move", options={"classes": 3})
        agent.add_head("steer", "head.normal", effector="look", options={"size": 2})
        return shake(agent) if shaken else agent

    return make


def tick_of(batch: Batch, t: int) -> Batch:
    """Tick `t` of a Batch as a Batch with T = 1."""
    return map_tensors(batch, lambda x: x[:, t : t + 1])
