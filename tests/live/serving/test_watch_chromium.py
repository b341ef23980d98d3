"""A training run on the page in a real browser: its header, and that nothing vanishes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from devmind.curriculum.journal import Journal
from devmind.live.serving.hub import Hub
from devmind.live.serving.server import PageServer
from devmind.live.watching import Watching
from tests.browsers import chromium, complaints_of

if TYPE_CHECKING:
    from playwright.sync_api import Page

SEE = {"unit": "correct", "gate": 0.9, "higher_is_better": True, "chance": 0.1, "ceiling": 1.0}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write("start", identity={"stage": "reflex"})
    journal.write("plan", steps={"watch": 40, "motor": 400})
    for step in range(1, 41):
        journal.write("progress", lesson="watch", step=step, seconds=1.0, scalars={"loss": 3 / step, "next_sight": 1.0})
    journal.write("lesson_done", lesson="watch", status="done", steps=40, seconds=1.0)
    return journal


@pytest.fixture
def watching(journal: Journal, tmp_path: Path) -> Watching:
    return Watching(tmp_path, Hub())


@pytest.fixture
def page(watching: Watching) -> Iterator[Page]:
    """The page of the run; it reports no errors."""
    with PageServer(watching, watching.hub) as server, chromium() as browser:  # type: ignore[arg-type]
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        complaints = complaints_of(page)
        ended = threading.Event()
        quickly = {"stop": ended.is_set, "sleep": lambda _: time.sleep(0.05)}
        publishing = threading.Thread(target=watching.run, kwargs=quickly, daemon=True)
        publishing.start()
        page.goto(server.address)
        page.locator("#run").wait_for()
        yield page
        ended.set()
        publishing.join()
    assert complaints == []


@pytest.mark.slow
def test_lessons_stay_visible_and_curves_have_axes_and_scores_have_gates(page: Page, journal: Journal) -> None:
    page.get_by_text("watch · 40 of 40 steps · done").wait_for()
    reward = {"reach/reward": 0.5}
    journal.write("progress", lesson="motor", step=20, seconds=1.0, scalars=reward)
    journal.write("glimpse", lesson="watch", scores={"see": 0.0}, measures={"see": SEE})
    page.get_by_text("motor · 20 of 400 steps").wait_for()
    assert page.locator("#state").inner_text() == "teaching motor, lesson 2 of 2, step 20 of 400"
    assert [words.split(" · ")[0] for words in page.locator(".lesson h4").all_inner_texts()] == ["motor", "watch"]
    captions = [words.split("\n")[0] for words in page.locator(".lesson figcaption").all_inner_texts()]
    assert [caption.strip() for caption in captions] == ["reach: reward", "loss", "next sight"]
    loss = page.locator(".lesson figure", has_text="loss").first
    assert loss.locator("text.x").all_text_contents() == ["0", "10", "20", "30", "40"]
    assert "steps" in loss.inner_text()
    assert loss.locator("text.y").count() >= 2
    row = page.locator("#run-scores li")
    page.get_by_text("0 after watch, gate at least 0.9").wait_for()
    gate, score = (row.locator(f".scale.{kind}") for kind in ("gate", "score"))
    assert gate.get_attribute("x1") == "89.2%"
    assert score.get_attribute("cx") == "1%"
    decided = SEE | {"passed": True, "floor": 0.97, "beaten_by": "ridge on pixels"}
    exam = {"when": "", "stage": "reflex", "skill": "see", "seconds": 1, "passed": True}
    journal.write("exam", **exam, scores={"see": 0.95}, measures={"see": decided})
    page.get_by_text("a rule does better (ridge on pixels 0.97)").wait_for()
    assert "0.95 in its exam, gate at least 0.9: passed" in row.inner_text()
    missed = SEE | {"passed": None, "verdict": "goal missed"}
    journal.write("exam", **exam, scores={"rest": 0.5}, measures={"rest": missed})
    page.get_by_text("0.5 in its exam, goal at least 0.9: goal missed").wait_for()
    assert page.locator(".lesson").count() == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("event", "fields", "state", "says"),
    [
        (
            "stopped",
            {"fault": None},
            "stopped",
            "stopped in watch, lesson 1 of 2, step 40 of 40; the same command goes on",
        ),
        (
            "stopped",
            {"fault": "The disk is full."},
            "broken",
            "broke off in watch, lesson 1 of 2, step 40 of 40: The disk is full.",
        ),
        ("finished", {"passed": True}, "passed", "finished: passed"),
        ("finished", {"passed": False}, "failed", "finished: failed, a gate was not reached"),
    ],
)
def test_header_shows_how_a_run_ended(
    page: Page, journal: Journal, event: str, fields: dict[str, object], state: str, says: str
) -> None:
    journal.write(event, **fields)
    page.locator(f"#state.{state}").wait_for()
    assert page.locator("#state").inner_text() == says
    assert "awake" not in page.inner_text("body")


@pytest.mark.slow
def test_next_stage_replaces_lessons_and_scores_of_the_one_before(page: Page, journal: Journal, tmp_path: Path) -> None:
    """Regression: an open page went on showing them under the name of the next stage of a curriculum."""
    journal.write("glimpse", lesson="watch", scores={"see": 0.5}, measures={"see": SEE})
    page.locator("#run-scores li").wait_for()
    (tmp_path / "memory").mkdir()
    following = Journal(tmp_path / "memory" / "journal.jsonl")
    following.write("start", identity={"stage": "memory"})
    following.write("plan", steps={"signs": 10})
    following.write("progress", lesson="signs", step=1, seconds=1.0, scalars={"loss": 1.0})
    page.get_by_role("heading", name="Stage memory").wait_for()
    page.get_by_text("signs · 1 of 10 steps").wait_for()
    assert page.locator(".lesson").count() == 1
    assert page.locator("#run-scores li").count() == 0


@pytest.mark.slow
def test_page_of_a_run_needs_no_sideways_scrolling(page: Page, journal: Journal) -> None:
    journal.write("glimpse", lesson="watch", scores={"see/of things that are hidden": 0.4}, measures={})
    page.locator("#run-scores li").wait_for()
    for width in (1280, 390, 320):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
def test_page_of_an_ended_watch_says_so_and_asks_no_more(watching: Watching) -> None:
    """It made a failing request every ten seconds for as long as it was open."""
    with chromium() as browser:
        page = browser.new_page()
        with PageServer(watching, watching.hub) as server:  # type: ignore[arg-type]
            page.goto(server.address)
            page.locator("#about", has_text="devmind").wait_for()
        page.locator("#state", has_text="devmind has ended; start it again with “devmind watch").wait_for()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.wait_for_timeout(5000)  # four tries of a live page
        assert asked == []
