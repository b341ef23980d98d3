"""Procedures' steps as symbols of a plan: a plan file gives some, the planner draws the rest, and a life follows it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from devmind.acting.directing import Observation
from devmind.agent.agent import Agent
from devmind.agent.plans import Course
from devmind.agent.threads import stepping_threads
from devmind.config import MemoryConfig
from devmind.errors import ConfigError
from devmind.live.directing import said_by
from devmind.live.life import Life
from devmind.live.viewing.view import said
from devmind.live.virtual import VirtualClock
from devmind.memory import Memory, open_store
from devmind.moment import Moment
from devmind.plugins import load
from devmind.raised import raised
from devmind.testing import check_director
from devmind.worlds import rules_of
from devmind.worlds.adapter import row
from devmind.worlds.world_room import WorldRoom
from stages.planning.parts import HORIZON, ROUTE, WALK

pytest.importorskip("ogbench")
FOLDER = raised()["after-planning"]
SEED = 26
"""From where there are two ways to the goal, to the north and to the south, much the same long."""


def read_plans(file: Path | str) -> Any:
    """The reader of plan files, as a life finds it."""
    return load("procedures", "plan")(Path(file))


@pytest.fixture(scope="module")
def agent() -> Agent:
    return Agent.from_pretrained(FOLDER).eval()


def test_given_steps_are_kept_and_the_rest_of_the_plan_is_drawn(agent: Agent) -> None:
    rules = rules_of("pointmaze", "medium")
    state = rules.initial(np.array([SEED]))
    output = said_by(agent, Moment(0.0, row(rules.observe(state), 0), first=True), ROUTE)
    assert output is not None
    own, north = output.course({}), output.course({0: "north"})
    assert own is not None
    assert north is not None
    assert (own.words[0], own.missed) == ("south", ())
    assert (north.words[0], north.missed) == ("north", ())
    assert "east" in north.words, "what was not given is told"
    assert len(north.words) == len(north.points) == HORIZON
    # The path itself goes there, not only its words; both start at the agent's place and end at the goal.
    first = {name: course.points[1] - course.points[0] for name, course in (("south", own), ("north", north))}
    assert first["south"][1] > 0.1 > -0.1 > first["north"][1]
    for course in (own, north):
        np.testing.assert_allclose(course.points[[0, -1]] * 10, [state.at[0], state.goal[0]], atol=1e-3)
    wall = output.course({0: "west"})
    assert wall is not None
    assert wall.missed == (0,), "there is a wall: the symbol is held, the path does not make it"
    at, command = output.along(own, 0.0)
    assert 0 <= at <= 1
    assert command @ first["south"] > 0
    with pytest.raises(ConfigError, match="got 'norht'; did you mean 'north'"):
        output.course({0: "norht"})
    with pytest.raises(
        ConfigError, match=f"at most {HORIZON} symbols in a route plan; got a symbol at number {HORIZON + 1}"
    ):
        output.course({HORIZON: "north"})
    nowhere = said_by(agent, Moment(0.0, {"maze": row(rules.observe(state), 0)["maze"]}, first=True), ROUTE)
    assert nowhere is None or nowhere.course({}) is None


def lived(agent: Agent, word: str) -> tuple[WorldRoom, list[np.ndarray], list[str], list[Mapping[str, Any]]]:
    """A life in the maze that hears one word first: its room, its places, what it said, and who acted."""
    clock = VirtualClock()
    room = WorldRoom(rules_of("pointmaze", "medium"), SEED, now=clock.now, sleep=clock.sleep)
    nothing, plans = MemoryConfig(recalled=0, longest_s=None, novelty=2), read_plans("maze")
    how: Any = {"remembering": nothing, "director": plans, "answers": {WALK: (ROUTE,)}}
    life = Life(agent, room, Memory(open_store(None)), FOLDER, **how)
    places, aloud, by = list[np.ndarray](), list[str](), list[Mapping[str, Any]]()
    with life, stepping_threads():
        room.say(word)
        for step in life.loop.ticks(60.0):
            assert step is not None
            places.append(np.asarray(step.moment.senses["body"]) * 10)
            by.append(step.output.answered[WALK])
            aloud += [said(step.action.effectors["say"])] if "say" in step.action.effectors else []
            assert not plans.fault
            if room.ended:
                break
    return room, places, aloud, by


def test_a_plan_files_step_decides_the_path_of_a_life(agent: Agent) -> None:
    side = {}
    for word in ("north", "south"):
        room, places, aloud, by = lived(agent, word)
        assert (room.ended, room.rewarded) == (1, 1), word
        assert aloud == []
        assert by[1:-1].count({"directed": 1}) >= len(by) - 3, "from the first tick to the goal by the procedure"
        apart = np.stack(places)[:, 1] - places[0][1]
        side[word] = apart[np.abs(apart) > 2][0]
    assert side["north"] < 0 < side["south"]


def test_without_a_matching_path_the_life_says_so_and_the_planner_decides(agent: Agent) -> None:
    room, _, aloud, by = lived(agent, "west")
    assert aloud == ["i find no such way"]
    assert {"directed": 1} not in by
    assert (room.ended, room.rewarded) == (1, 1)


def test_a_course_fails_when_it_gets_no_further_unless_it_has_arrived(tmp_path: Path) -> None:
    way = Course(np.zeros((5, 2), np.float32), ("on",) * 5)
    at = [0.0]
    asked = list[Mapping[int, str]]()

    def course(given: Mapping[int, str]) -> Course:
        asked.append(given)
        return way

    output = SimpleNamespace(course=course, along=lambda course, before: (at[0], np.ones(2, np.float32)))
    text = 'plan a {{ for believed heard(go)\n do {{ branch {{ follow_plan(route, walk, {}) }} or {{ say("no") }} }} }}'

    def told(number: int, head: Any = output) -> Observation:
        return Observation(
            Moment(number / 10, {"words": "go"} if number == 1 else {}, first=number == 0), read=lambda _: head
        )

    def orders(steps: str, end: float) -> list[Mapping[str, np.ndarray]]:
        (tmp_path / "a.plan").write_text(text.format(steps), encoding="utf-8")
        plans, found = read_plans(tmp_path / "a.plan"), []
        for number in range(60):
            at[0] = min(end, number / 10)
            found.append(plans.direct(told(number)))
        assert not plans.fault
        return found

    for end, fails in ((4.0, False), (1.0, True)):
        found = orders("[any, east]", end)
        assert [one["walk"].tolist() for one in found if "walk" in one][:1] == [[1.0, 1.0]]
        assert any("say" in one for one in found) == fails
        assert "walk" not in found[-1] or end == 4.0
    assert asked[0] == {1: "east"}, "'any' is left to the head"
    for steps, head, wrong in (("east", output, "expected the steps as a list"), ("[east]", None, "no head 'route'")):
        (tmp_path / "a.plan").write_text(text.format(steps), encoding="utf-8")
        plans = read_plans(tmp_path / "a.plan")
        for number in range(3):
            assert plans.direct(told(number, head)) == {}
        assert wrong in plans.fault
    check_director(lambda: read_plans("maze"))
