"""`devmind sleep --whole`: what it prints, an agent that can be examined, and clear refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devmind.agent.agent import Agent
from devmind.curriculum import consolidation as night
from devmind.testing import tiny_agent
from tests.curriculum.lamp_stage import LampStage


@pytest.fixture
def raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A saved agent of one stage."""
    stage, agent = LampStage(), tiny_agent()
    stage.admit(agent)
    agent.config.stages = [stage.name]
    agent.save_pretrained(tmp_path / "raised")
    monkeypatch.setattr(night, "stages_of", lambda agent: [stage])
    return tmp_path / "raised"


def test_a_night_prints_weights_by_room_and_how_to_examine(devmind: Any, raised: Path, tmp_path: Path) -> None:
    out = tmp_path / "night"
    result = devmind("sleep", raised, "--whole", "--out", out, "--steps", 2, "--without", "lamps/two")
    assert result.exit_code == 0, result.stderr
    for said in (
        "shared layers",
        "light heads",
        "features' error",
        "as it was: lamps/two: as asked",
        "stage exam STAGE",
    ):
        assert said in result.stdout
    assert Agent.from_pretrained(out / "milestones" / "01-one-mind").config.one_mind


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "A night over the lessons of all stages is 'devmind sleep AGENT --whole'"),
        (("--whole", "--width", "20"), "a multiple of 8, the width of this agent's attention heads"),
        (
            ("--whole", "--without", "lamps/tow"),
            "There is no lesson 'lamps/tow' to leave out; did you mean 'lamps/two'?",
        ),
    ],
)
def test_refusals(devmind: Any, raised: Path, tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    result = devmind("sleep", raised, "--out", tmp_path / "night", *words)
    assert result.exit_code == 2
    assert sentence in result.stderr
