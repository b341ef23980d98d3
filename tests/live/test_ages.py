"""Ages: the saved agents of a run in order, or the one given folder."""

from __future__ import annotations

import os
from pathlib import Path

from devmind.live.ages import ages
from devmind.raised import FOLDER, raised_agents
from devmind.testing import tiny_agent
from stages.reflex import parts
from tests.agent.conftest import shake


def saved(folder: Path, at_s: int) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    os.utime(folder / "config.json", (at_s, at_s))
    return folder


def test_ages_of_a_run_are_its_beginning_and_milestones_in_order(tmp_path: Path) -> None:
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

    assert [age.label for age in ages(failed)] == ["before its first lesson", "after reflex", "after language", "today"]


def test_run_of_a_later_stage_does_not_begin_before_the_first_lesson(tmp_path: Path) -> None:
    start = saved(tmp_path / "run" / "start", 1)
    (start / "config.json").write_text('{"stages": ["reflex", "memory"]}')
    (tmp_path / "run" / "journal.jsonl").touch()
    milestone = saved(tmp_path / "run" / "milestones" / "02-memory", 2)
    assert [age.label for age in ages(milestone)] == ["before memory", "after memory"]


def test_agent_without_a_run_and_stages_has_one_age(tmp_path: Path) -> None:
    (alone,) = ages(saved(tmp_path / "newborn", 1))
    assert (alone.id, alone.label, alone.folder) == ("now", "today", tmp_path / "newborn")


def test_agent_from_foreign_weights_has_no_untrained_age(tmp_path: Path) -> None:
    folder = saved(tmp_path / "grown", 1)
    (folder / "config.json").write_text('{"stages": ["reflex"], "trunk_source": "somebody/decoder"}')
    assert [age.id for age in ages(folder)] == ["now"], "a seed does not give those weights back"


def test_untrained_age_has_the_weights_before_the_first_lesson(tmp_path: Path) -> None:
    agent = tiny_agent()
    parts.admit(agent)
    agent.config.stages = ["reflex"]
    before = agent.sha256()
    shake(agent).save_pretrained(tmp_path / "raised")
    untaught, now = ages(tmp_path / "raised")
    assert [untaught.id, now.id] == ["start", "now"]
    assert untaught.wake().sha256() == before != agent.sha256()
    assert now.wake().sha256() == agent.sha256()
    assert not untaught.wake().training


def test_packaged_agent_has_all_its_ages() -> None:
    found = ages(FOLDER)
    assert [age.label for age in found[:2]] == ["before its first lesson", "after reflex"]
    assert [age.folder for age in found[1:]] == [folder.resolve() for folder in raised_agents().values()]
