"""Ages: the saved agents of a run in their order, or the one folder that was given."""

from __future__ import annotations

import os
from pathlib import Path

from devmind.live.ages import ages


def saved(folder: Path, at_s: int) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    os.utime(folder / "config.json", (at_s, at_s))
    return folder


def test_a_run_has_a_beginning_and_milestones_in_order(tmp_path: Path) -> None:
    run = tmp_path / "run"
    saved(run / "start", 1)
    second, first = saved(run / "milestones" / "02-language", 9), saved(run / "milestones" / "01-reflex", 5)
    (run / "journal.jsonl").touch()
    assert [(age.id, age.folder) for age in ages(second)] == [
        ("start", run / "start"),
        ("01-reflex", first),
        ("02-language", second),
    ]
    failed = saved(run / "agent", 7)
    assert [age.id for age in ages(failed)] == ["start", "01-reflex", "02-language", "now"]


def test_an_agent_of_no_run_has_one_age(tmp_path: Path) -> None:
    (alone,) = ages(saved(tmp_path / "newborn", 1))
    assert (alone.label, alone.folder) == ("newborn", tmp_path / "newborn")
