"""A context of size tiny, and an agent that sees and has all parts of the stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.config import load
from devmind.curriculum.stage import Context
from devmind.testing import tiny_agent
from stages.language import parts


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(load("tiny"), 0, "cpu", tmp_path, worlds.make)


@pytest.fixture
def agent() -> Agent:
    agent = tiny_agent()
    agent.add_encoder("sight")
    parts.admit(agent)
    agent.config.stages = ["reflex", "language"]
    return agent
