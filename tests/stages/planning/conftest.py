"""An untaught agent that was admitted to the stage planning alone."""

from __future__ import annotations

import pytest

from devmind.agent.agent import Agent
from devmind.testing import tiny_agent
from stages.planning import parts


@pytest.fixture
def agent() -> Agent:
    agent = tiny_agent()
    parts.admit(agent)
    agent.config.stages = ["planning"]
    return agent.eval()
