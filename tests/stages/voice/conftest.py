"""What tests of the voice share: an untaught agent, and the recogniser that judges spoken words."""

from __future__ import annotations

import pytest

from devmind.agent.agent import Agent
from devmind.testing import tiny_agent, tiny_context
from stages.voice import parts
from stages.voice.recogniser import Recogniser
from stages.voice.say.exam import the_judge


@pytest.fixture(scope="module")
def agent() -> Agent:
    """An untaught agent with the parts of the voice alone."""
    agent = tiny_agent()
    parts.admit(agent)
    return agent.eval()


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Recogniser:
    """The judge of `say` and `speak_answer`, fitted for some seconds on a fifth of the originals of a whole exam."""
    return the_judge(tiny_context(tmp_path_factory.mktemp("judge"), "exam.episodes_scale=0.2"))
