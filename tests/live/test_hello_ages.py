"""`devmind hello --age N`: which agent is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from devmind.cli.live import _of_age
from devmind.config import LiveConfig, PageConfig
from devmind.curriculum.journal import Journal
from devmind.errors import ConfigError
from devmind.live.ages import ages
from devmind.live.opening import open_life
from devmind.live.options import LiveOptions
from devmind.raised import FOLDER
from devmind.testing import tiny_agent
from sensors.synthetic import SyntheticCamera
from stages.reflex import parts
from tests.agent.conftest import shake


def raised(out: Path) -> Path:
    """A childhood of two stages, the first with a failed gate; a third has not ended."""
    for name, agent in (("first", "agent"), ("second", "milestones/02-second"), ("third", None)):
        for folder in ("start", agent):
            if folder:
                (out / name / folder).mkdir(parents=True)
                (out / name / folder / "config.json").write_text(json.dumps({"stages": [name]}))
        if agent:
            Journal(out / name / "journal.jsonl").write("finished", passed=agent != "agent", agent=agent)
    Journal(out / "curriculum.jsonl").write("plan", stages=["first", "second", "third"])
    return out


def test_age_is_a_stage_of_the_newest_childhood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    out = raised(Path("checkpoints/curriculum-nursery-seed0"))
    assert [_of_age(age, None) for age in (0, 1, 2)] == [
        (out / "first" / "start", True),
        (out / "first" / "agent", True),
        (out / "second" / "milestones" / "02-second", True),
    ]
    assert _of_age(1, out / "second" / "milestones" / "02-second") == ((out / "first" / "agent").resolve(), True)
    with pytest.raises(ConfigError, match=r"no age 3; known are 0 \(before its first lesson\), 1 \(after first\), 2"):
        _of_age(3, None)


def test_ages_of_packaged_agents_count_as_the_slider_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert [_of_age(age, None) for age in (0, 1)] == [(FOLDER.resolve(), False), (FOLDER.resolve(), True)]
    assert [(age.folder, age.taught) for age in ages(FOLDER)] == [_of_age(age, None) for age in range(7)]


def test_life_begins_at_the_age_before_the_first_lesson(tmp_path: Path) -> None:
    agent = tiny_agent()
    parts.admit(agent)
    agent.config.stages, before = ["reflex"], agent.sha256()
    shake(agent).save_pretrained(tmp_path / "raised")
    for taught, age in ((False, "start"), (True, "now")):
        options = LiveOptions(
            tmp_path / "raised",
            {"camera": SyntheticCamera()},
            memory=tmp_path / "memory",
            config=LiveConfig(page=PageConfig(shown=False)),
            taught=taught,
        )
        with open_life(options) as (life, _):
            assert (life.age, life.loop.agent.sha256() == before) == (age, not taught)


def test_newborn_is_loaded_without_an_age(tmp_path: Path) -> None:
    assert _of_age(None, None) == (FOLDER, True)
    with pytest.raises(ConfigError, match=f"--agent {tmp_path} needs --age N"):
        _of_age(None, tmp_path)
    with pytest.raises(ConfigError, match="--agent newborn needs --age N"):
        _of_age(None, FOLDER)
