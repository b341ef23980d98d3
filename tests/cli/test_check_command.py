"""`devmind session replay --check`: exit code 0 if everything equals the recording, else 1 and the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devmind.agent.agent import Agent
from devmind.moment import Action, Moment
from devmind.sessions.recorder import Recorder
from devmind.testing import tiny_agent
from tests import turning


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    agent = tiny_agent()
    turning.admit(agent)
    folder = tmp_path_factory.mktemp("raised") / "agent"
    agent.save_pretrained(folder)
    return folder


def lived(folder: Path, path: Path, wrong_at: int | None = None) -> None:
    agent = Agent.from_pretrained(folder)
    state = agent.new_state()
    with Recorder(path, source="room", details={"effectors": "look"}) as file:
        file.note("weights", {"agent_sha256": agent.sha256()})
        for tick in range(4):
            moment = Moment(tick / 10, {"body": np.full(4, tick, np.float32)}, first=tick == 0)
            state, output = agent.step(state, agent.encode(state, moment), effectors=["look"])
            wrong = Action({"look": np.zeros(2, np.float32)})
            file.write(moment, wrong if tick == wrong_at else output.to_action())


def test_recorded_life_passes_the_check(devmind: Any, raised: Path, tmp_path: Path) -> None:
    lived(raised, tmp_path / "s.mcap")
    checked = devmind("session", "replay", "s.mcap", "--check", "--agent", raised)
    assert checked.exit_code == 0, checked.output
    assert "4 of 4 ticks checked, 0 hand-overs of weights, all as recorded" in checked.output


def test_check_names_a_difference(devmind: Any, raised: Path, tmp_path: Path) -> None:
    lived(raised, tmp_path / "s.mcap", wrong_at=2)
    checked = devmind("session", "replay", "s.mcap", "--check", "--agent", raised)
    assert checked.exit_code == 1
    assert "1 not as recorded" in checked.output
    assert "First difference at tick 2, look: recorded float32 [0.0, 0.0], replayed float32 [" in checked.stderr


def test_recording_that_cannot_be_checked_does_not_pass(devmind: Any, raised: Path, tmp_path: Path) -> None:
    lived(raised, tmp_path / "s.mcap")
    checked = devmind("session", "replay", "s.mcap", "--check")
    assert checked.exit_code == 1
    assert "0 of 4 ticks checked" in checked.output
    assert "Refused, ticks 0 to 3: the weights" in checked.stderr
    assert "--agent" in checked.stderr


def test_check_refuses_a_part_of_a_recording(devmind: Any, raised: Path, tmp_path: Path) -> None:
    lived(raised, tmp_path / "s.mcap")
    refused = devmind("session", "replay", "s.mcap", "--check", "--ticks", "2-")
    assert refused.exit_code == 2
    assert "--check" in refused.stderr
