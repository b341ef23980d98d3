"""A run's journal becomes views for the page."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from devmind.curriculum.journal import Journal
from devmind.errors import ConfigError, DevmindError
from devmind.live.watching import POINTS, Watching


class Page:
    """Keeps what is published."""

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


def learning(watching: Watching) -> dict[str, Any]:
    return watching.view()["learning"]


def progress(journal: Journal, lesson: str, step: int, **scalars: float) -> None:
    journal.write("progress", lesson=lesson, step=step, seconds=1.0, scalars=scalars)


def test_curves_lesson_and_scores_follow_the_journal(journal: Journal, tmp_path: Path) -> None:
    watching = Watching(tmp_path, Page())
    progress(journal, "watch", 1, loss=3.0)
    assert learning(watching) == {
        "lesson": "watch", "step": 1, "steps": 4, "curves": {"loss": [[1, 3.0]]}, "scores": [],
    }  # fmt: skip
    progress(journal, "watch", 3, loss=2.0, see=0.5)
    assert learning(watching)["curves"] == {"loss": [[1, 3.0], [3, 2.0]], "see": [[3, 0.5]]}
    journal.write("glimpse", lesson="watch", scores={"see": 0.7})
    progress(journal, "perceive", 1, loss=9.0)
    told = learning(watching)
    assert (told["lesson"], told["steps"], told["curves"]) == ("perceive", 1000, {"loss": [[1, 9.0]]})
    assert told["scores"] == [{"name": "see", "score": 0.7, "passed": None}]
    journal.write("exam", when="attempt 0", stage="reflex", skill="see", seconds=1, passed=True, scores={"see": 0.9})
    assert learning(watching)["scores"] == [{"name": "see", "score": 0.9, "passed": True}]
    journal.write("finished", passed=False, agent="agent", reasons=[])
    assert learning(watching)["lesson"] == "finished: a gate was failed"


def test_a_run_that_went_back_to_its_checkpoint_has_one_curve(journal: Journal, tmp_path: Path) -> None:
    for step in (1, 2, 3, 2, 4):
        progress(journal, "watch", step, loss=float(step))
    assert learning(Watching(tmp_path, Page()))["curves"]["loss"] == [[1, 1.0], [2, 2.0], [4, 4.0]]


def test_a_long_curve_is_thinned_and_keeps_its_ends(journal: Journal, tmp_path: Path) -> None:
    for step in range(1, 1000):
        progress(journal, "perceive", step, loss=float(step))
    curve = learning(Watching(tmp_path, Page()))["curves"]["loss"]
    assert (curve[0], curve[-1]) == ([1, 1.0], [999, 999.0])
    assert POINTS / 2 <= len(curve) <= POINTS
    pauses = {after - before for (before, _), (after, _) in pairwise(curve[:-1])}
    assert len(pauses) == 1, "its points lie evenly, so that it keeps its shape"


def test_the_last_checkpoint_has_an_age(journal: Journal, tmp_path: Path) -> None:
    watching = Watching(tmp_path, Page())
    assert watching.view()["checkpoint_age_s"] is None
    journal.write("checkpoint", lesson="watch", step=2, name="0-watch-2")
    assert 0 <= watching.view()["checkpoint_age_s"] < 60


def test_of_a_curriculum_the_stage_written_last_is_shown(tmp_path: Path) -> None:
    long_ago = time.time() - 60
    for name, step in (("first", 7), ("second", 8)):
        (tmp_path / name).mkdir()
        progress(Journal(tmp_path / name / "journal.jsonl"), name, step, loss=1.0)
    os.utime(tmp_path / "second" / "journal.jsonl", (long_ago, long_ago))
    watching = Watching(tmp_path, Page())
    assert learning(watching)["lesson"] == "first"
    progress(Journal(tmp_path / "second" / "journal.jsonl"), "second", 9, loss=1.0)
    os.utime(tmp_path / "first" / "journal.jsonl", (long_ago, long_ago))
    told = learning(watching)
    assert (told["lesson"], told["curves"]) == ("second", {"loss": [[8, 1.0], [9, 1.0]]})


def test_views_are_published_each_second_until_told_to_stop(journal: Journal, tmp_path: Path) -> None:
    page, slept = Page(), []
    Watching(tmp_path, page).run(stop=lambda: len(page.views) == 3, sleep=slept.append)
    assert slept == [1.0, 1.0]
    assert all(view["type"] == "tick" for view in page.views)


def test_there_is_nobody_to_talk_to(journal: Journal, tmp_path: Path) -> None:
    watching = Watching(tmp_path, Page())
    assert watching.welcome()["mode"] == "watch"
    assert not watching.mailboxes
    with pytest.raises(DevmindError, match="watches a run"):
        watching.do("teach", {"name": "cup"})


def test_a_folder_without_a_run_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run in"):
        Watching(tmp_path, Page())
