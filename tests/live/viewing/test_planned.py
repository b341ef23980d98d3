"""The plan on the page: given by the deciding head, in fractions of the frame, as in the agent's state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from devmind.agent.agent import Agent, StepOutput
from devmind.agent.output import Regression
from devmind.agent.plans import Plan
from devmind.cli import app
from devmind.config import LiveConfig
from devmind.live.checking import check_replay
from devmind.live.loop import LiveLoop, Tick
from devmind.live.recording import Recording
from devmind.live.viewing.planned import view_plan
from devmind.live.viewing.view import View
from devmind.live.virtual import VirtualClock
from devmind.testing import tiny_agent
from devmind.worlds.rules import rules_of
from devmind.worlds.world_room import WorldRoom
from stages.planning import parts


class Planning(Regression):
    """Gives a plan of two points."""

    def planned(self, row: int = 0) -> Plan:
        points = np.array([[0.0, 0.0], [1.0, -0.5]])
        return Plan(points, np.array([True, False]), ("the cup", ""), 1, np.array([-1.0, 0.75]), 0.25, 3)


@pytest.fixture(scope="module")
def child() -> Agent:
    agent = tiny_agent()
    parts.admit(agent)
    return agent.eval()


def test_places_are_given_as_fractions_of_the_frame() -> None:
    outputs = {"a": Planning(torch.zeros(1)), "b": Regression(torch.zeros(1))}
    told = view_plan(StepOutput(outputs=outputs, answered={"arm": {"b": 0, "a": 1}}), height=300, width=400)
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told == {
        "head": "a", "effector": "arm", "at": 1, "now": [0.0, 1.0], "share": 0.25, "number": 3,
        "points": [
            {"x": 0.5, "y": 0.5, "word": "the cup", "closed": True},
            {"x": 1.0, "y": 0.1667, "word": "", "closed": False},
        ],
    }  # fmt: skip


@pytest.mark.parametrize("answered", [{}, {"arm": {"a": 0}}, {"arm": {"b": 1}}, {"arm": {"asleep": 1}}])
def test_head_that_did_not_decide_shows_no_plan(answered: dict[str, dict[str, int]]) -> None:
    outputs = {"a": Planning(torch.zeros(1)), "b": Regression(torch.zeros(1))}
    assert view_plan(StepOutput(outputs=outputs, answered=answered), 300, 400) is None


Told = tuple[dict[str, Any], dict[str, Any]]
"""The view of a tick, and the state of the head."""


def lived(child: Agent, world: str, level: str, head: str, effector: str, ticks: int, path: Path) -> Iterator[Told]:
    """A recorded life in a world, on a virtual clock."""
    clock = VirtualClock()
    room = WorldRoom(rules_of(world, level), now=clock.now, sleep=clock.sleep)
    view = View(child)
    found: list[Told] = []
    recording = Recording(path, {}, LiveConfig(frames=False))

    def watch(tick: Tick) -> None:
        recording.tick(tick, room)
        kept = {name: value.clone() for name, value in tick.state.carry[f"head.{head}"].items()}
        found.append((view.of(tick, room), kept))

    loop = LiveLoop(child, room, watchers={"page": watch}, answers={effector: (head,)})
    heads = {name: list(asked) for name, asked in loop.standing.items()}
    recording.begin({"agent_sha256": child.sha256(), "kept": None, "heads": heads}, loop.wanted)
    loop.run(stop=lambda: len(found) >= ticks)
    recording.end()
    view.close()
    return iter(found)


@pytest.mark.parametrize(
    ("world", "level", "head", "effector", "ticks"),
    [("nursery", "handle/push", parts.MANIPULATE, parts.REACH, 4), ("tabletop", "two", parts.ARRANGE, parts.ARM, 6)],
)
def test_shown_plan_equals_the_state_and_the_recording_replays_equally(
    child: Agent, tmp_path: Path, world: str, level: str, head: str, effector: str, ticks: int
) -> None:
    path = tmp_path / "s.mcap"
    for shown, kept in lived(child, world, level, head, effector, ticks, path):
        plan = shown["plan"]
        assert json.loads(json.dumps(shown, allow_nan=False)) == shown
        assert (plan["head"], plan["effector"]) == (head, effector)
        assert (plan["at"], plan["number"]) == (int(kept["at"][0]), int(kept["made"][0]))
        assert plan["share"] == pytest.approx(float(kept["sure"][0].exp()), abs=1e-3)
        grips = kept["plan"][0][:, {parts.MANIPULATE: 3, parts.ARRANGE: 2}[head]] > 0
        assert [point["closed"] for point in plan["points"]] == grips.tolist()
        if head == parts.ARRANGE:
            x, y = kept["plan"][0][:, :2].numpy().T
            expected = np.column_stack(((1 + x) / 2, (1 - y) / 2))
            np.testing.assert_allclose([(p["x"], p["y"]) for p in plan["points"]], expected, atol=1e-4)
    check = check_replay([path], {child.sha256(): child})
    assert check.passed, (check.first_difference, check.refused)
    assert check.checked == ticks


HIDDEN = ("--set", "page.shown=false", "--private")


def told(result: Any) -> str:
    return " ".join((result.output + str(result.exception or "")).split())


def test_life_in_a_world_without_a_picture_ends_normally(child: Agent, tmp_path: Path) -> None:
    child.save_pretrained(tmp_path)
    words = ["live", "--agent", str(tmp_path), *HIDDEN, "--set", "seconds=0.3", "--world", "cartpole"]
    came = CliRunner().invoke(app, words)
    assert came.exit_code == 0, told(came)
    assert "episodes ended, " in told(came)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--world", "nursry:room"], "did you mean 'nursery'"),
        (["--world", "nursery:handle/puhs"], "did you mean 'handle/push'"),
        (["--world", "nursery:room", "--camera", "0"], "brings its senses"),
        (["--world", "nursery:room", "--set", "answers.reach"], "--set expects key=value"),
        (["--world", "nursery:room", "--set", "answers.raech=manipulate"], "did you mean 'reach'"),
        (["--world", "nursery:room", "--set", "answers.reach=manipulat"], "did you mean 'manipulate'"),
    ],
)
def test_worlds_that_cannot_be_lived_in_give_clear_errors(
    child: Agent, tmp_path: Path, words: list[str], says: str
) -> None:
    child.save_pretrained(tmp_path)
    came = CliRunner().invoke(app, ["live", "--agent", str(tmp_path), *HIDDEN, *words])
    assert came.exit_code == 2, came.output
    assert says in told(came)


@pytest.mark.parametrize(
    ("cells", "says"),
    [("3600,1,2,1,n/a,5", "line 3: close is a number; got 'n/a'"), ("7200,1,2,1,1,5", "bars are 3600 s apart")],
)
def test_invalid_price_file_is_reported_with_its_line(tmp_path: Path, cells: str, says: str) -> None:
    rows = ["time,open,high,low,close,volume", "0,1,2,1,1,5", cells, *(f"{3600 * n},1,2,1,1,5" for n in range(3, 9))]
    file = tmp_path / "prices.csv"
    file.write_text("\n".join(rows) + "\n")
    came = CliRunner().invoke(app, ["live", "--world", f"market:replay:{file}", *HIDDEN])
    assert came.exit_code == 2, came.output
    assert says in told(came)
