"""`devmind live` without a page: a line a second, a recording when asked for, sentences when there is nothing to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from devmind.sessions.reader import Session
from devmind.testing import tiny_agent
from stages.reflex import parts


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    agent = tiny_agent()
    parts.admit(agent)
    folder = tmp_path_factory.mktemp("raised") / "agent"
    agent.save_pretrained(folder)
    return folder


def test_a_second_of_life_is_told_and_recorded(devmind: Any, raised: Path, tmp_path: Path) -> None:
    words = ("live", "--agent", raised, "--camera", "synthetic", "--mic", "synthetic", "--seconds", 0.5)
    lived = devmind(*words, "--record", "s.mcap")
    assert lived.exit_code == 0, lived.output
    assert "look" in lived.output
    assert "at the 99th percentile" in " ".join(lived.output.split())
    session = Session(tmp_path / "s.mcap")
    assert len(session) >= 1
    assert {"sight", "body"} <= set(session.senses)
    assert devmind("live", "--agent", raised, "--camera", "synthetic", "--mic", "none", "--seconds", 0.1).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["s.mcap"], "nothing is kept without --record"


def test_with_nothing_to_sense_or_nobody_to_sense_it_a_sentence_says_so(devmind: Any, raised: Path) -> None:
    for words, said in (
        (("--agent", raised, "--camera", "none", "--mic", "none"), "nothing to sense"),
        (("--camera", "synthetic", "--mic", "none"), "no saved agent"),
        (("--agent", raised, "--camera", "sythetic_camera=1", "--mic", "none"), "did you mean 'synthetic_camera'"),
    ):
        refused = devmind("live", *words)
        assert refused.exit_code != 0
        assert said in " ".join(f"{refused.exception} {refused.output}".split())


def test_a_camera_that_does_not_answer_is_a_missing_sense(devmind: Any, raised: Path) -> None:
    lived = devmind("live", "--agent", raised, "--camera", "nowhere.mp4", "--mic", "none", "--seconds", 0.1)
    assert lived.exit_code == 0, lived.output
    assert "sight: missing" in lived.output
