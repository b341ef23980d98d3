"""The journal of a run becomes views for the page."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from devmind.curriculum.journal import Journal
from devmind.errors import ConfigError, DevmindError
from devmind.live.journal_view import POINTS, QUIET_S
from devmind.live.watching import Watching


class Page:
    """Keeps published views."""

    def __init__(self) -> None:
        self.views: list[dict[str, Any]] = []

    def publish(self, view: dict[str, Any], jpeg: bytes | None = None) -> None:
        assert jpeg is None
        self.views.append(view)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write("start", identity={"stage": "reflex"})
    journal.write("plan", steps={"watch": 4, "perceive": 1000})
    return journal


def told(watching: Watching) -> dict[str, Any]:
    return watching.view()["run"]


def curves(watching: Watching, lesson: int = -1) -> dict[str, list[list[float]]]:
    """Name -> points of the curves of a lesson."""
    return {curve["name"]: curve["points"] for curve in told(watching)["lessons"][lesson]["curves"]}


def progress(journal: Journal, lesson: str, step: int, **scalars: float) -> None:
    journal.write("progress", lesson=lesson, step=step, seconds=1.0, scalars=scalars)


BESIDE = {"unit": "correct", "gate": 0.9, "higher_is_better": True, "chance": 0.1, "ceiling": 1.0}


def test_lessons_curves_and_scores_follow_the_journal(journal: Journal, tmp_path: Path) -> None:
    watching = Watching(tmp_path, Page())
    progress(journal, "watch", 1, loss=3.0)
    assert told(watching)["lessons"] == [
        {"name": "watch", "step": 1, "steps": 4, "status": "now"}
        | {"curves": [{"name": "loss", "unit": "loss", "points": [[1, 3.0]]}]}
    ]
    progress(journal, "watch", 3, loss=2.0, **{"startle/kl": 0.5})
    assert curves(watching) == {"loss": [[1, 3.0], [3, 2.0]], "startle: change of the policy": [[3, 0.5]]}
    journal.write("glimpse", lesson="watch", scores={"see": 0.7}, measures={"see": BESIDE})
    score = {"name": "see", "score": 0.7, "when": "after watch", "passed": None, **BESIDE}
    assert told(watching)["scores"] == [score]
    exam = {"when": "attempt 0", "stage": "reflex", "skill": "see", "seconds": 1, "passed": False}
    decided = BESIDE | {"passed": True, "floor": 0.95, "beaten_by": "ridge"}
    journal.write("exam", **exam, scores={"see": 0.93}, measures={"see": decided})
    assert told(watching)["scores"] == [{"name": "see", "score": 0.93, "when": "in its exam", **decided}]


def test_change_of_lesson_removes_nothing(journal: Journal, tmp_path: Path) -> None:
    watching = Watching(tmp_path, Page())
    progress(journal, "watch", 4, loss=2.0)
    journal.write("lesson_done", lesson="watch", status="done", steps=4, seconds=1.0)
    progress(journal, "perceive", 1, loss=9.0)
    journal.write("exam", when="", stage="reflex", skill="see", seconds=1, passed=True, scores={"see": 0.9})
    assert [(one["name"], one["status"]) for one in told(watching)["lessons"]] == [
        ("watch", "done"),
        ("perceive", "now"),
    ]
    assert curves(watching, 0) == {"loss": [[4, 2.0]]}
    assert curves(watching, 1) == {"loss": [[1, 9.0]]}


def test_header_shows_the_current_step_and_the_end(journal: Journal, tmp_path: Path) -> None:
    watching = Watching(tmp_path, Page())

    def header() -> tuple[str, str]:
        run = told(watching)
        return run["state"], run["says"]

    assert header() == ("begun", "making the agent")
    journal.write("begun", lesson="watch")
    assert header() == ("teaching", "preparing watch, lesson 1 of 2")
    progress(journal, "watch", 3, loss=1.0)
    assert header() == ("teaching", "teaching watch, lesson 1 of 2, step 3 of 4")
    journal.write("stopped", fault=None)
    assert header() == ("stopped", "stopped in watch, lesson 1 of 2, step 3 of 4; the same command goes on")
    journal.write("resumed")
    assert header() == ("begun", "going on after a stop")
    journal.write("begun", exam="see")
    assert header() == ("examining", "examining see")
    journal.write("stopped", fault="The disk is full.")
    assert header()[0] == "broken"
    assert header()[1].endswith("The disk is full.")
    journal.write("finished", passed=False, agent="agent", reasons=[])
    assert header() == ("failed", "finished: failed, a gate was not reached")
    journal.write("finished", passed=True, agent="agent", reasons=[])
    assert header() == ("passed", "finished: passed")


def test_silence_of_a_killed_run_is_reported(journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watching = Watching(tmp_path, Page())
    progress(journal, "watch", 3, loss=1.0)
    assert told(watching)["state"] == "teaching"
    now_s = time.monotonic()
    monkeypatch.setattr("devmind.live.journal_view.time.monotonic", lambda: now_s + QUIET_S + 60)
    run = told(watching)
    assert run["state"] == "quiet"
    assert run["says"].startswith("no news for 4 min")
    assert "watch" in run["says"]
    journal.write("finished", passed=True, agent="agent", reasons=[])
    assert told(watching)["state"] == "passed", "one that has ended may be silent"


def test_a_run_killed_before_it_is_watched_is_silent_since_its_last_line(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress(journal, "watch", 3, loss=1.0)
    now_s = time.time()
    monkeypatch.setattr("devmind.live.journal_view.time.time", lambda: now_s + QUIET_S + 60)
    assert told(Watching(tmp_path, Page()))["says"].startswith("no news for 4 min")


@pytest.mark.parametrize("step_s", [-3600.0, 86400.0])
def test_setting_the_clock_makes_no_watched_run_silent_or_saved_long_ago(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    watching, real = Watching(tmp_path, Page()), time.time
    progress(journal, "watch", 3, loss=1.0)
    journal.write("checkpoint", lesson="watch")
    assert told(watching)["state"] == "teaching"
    monkeypatch.setattr(time, "time", lambda: real() + step_s)  # also in the journal's next lines
    run = told(watching)
    assert (run["state"], run["saved_age_s"] < 60) == ("teaching", True), "nothing new was written"
    progress(journal, "watch", 4, loss=1.0)
    journal.write("checkpoint", lesson="watch")
    monkeypatch.setattr(time, "time", real)  # set right again
    run = told(watching)
    assert (run["state"], run["saved_age_s"] < 60) == ("teaching", True)
    now_s = time.monotonic()
    monkeypatch.setattr("devmind.live.journal_view.time.monotonic", lambda: now_s + QUIET_S + 60)
    assert told(watching)["says"].startswith("no news for 4 min"), "and a silence is still noticed"


def test_run_resumed_from_its_checkpoint_has_one_curve(journal: Journal, tmp_path: Path) -> None:
    for step in (1, 2, 3, 2, 4):
        progress(journal, "watch", step, loss=float(step))
    assert curves(Watching(tmp_path, Page()))["loss"] == [[1, 1.0], [2, 2.0], [4, 4.0]]


def test_alternating_values_are_all_kept(journal: Journal, tmp_path: Path) -> None:
    """A lesson with several drills logs one of them at each step."""
    for step in range(1, 5):
        progress(journal, "motor", step, **{f"{'reach' if step % 2 else 'track'}/reward": float(step)})
    assert curves(Watching(tmp_path, Page())) == {
        "reach: reward": [[1, 1.0], [3, 3.0]],
        "track: reward": [[2, 2.0], [4, 4.0]],
    }


def test_long_curve_is_thinned_and_keeps_its_ends(journal: Journal, tmp_path: Path) -> None:
    for step in range(1, 1000):
        progress(journal, "perceive", step, loss=float(step))
    curve = curves(Watching(tmp_path, Page()))["loss"]
    assert (curve[0], curve[-1]) == ([1, 1.0], [999, 999.0])
    assert POINTS / 2 <= len(curve) <= POINTS
    pauses = {after - before for (before, _), (after, _) in pairwise(curve[:-1])}
    assert len(pauses) == 1, "its points lie evenly, so that it keeps its shape"


def test_age_of_the_last_checkpoint_is_shown(journal: Journal, tmp_path: Path) -> None:
    watching = Watching(tmp_path, Page())
    assert told(watching)["saved_age_s"] is None
    journal.write("checkpoint", lesson="watch", step=2, name="0-watch-2")
    assert 0 <= told(watching)["saved_age_s"] < 60


def test_fault_of_saving_is_shown_until_a_checkpoint_is_saved(journal: Journal, tmp_path: Path) -> None:
    watching = Watching(tmp_path, Page())
    progress(journal, "watch", 1, loss=1.0)
    journal.write("checkpoint_failed", lesson="watch", fault="Cannot write here: the disk is full.")
    assert told(watching)["says"].endswith("; Cannot write here: the disk is full.")
    journal.write("checkpoint", lesson="watch", step=2, name="gen-00000002")
    assert "full" not in told(watching)["says"]


def test_last_written_stage_of_a_curriculum_is_shown(tmp_path: Path) -> None:
    long_ago = time.time() - 60
    for name, step in (("first", 7), ("second", 8)):
        (tmp_path / name).mkdir()
        progress(Journal(tmp_path / name / "journal.jsonl"), name, step, loss=1.0)
    os.utime(tmp_path / "second" / "journal.jsonl", (long_ago, long_ago))
    watching = Watching(tmp_path, Page())
    assert told(watching)["lessons"][0]["name"] == "first"
    progress(Journal(tmp_path / "second" / "journal.jsonl"), "second", 9, loss=1.0)
    os.utime(tmp_path / "first" / "journal.jsonl", (long_ago, long_ago))
    assert told(watching)["lessons"][0]["name"] == "second"
    assert curves(watching) == {"loss": [[8, 1.0], [9, 1.0]]}


def test_next_stage_is_shown_although_the_clock_was_set_back(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    progress(Journal(tmp_path / "first" / "journal.jsonl"), "first", 1, loss=1.0)
    watching = Watching(tmp_path, Page())
    progress(Journal(tmp_path / "second" / "journal.jsonl"), "second", 1, loss=1.0)
    an_hour_ago = time.time() - 3600
    os.utime(tmp_path / "second" / "journal.jsonl", (an_hour_ago, an_hour_ago))
    assert [told(watching)["lessons"][0]["name"] for _ in range(2)] == ["second", "second"]


def test_views_are_published_each_second_until_stopped(journal: Journal, tmp_path: Path) -> None:
    page, slept = Page(), []
    Watching(tmp_path, page).run(stop=lambda: len(page.views) == 3, sleep=slept.append)
    assert slept == [1.0, 1.0]
    assert all(view["type"] == "tick" for view in page.views)


def test_watched_run_refuses_commands(journal: Journal, tmp_path: Path) -> None:
    watching = Watching(tmp_path, Page())
    assert watching.welcome()["mode"] == "watch"
    assert not watching.mailboxes
    with pytest.raises(DevmindError, match="watches a run"):
        watching.do("teach", {"name": "cup"})


def test_folder_without_a_run_gives_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run in"):
        Watching(tmp_path, Page())
