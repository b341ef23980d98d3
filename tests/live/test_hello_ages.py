"""`devmind hello --age N`: which agent is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from devmind.cli.live import _of_age
from devmind.curriculum.journal import Journal
from devmind.errors import ConfigError
from devmind.raised import FOLDER


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
        out / "first" / "start", out / "first" / "agent", out / "second" / "milestones" / "02-second"
    ]  # fmt: skip
    assert _of_age(1, out / "second" / "milestones" / "02-second") == (out / "first" / "agent").resolve()
    with pytest.raises(ConfigError, match=r"no age 3; known are 0 \(before its first lesson\), 1 \(after first\), 2"):
        _of_age(3, None)


def test_newborn_is_loaded_without_an_age(tmp_path: Path) -> None:
    assert _of_age(None, None) == FOLDER
    with pytest.raises(ConfigError, match="needs --age N"):
        _of_age(None, tmp_path)
