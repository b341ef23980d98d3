"""Shared fixtures of the stage's tests."""

from __future__ import annotations

import pytest

from devmind.agent.agent import Agent
from devmind.testing import tiny_agent
from stages.reasoning import parts


@pytest.fixture
def agent() -> Agent:
    agent = tiny_agent()
    parts.admit(agent)
    agent.config.stages = ["reasoning"]
    return agent.eval()
