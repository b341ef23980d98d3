"""A walk on a page: the drawn plan is the followed one, and goals can be clicked and typed."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from devmind.agent.agent import Agent
from devmind.agent.threads import stepping_threads
from devmind.cli import app
from devmind.errors import ConfigError, WorldError
from devmind.live.serving.hub import Hub
from devmind.live.serving.server import PageServer
from devmind.testing import tiny_agent
from devmind.worlds.pointmaze import UNIT, PointMazeRules
from stages.planning import parts
from stages.planning.maze_page import TRAIL_EVERY, MazePage, page_files
from stages.planning.planner import PlannerHead
from tests.browsers import chromium, complaints_of

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest.importorskip("ogbench")
START, GOAL = np.array([0.0, 0.0]), np.array([4.0, 0.0])


class Shown:
    """Keeps the published views."""

    def __init__(self) -> None:
        self.views: list[dict[str, Any]] = []

    def publish(self, view: Mapping[str, Any]) -> None:
        self.views.append(dict(view))


@pytest.fixture(scope="module")
def child() -> Agent:
    agent = tiny_agent()
    parts.admit(agent)
    return agent.eval()


@pytest.fixture(scope="module")
def rules() -> PointMazeRules:
    return PointMazeRules("medium")


@pytest.fixture
def straight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right inverse dynamics, and plans straight to the goal: an untaught agent would not arrive."""
    monkeypatch.setattr(PlannerHead, "inverse", lambda self, here, aim, maze: (aim - here) * UNIT / 0.2)
    search = PlannerHead.search

    def drawn(self: PlannerHead, read: Any, *args: Any, **words: Any) -> Any:
        found = search(self, read, *args, **words)
        share = torch.linspace(0, 1, self.horizon)[:, None]
        found.plans[:] = (read.place[:, None] + share * (read.goal - read.place)[:, None])[:, None]
        return found

    monkeypatch.setattr(PlannerHead, "search", drawn)


def test_the_shown_plan_is_the_one_in_the_state(child: Agent, rules: PointMazeRules) -> None:
    shown = Shown()
    page = MazePage(child, rules, START, GOAL, shown)
    assert page.welcome()["plan"] == []
    head: Any = child.head(parts.ROUTE)
    for tick in range(head.follow + 1):
        assert page.tick()
        kept, view = page.actor.state.carry[f"head.{parts.ROUTE}"], shown.views[-1]
        np.testing.assert_allclose(view["plan"], kept["plan"][0].numpy() * UNIT, atol=0.005)
        assert view["words"] == [parts.WORDS[word] for word in kept["symbols"][0].tolist() if word]
        assert view["age"] == int(kept["age"][0])
        assert view["tick"] == tick + 1
    first = shown.views[1]
    assert first["age"] == 1
    assert first["plan"][0] == [0.0, 0.0]
    assert first["plan"][-1] == [4.0, 0.0]
    assert first["verdict"].startswith("judged ")
    assert view["plans"] == int(kept["made"][0]) >= 2
    assert len(view["trail"]) == 2 + (head.follow + 1) // TRAIL_EVERY
    assert view["trail"][0] == [0.0, 0.0]


def test_a_walk_ends_at_a_broken_sensor_and_names_it(
    child: Agent, rules: PointMazeRules, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, sound = Shown(), PointMazeRules.observe
    page = MazePage(child, rules, START, GOAL, shown)
    assert page.tick()
    monkeypatch.setattr(PointMazeRules, "observe", lambda self, state: sound(self, state) | {"goal": [[0.1, np.nan]]})
    at = shown.views[-1]["at"]
    assert page.tick()
    assert "The sense 'goal' holds NaN or infinity" in shown.views[-1]["ended"]
    assert shown.views[-1]["at"] == at
    assert not page.tick()


@pytest.mark.usefixtures("straight")
def test_an_arrived_agent_waits_for_another_goal_and_continues_from_there(child: Agent, rules: PointMazeRules) -> None:
    shown = Shown()
    page = MazePage(child, rules, START, GOAL, shown)
    while page.tick():
        assert len(shown.views) < 500
    ended = shown.views[-1]
    assert ended["ended"].startswith("It arrived after ")
    assert np.linalg.norm(np.array(ended["at"]) - GOAL) <= 1
    assert not page.tick()
    page.do("goal", {"x": 0, "y": 4.5})
    assert page.tick()
    begun = shown.views[-1]
    assert begun["goal"] == [0.0, 4.5]
    assert begun["trail"][0] == ended["at"]
    assert (begun["tick"], begun["plans"], begun["ended"]) == (1, 1, "")
    page.do("task", {"number": 2})
    page.do("pause", {"on": True})
    assert not page.tick()
    start, goal = (rules.maze.centres(np.array(cell)) for cell in rules.maze.tasks[1])
    assert shown.views[-1]["at"] == start.tolist()
    assert shown.views[-1]["goal"] == goal.tolist()
    assert shown.views[-1]["paused"]
    assert shown.views[-1]["plan"] == []
    page.do("pause", {"on": False})
    assert page.tick()


@pytest.mark.parametrize(
    ("command", "arguments", "sentence"),
    [
        ("goal", {"x": 8, "y": 0}, "is inside a wall of the maze 'medium'"),
        ("goal", {"x": float("nan"), "y": 0}, "two finite numbers"),
        ("goal", {"x": "8", "y": 0}, "two numbers x and y"),
        ("goal", {"x": True, "y": 0}, "two numbers x and y"),
        ("goal", {"x": 1}, "cannot be done with x"),
        ("task", {"number": 6}, "one of 1 to 5; got 6"),
        ("pause", {"on": 1}, "true or false; got 1"),
        ("gaol", {}, "did you mean 'goal'"),
    ],
)
def test_invalid_commands_are_refused(
    child: Agent, rules: PointMazeRules, command: str, arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((ConfigError, WorldError), match=sentence):
        MazePage(child, rules, START, GOAL, Shown()).do(command, arguments)


def test_the_command_serves_the_page_and_refuses_options_of_a_single_plan(
    child: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child.save_pretrained(tmp_path)
    run = MazePage.run
    monkeypatch.setattr(MazePage, "run", lambda self: run(self, 0.2))
    words = ["plan", "maze", "medium", "--agent", str(tmp_path), "--page", "0"]
    came = CliRunner().invoke(app, words)
    assert came.exit_code == 0, came.output
    assert came.stdout.startswith("open this page: http://127.0.0.1:")
    came = CliRunner().invoke(app, [*words, "--set", "symbols=east"])
    assert came.exit_code == 2
    assert "On the page the agent plans by itself" in " ".join(str(came.exception or came.output).split()) + came.output


def test_the_live_pages_access_guard_protects_it(child: Agent, rules: PointMazeRules) -> None:
    hub = Hub()
    with PageServer(MazePage(child, rules, START, GOAL, hub), hub, files=page_files()) as server:
        for path, host, status in (("/", "mazes.example", 421), ("/maze.js", "127.0.0.1", 403)):
            with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)) as connection:
                connection.request("GET", path, headers={"Host": host})
                assert connection.getresponse().status == status


@pytest.mark.slow
@pytest.mark.usefixtures("straight")
def test_a_goal_can_be_clicked_and_typed(child: Agent, rules: PointMazeRules) -> None:
    hub, ended = Hub(), threading.Event()
    walk = MazePage(child, rules, START, GOAL, hub)

    def live() -> None:
        with stepping_threads():
            while not ended.is_set():
                walk.run(0.2, hz=200)

    walking = threading.Thread(target=live, daemon=True)
    with PageServer(walk, hub, files=page_files()) as server, chromium() as browser:
        page: Page = browser.new_page(viewport={"width": 1280, "height": 800})
        complaints = complaints_of(page)
        walking.start()
        page.goto(server.address)
        page.locator("#state", has_text="It arrived after ").wait_for()
        assert page.locator("#maze .point").count() == len(walk.view["plan"]) > 2
        assert page.locator("#words li").count() == len(walk.view["words"])
        box = page.locator("#maze rect.free").nth(2).bounding_box() or {}  # the first free cell of the second row
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        moved = "goal => document.querySelector('#maze g[transform]').getAttribute('transform') !== goal"
        page.wait_for_function(moved, arg="translate(4 0)")
        clicked = walk.view["goal"]
        cells = rules.maze.cells(np.array(clicked))
        free = rules.maze.free[2]
        assert cells.tolist() == free.tolist()
        page.get_by_label("Or type a place").fill("8,0")
        page.get_by_role("button", name="Go", exact=True).click()
        page.locator("#told", has_text="is inside a wall").wait_for()
        page.get_by_label("Or type a place").fill("eight")
        page.get_by_role("button", name="Go", exact=True).click()
        page.locator("#told", has_text="A place is two numbers").wait_for()
        page.get_by_role("button", name="task 2").click()
        page.get_by_role("button", name="Pause").click()
        page.locator("#state", has_text="paused").wait_for()
        page.get_by_role("button", name="Go on").click()
        page.locator("#state", has_text="walking").wait_for()
        for width in (1280, 390, 320):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        ended.set()
        walking.join()
    assert complaints == []
