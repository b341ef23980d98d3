"""`devmind plan` imagines, walks, shows, and reports what it cannot do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from devmind.acting import rollout
from devmind.cli import app
from devmind.errors import MomentError
from devmind.testing import tiny_agent
from devmind.worlds.pointmaze import MAZES, UNIT, PointMazeRules, maze
from stages.planning import commands, film, parts
from stages.planning.planner import Candidates

pytest.importorskip("ogbench")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    agent, folder = tiny_agent(), tmp_path_factory.mktemp("agent")
    parts.admit(agent)
    agent.save_pretrained(folder)
    return folder


THERE = ("--goal", "0,1", "--set", "start=0,-1")


def plan(folder: Path, *words: str):
    return CliRunner().invoke(app, ["plan", "maze", "medium", "--agent", str(folder), *words])


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests look at what is imagined, not at where it leads, so a walk ends after a few ticks."""
    monkeypatch.setattr(film, "rollout", lambda policy, world: rollout(policy, world, 4))


@pytest.mark.slow
def test_a_page_shows_the_film_the_candidates_and_the_path(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    came = plan(folder, *THERE, "--show", str(page), "--set", "steps=4", "--set", "symbols=?,east")
    assert came.exit_code in (0, 1), came.output
    assert re.search(r"2 candidates, marks .* chosen", came.output)
    assert re.search(r"moves: [a-z ]+; judged (sound|to fail: \w+)", " ".join(came.output.split()))
    text = page.read_text()
    assert not re.findall(r"(?:src|href)=|@import|https?://(?!www\.w3\.org/2000/svg)", text)
    data = json.loads(re.search(r"const data = (\{.*\})", text)[1])  # type: ignore[index]
    assert len(data["frames"]) == 2 + 4  # moves first
    assert len(data["frames"][0]["places"]) == len(data["marks"]) == 2
    kept = data["kept"]
    assert len(kept) == 2
    assert f"of 1 move given the chosen path makes {kept[data['chosen']]}" in " ".join(came.output.split())
    assert all(words[1] == 1 for words in data["symbols"])
    assert re.match(r"The chosen plan is judged (sound|to fail: \w+) .*\. It (arrived|did not)", data["came"])
    assert data["plans"][0][0] == [0.0, -1.0]
    assert data["plans"][0][-1] == [0.0, 1.0]
    assert data["walked"][0] == [0.0, -1.0]
    assert data["came"].startswith("It arrived") == (came.exit_code == 0)


def test_a_page_in_a_missing_folder_is_refused_before_the_walk(folder: Path, tmp_path: Path) -> None:
    came = plan(folder, "--goal", "0,1", "--show", str(tmp_path / "nowhere" / "plan.html"))
    assert came.exit_code == 2
    assert "there is no" in " ".join(came.output.split())
    assert "candidates" not in came.output


def test_a_page_that_is_a_folder_is_refused_before_the_walk(folder: Path, tmp_path: Path) -> None:
    came = plan(folder, "--goal", "0,1", "--show", str(tmp_path))
    assert came.exit_code == 2
    assert "is a folder" in " ".join(came.output.split())
    assert "candidates" not in came.output


def test_an_untaught_maze_is_refused_before_planning(folder: Path) -> None:
    came = CliRunner().invoke(app, ["plan", "maze", "giant", "--agent", str(folder)])
    assert came.exit_code == 2
    said = " ".join((came.output + str(came.exception)).split())
    assert "never taught the maze 'giant': at size 'tiny' it learned medium" in said
    assert "candidates" not in came.output


def test_moves_of_a_path_come_from_the_cells_that_it_crosses() -> None:
    where, east, south = maze("medium"), parts.WORDS.index("east"), parts.WORDS.index("south")
    points = np.array([[0, 0], [2.5, 0], [4, 0], [4, 3], [4, 3]], np.float32) / UNIT
    assert film.made_by(where, points).tolist() == [east, 0, south, 0, 0]


def test_a_path_that_differs_from_the_given_moves_is_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Given moves used to be printed as the plan's, whatever its path did."""
    east, south = parts.WORDS.index("east"), parts.WORDS.index("south")
    points = torch.tensor([[0, 0], [2.5, 0], [4, 0], [4, 3], [4, 3]]) / UNIT
    symbols = torch.tensor([[[south, 0, south, 0, south]]])
    found = Candidates(points[None, None], symbols, torch.zeros(1, 1), torch.tensor([0]))
    ends = np.array([0.0, 0.0]), np.array([4.0, 3.0])
    told = film.ImaginedTrip(
        maze("medium"), *ends, found=found, walked=np.stack(ends), words={4: south, 0: south, 2: south}
    )
    assert told.given == [(0, south, east), (2, south, south), (4, south, 0)]
    commands._print_trip(told)
    said = " ".join(capsys.readouterr().out.split())
    assert "of 3 moves given the chosen path makes 1, the candidates make 1 to 1" in said
    assert "stride 1: south was given, the path goes east" in said
    assert "stride 3: south was given, and the path does it" in said
    assert "stride 5: south was given, the path stays in its cell" in said
    data = json.loads(re.search(r"const data = (\{.*\})", film.page(told))[1])  # type: ignore[index]
    assert [one["word"] == one["made"] for one in data["given"]] == [False, True, False]


def test_candidates_that_make_most_given_moves_are_preferred_to_any_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = tiny_agent()
    parts.admit(agent)
    head: Any = agent.eval().head(parts.ROUTE)
    read = head.thinking(torch.zeros(2, 2), torch.ones(2, 2), torch.eye(len(MAZES))[:2])
    east, south = parts.WORDS.index("east"), parts.WORDS.index("south")
    made = torch.zeros(2, 3, head.horizon, dtype=torch.int64)
    made[0, 1:, 4], made[1, 0, 4], made[1, 1, 4], made[1, 1, 9] = south, south, south, east
    marks = torch.tensor([[3.0, 1.0, 2.0], [3.0, 1.0, 2.0]])
    monkeypatch.setattr(head, "moves", lambda plans, maze: torch.nn.functional.one_hot(made, len(parts.WORDS)))
    monkeypatch.setattr(head, "marks", lambda plans, maze: marks)
    head.doubt = 0.0
    words = {4: torch.tensor([south, south]), 9: torch.tensor([east, east])}
    found = head.search(read, candidates=3, words=words)
    assert found.chosen.tolist() == [2, 1], "of those that make as many the mark decides"
    assert (found.symbols[..., [4, 9]] == torch.tensor([south, east])).all()
    assert head.search(read, candidates=3).chosen.tolist() == [0, 0]


@pytest.mark.usefixtures("few_steps")
def test_guidance_changes_plans_and_a_scale_of_1_does_not(folder: Path, tmp_path: Path) -> None:
    def points(*words: str) -> list[Any]:
        page = tmp_path / "plan.html"
        assert plan(folder, *THERE, "--show", str(page), *words).exit_code in (0, 1)
        return json.loads(re.search(r"const data = (\{.*\})", page.read_text())[1])["plans"]  # type: ignore[index]

    alone = points()
    assert points("--set", "guidance=1") == alone
    assert points("--set", "guidance=3") != alone


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--goal", "8,0"], "goal 8,0 is inside a wall of the maze 'medium'"),
        (["--goal", "the kitchen"], "known are: task1, task2"),
        (["--goal", "tsk2"], "did you mean 'task2'"),
        (["--set", "start=nan,0"], "start is two finite numbers"),
        (["--set", "horizon=64"], "learned plans of 26 points"),
        (["--set", "steps=101"], "denoised in 1 to 100 steps"),
        (["--set", "waypoints.30=0,0"], "the last one is 25"),
        (["--set", "waypoints.0=0,4"], "Points 0 and 25 of a plan are its start and its goal"),
        (["--set", "waypoints.25=0,4"], "waypoints are points 1 to 24"),
        (["--set", "waypoints.here=0,0"], "a point's number and a place"),
        (["--set", "waypoints.²=12,16"], "a point's number and a place"),
        (["--set", "guidance=.inf"], "finite"),
        (["--set", "symbols=east,wset"], "did you mean 'west'"),
    ],
)
def test_impossible_plans_are_refused(folder: Path, words: list[str], says: str) -> None:
    came = plan(folder, *words)
    assert came.exit_code == 2, came.output
    assert says in " ".join(str(came.exception or came.output).split()) or says in " ".join(came.output.split())


def test_a_sensor_that_breaks_during_the_walk_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """No plan is made from an observation with a NaN, and the sense is named."""
    agent, sound = tiny_agent(), PointMazeRules.observe
    parts.admit(agent)

    def breaks(self: PointMazeRules, state):
        seen = sound(self, state)
        return seen | {"body": np.where(state.tick[:, None] >= 3, np.nan, seen["body"])}

    monkeypatch.setattr(PointMazeRules, "observe", breaks)
    with pytest.raises(MomentError, match="sense 'body' holds NaN or infinity; a plan needs numbers"):
        film.imagine_trip(agent, PointMazeRules("medium"), np.array([0.0, 0.0]), np.array([20.0, 20.0]))


def test_an_unknown_maze_and_an_untaught_agent_are_reported(tmp_path: Path) -> None:
    came = CliRunner().invoke(app, ["plan", "maze", "medum"])
    assert came.exit_code == 2
    tiny_agent().save_pretrained(tmp_path)
    came = plan(tmp_path)
    assert came.exit_code == 2
    assert "never taught to plan" in " ".join((came.output + str(came.exception)).split())
