"""Procedures' steps as symbols of a plan: a plan file gives some, the planner draws the rest, and a life follows it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from devmind.acting.directing import Observation
from devmind.agent.agent import Agent
from devmind.agent.batch import collate
from devmind.agent.plans import Course
from devmind.agent.threads import stepping_threads
from devmind.config import LiveConfig, MemoryConfig
from devmind.errors import ConfigError
from devmind.live.directing import said_by
from devmind.live.life import Life
from devmind.live.options import LiveOptions
from devmind.live.viewing.view import spoken_words
from devmind.live.virtual import VirtualClock
from devmind.memory import Memory, open_store
from devmind.moment import Moment
from devmind.plugins import load
from devmind.raised import raised_agents
from devmind.testing import check_director
from devmind.testing.laws import ATOL
from devmind.worlds.adapter import row
from devmind.worlds.rules import rules_of
from devmind.worlds.tabletop import PLACES, THINGS
from devmind.worlds.world_room import WorldRoom
from stages.planning.arrange.demonstrations import HORIZON as KEY_POINTS
from stages.planning.parts import ARM, ARRANGE, HORIZON, ROUTE, WALK

FOLDER = raised_agents()["after-planning"]
SEED = 26
"""From where there are two ways to the goal, to the north and to the south, much the same long."""
TABLE = 2_000_003


def read_plans(file: Path | str) -> Any:
    """The reader of plan files, as a life finds it."""
    return load("procedures", "plan")(Path(file))


@pytest.fixture(scope="module")
def agent() -> Agent:
    return Agent.from_pretrained(FOLDER).eval()


def answer(agent: Agent, head: str, *moments: Moment) -> Any:
    """What a head answers in the last of these ticks of a life."""
    state = agent.new_state()
    for moment in moments:
        percepts = agent.encode(state, moment)
        state, _ = agent.step(state, percepts, effectors=())
    return said_by(agent, percepts, head)


def test_a_plan_with_given_steps_is_drawn_under_the_features_of_the_whole_life(agent: Agent) -> None:
    """It was drawn from the Moment alone, without window and slots, unlike all plans in lessons and exams."""
    pytest.importorskip("ogbench")
    rules = rules_of("pointmaze", "medium")
    state, moments = rules.initial(np.array([SEED])), list[Moment]()
    for number in range(4):
        moments.append(Moment(number / 10, row(rules.observe(state), 0), first=number == 0))
        state = rules.step(state, {WALK: np.array([[0.0, 1.0]])})
    lived, alone = (answer(agent, ROUTE, *some).condition for some in (moments, moments[-1:]))
    with torch.no_grad():
        lessons: Any = agent.forward(collate([moments]), [ROUTE])[ROUTE]
    torch.testing.assert_close(lived, lessons.condition[:, -1], atol=1e-4, rtol=1e-4)
    assert (lived - alone).abs().max() > 0.01


def test_given_steps_are_kept_and_the_rest_of_the_plan_is_drawn(agent: Agent) -> None:
    pytest.importorskip("ogbench")
    rules = rules_of("pointmaze", "medium")
    state = rules.initial(np.array([SEED]))
    output = answer(agent, ROUTE, Moment(0.0, row(rules.observe(state), 0), first=True))
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
    nowhere = answer(agent, ROUTE, Moment(0.0, {"maze": row(rules.observe(state), 0)["maze"]}, first=True))
    assert nowhere is None or nowhere.course({}) is None


def lived(
    agent: Agent, word: str, table: bool = False
) -> tuple[WorldRoom, list[np.ndarray], list[str], list[Mapping[str, Any]]]:
    """A life in the maze, or at a table, to which a word is said at first: where the body or the hand was, what it
    said, and who moved it."""
    if not table:
        pytest.importorskip("ogbench")
    world, seed, file, effector, head, sense = (
        (("tabletop", "three"), TABLE, "table", ARM, ARRANGE, "hand")
        if table
        else (("pointmaze", "medium"), SEED, "maze", WALK, ROUTE, "body")
    )
    clock = VirtualClock()
    room = WorldRoom(rules_of(*world), seed, now=clock.now, sleep=clock.sleep)
    nothing, plans = MemoryConfig(recalled=0, longest_s=None, novelty=2), read_plans(file)
    config = LiveConfig(memory=nothing, answers={effector: head})
    options = LiveOptions(FOLDER, {}, config=config, director=plans)
    life = Life(agent, room, Memory(open_store(None)), options)
    places, aloud, by = list[np.ndarray](), list[str](), list[Mapping[str, Any]]()
    with life, stepping_threads():
        room.say(word)
        for step in life.loop.ticks(60.0):
            assert step is not None
            places.append(np.asarray(step.moment.senses[sense]) * (1 if table else 10))
            by.append(step.output.answered[effector])
            aloud += [spoken_words(step.action.effectors["say"])] if "say" in step.action.effectors else []
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


def at_table(level: str = "three") -> tuple[Any, Any]:
    """A table, and where things and places are on it, [THINGS + PLACES, 2]."""
    state = rules_of("tabletop", level).initial(np.array([TABLE]))
    return state, np.concatenate((state.things[0], state.places[0]))


def seen_at(agent: Agent, state: Any) -> Any:
    """What the head that arranges reads of a table."""
    return answer(agent, ARRANGE, Moment(0.0, row(rules_of("tabletop", "three").observe(state), 0), first=True))


def test_things_and_places_are_held_and_the_rest_of_the_plan_is_drawn(agent: Agent) -> None:
    state, spots = at_table()
    names = [*(f"thing {n + 1}" for n in range(THINGS)), *(f"place {n + 1}" for n in range(PLACES))]
    output = seen_at(agent, state)
    own = output.course({})
    assert own.missed == ()
    assert len(own.words) == len(own.points) - 1 == KEY_POINTS
    np.testing.assert_allclose(own.points[0], [*state.hand[0], -1.0], atol=ATOL)
    for thing in range(3):
        free = [place for place in range(PLACES) if state.place_kinds[0, place] == state.kinds[0, thing]]
        for place in free:
            course = output.course({0: f"thing {thing + 1}", 1: f"place {place + 1}"})
            assert (course.words[:2], course.missed) == ((f"thing {thing + 1}", f"place {place + 1}"), ())
            at = [names.index(word) for word in course.words]
            assert sorted(at[::2]) == [0, 1, 2], "what was not given is told, and each thing is sorted once"
            # The path goes there, not only its words.
            np.testing.assert_allclose(course.points[1:, :2], spots[at], atol=0.1)
            assert (course.points[1:, 2] > 0).tolist() == [True, False] * 3
    assert output.course({0: "thing 4"}).missed == (0,), "there is no fourth thing"
    for given, wrong in (({0: "thing 5"}, "no symbol 'thing 5'; did you mean"), ({6: "thing 1"}, "number 7 cannot")):
        with pytest.raises(ConfigError, match=wrong):
            output.course(given)
    nothing = answer(agent, ARRANGE, Moment(0.0, {"things": output.things[0].numpy()}, first=True))
    assert nothing is not None
    assert nothing.course({}) is None


def test_a_course_at_a_table_is_followed_to_its_end_or_until_the_hand_closes_on_nothing(agent: Agent) -> None:
    rules, (state, spots) = rules_of("tabletop", "three"), at_table()
    asked = {0: "thing 2"}
    for gone in (False, True):
        course, at, reached = seen_at(agent, state).course(asked), 0.0, []
        now = state.copy()
        if gone:
            now.things[0, 1] = [0.9, 0.9] if np.abs(spots[1] - 0.9).max() > 0.5 else [-0.9, -0.9]
        for _ in range(180):
            before, (at, command) = at, seen_at(agent, now).along(course, at)
            assert at >= before
            now = rules.step(now, {ARM: command[None].astype(np.float64)})
            reached += [int(now.held[0])] if now.held[0] >= 0 and int(now.held[0]) not in reached else []
            if at >= len(course.points) - 1:
                break
        assert bool(now.sorted[0, :3].all()) != gone
        if gone:
            assert (at, reached) == (1.0, []), "it closed on nothing"
            assert at < len(course.points) - 1 - course.near
        else:
            assert (len(reached), reached[0]) == (3, 1)


@pytest.mark.slow
def test_a_plan_files_step_decides_in_a_life_which_thing_is_sorted_first(agent: Agent) -> None:
    state, spots = at_table()
    own = seen_at(agent, state).course({}).words[0]
    for thing in range(3):
        room, hand, aloud, by = lived(agent, f"thing {thing + 1}", table=True)
        assert (room.ended, room.rewarded, aloud) == (1, 1, [])
        held = np.stack(hand)[:, 3] > 0.5
        np.testing.assert_allclose(hand[int(held.argmax())][:2], spots[thing], atol=0.1)
        assert {"directed": 1} in by
    room, hand, aloud, by = lived(agent, "thing 4", table=True)
    assert aloud == ["i find no such plan"]
    assert {"directed": 1} not in by
    assert (room.ended, room.rewarded) == (1, 1)
    held = np.stack(hand)[:, 3] > 0.5
    np.testing.assert_allclose(hand[int(held.argmax())][:2], spots[int(own.split()[1]) - 1], atol=0.1)


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
