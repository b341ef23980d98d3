"""Procedures in a life: they act as in the exam, by the agent's own beliefs, and report what they do."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from devmind.acting import Actor, rollout
from devmind.acting.directing import Observation
from devmind.agent.agent import Agent
from devmind.agent.threads import stepping_threads
from devmind.algorithms.grid import FLOOR, SIDE, WALL
from devmind.config import LiveConfig, MemoryConfig
from devmind.live.checking import check_replay
from devmind.live.directing import Directing, place_named, said_by
from devmind.live.life import Life
from devmind.live.options import LiveOptions
from devmind.live.recording import Recording
from devmind.live.remembering.held_object import Square
from devmind.live.viewing.view import spoken_words
from devmind.live.virtual import VirtualClock, VirtualLife
from devmind.memory import Memory, Named, open_store
from devmind.moment import Moment
from devmind.raised import raised_agents
from devmind.seeding import lesson_seeds
from devmind.testing import BrokenLawError, check_director, tiny_context
from devmind.worlds.minigrid import LEFT, RIGHT
from devmind.worlds.nursery import hiding
from devmind.worlds.nursery.state import COLOUR_NAMES
from devmind.worlds.rules import rules_of
from devmind.worlds.world_room import WorldRoom
from stages.reasoning.navigate import exam
from stages.reasoning.navigate.cells import by_head
from stages.reasoning.navigate.rooms import mission_rooms
from stages.reasoning.parts import CELLS
from stages.reasoning.procedures import errand
from stages.reasoning.procedures.interpreter import AGAIN
from stages.reasoning.procedures.living import LivingProcedures, read_plans
from stages.reasoning.procedures.parser import read_library, shipped_library
from stages.reasoning.procedures.procedural import Procedural
from stages.reasoning.procedures.terms import PlanError
from stages.reasoning.procedures.walking import Walking

FOLDER = raised_agents()["after-reasoning"]
ERRAND = Path("errand")


@pytest.fixture(scope="module")
def agent() -> Agent:
    return Agent.from_pretrained(FOLDER)


def body(pan_deg: float, tilt_deg: float = 0.0) -> np.ndarray:
    felt = np.zeros(12, np.float32)
    felt[:3] = np.sin(np.deg2rad(pan_deg)), np.cos(np.deg2rad(pan_deg)), tilt_deg / 60
    return felt


def tick(number: int, pan_deg: float, words: str = "", **named: tuple[float, float]) -> Observation:
    senses: dict[str, Any] = {"body": body(pan_deg)} | ({"words": words} if words else {})
    return Observation(Moment(number / 10, senses, first=number == 0), ["red", "blue"], None, named)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plan a {\n  for achieve x\n  do { say(x, }\n}", r"mine\.plan, line 3, column 15: expected"),
        (
            "plan a {\n  for achieve x\n  do { shout(x) }\n}",
            r"line 3, column 8: expected an action of this world; got 'shout'",
        ),
        (
            "plan a {\n  for achieve x\n  do { achieve y }\n}",
            r"line 3, column 8: expected a plan for 'achieve y/0'; got none",
        ),
    ],
)
def test_an_error_in_a_plan_file_gives_its_place(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.plan").write_text(text, encoding="utf-8")
    with pytest.raises(PlanError, match=said):
        read_plans(tmp_path / "mine.plan")
    with pytest.raises(PlanError, match=r"There is no plan file '.*no\.plan'. .*: blocks, "):
        read_plans(tmp_path / "no.plan")


def test_procedures_keep_the_laws_of_a_director() -> None:
    check_director(lambda: read_plans(ERRAND))
    drifting = SimpleNamespace(fault="", doing=list, told=0)

    def direct(told: Observation) -> dict[str, np.ndarray]:
        drifting.told += 1
        return {"look": np.full(2, drifting.told / 10)}

    drifting.direct = direct
    with pytest.raises(BrokenLawError, match="begins a director anew"):
        check_director(lambda: drifting)


def test_a_named_thing_is_looked_for_where_it_was_shown_then_asked_for() -> None:
    """A cup, for which the tracker has no class: it is shown, put away, asked for and not found."""
    plans, pan, said_, looks = read_plans(ERRAND), 0.0, [], []
    assert plans.direct(tick(0, pan, cup=(-40.0, 0.0))) == {}, "the gaze is the agent's own while nothing is intended"
    for number in range(1, 14):
        orders = plans.direct(tick(number, pan, "where is the Cup?" if number == 2 else ""))
        looks.append("look" in orders)
        said_ += [spoken_words(orders["say"])] if "say" in orders else []
        pan += 25 * float(orders["look"][0]) if "look" in orders else 0.0
        if number == 4:
            assert pan == pytest.approx(-40, abs=0.1)
            assert plans.doing() == ["errand: found(cup) by where_it_was_seen"]
    assert said_ == ["cup"]
    assert not looks[0]
    assert all(looks[1:])
    assert plans.doing() == ["errand: found(cup) by ask"]
    pan += 25 * float(plans.direct(tick(14, pan, "behind the blue one", blue=(10.0, 0.0)))["look"][0])
    assert plans.doing() == []
    for number in range(15, 20):
        orders = plans.direct(tick(number, pan))
        pan += 25 * float(orders["look"][0]) if "look" in orders else 0.0
    assert pan == pytest.approx(10, abs=0.1)
    assert orders == {}, "what is done is done: the gaze is the agent's own again"
    plans.direct(tick(20, pan, "the cup"))
    assert plans.doing() == ["errand: found(cup) by where_it_was_seen"], "it may be asked again"
    plans.direct(tick(0, pan, "cup"))
    assert plans.doing() == ["errand: found(cup) by ask"], "an episode begins: it has seen nothing"


def test_a_gaze_at_its_limit_is_released() -> None:
    plans = LivingProcedures(read_library("plan far { for believed heard(X) do { look_at(170, 0) } }"))
    assert "look" in plans.direct(tick(0, 30.0, "red"))
    assert "look" in plans.direct(tick(1, 55.0))
    assert "look" in plans.direct(tick(2, 55.0)), "it was turned, and stands still"
    assert plans.direct(tick(3, 55.0)) == {}


def test_an_impossible_action_ends_the_procedures_and_not_the_life() -> None:
    plans = LivingProcedures(read_library("plan bad { for believed heard(X) do { look_at(X, 0) } }", "bad.plan"))
    assert plans.direct(tick(0, 0.0)) == {}
    assert plans.direct(tick(1, 0.0, "red")) == {}
    assert "bad.plan, line 1" in plans.fault
    assert plans.doing() == []
    assert plans.direct(tick(2, 0.0)) == {}
    plans.direct(tick(0, 0.0))
    assert plans.fault == "", "an episode begins"


def test_a_shown_thing_is_placed_at_its_direction_in_the_frame() -> None:
    frame, named = np.zeros((480, 640, 3), np.uint8), Named("cup", "cup", 0.9, {})
    assert place_named(named, Square(0.5, 0.5, 0.2), frame) == {"cup": (0.0, 0.0)}
    (left, up), *_ = place_named(named, Square(0.0, 0.0, 0.2), frame).values()
    assert (left, up) == pytest.approx((60.0, np.rad2deg(np.arctan(0.75 * np.tan(np.pi / 3)))))
    assert place_named(Named(None, "cup", 0.2, {}), Square(0.5, 0.5, 0.2), frame) == {}
    assert place_named(named, None, frame) == {}


def test_procedures_act_in_a_life_as_in_the_exam(agent: Agent, tmp_path: Path) -> None:
    """The same rooms twice: by the exam's own policy, and by live loops on a virtual clock, whose heads rest."""
    every = lesson_seeds(32, "errand", "life")
    seeds = every[hiding.plan(every, "moved").delay == hiding.DELAYS[0]][:2]
    context = tiny_context(tmp_path)
    done: dict[str, list[Any]] = {"exam": [], "life": []}

    def noting(where: str, policy: Any) -> Any:
        def act(senses: Any, first: np.ndarray) -> Any:
            actions = policy(senses, first)
            done[where].append((np.array(actions["look"]), list(actions["say"])))
            return actions

        return act

    def living(senses: Any, first: np.ndarray) -> dict[str, Any]:
        rows = [{name: value[i] for name, value in senses.items() if name != "words"} for i in range(len(first))]
        if first.all():
            still = Actor(agent, standing={})
            lives[:] = [VirtualLife(still, {**row, "words": ""}, rendered=False) for row in rows]
            for life in lives:
                directing = Directing(read_plans(ERRAND), lambda kind, data: None)
                life.loop.directed = lambda *told, it=directing: it.act(agent, *told, {})
        actions: dict[str, Any] = {"look": np.zeros((len(rows), 2), np.float32), "say": [""] * len(rows)}
        for i, (life, row) in enumerate(zip(lives, rows, strict=True)):
            heard = {"words": senses["words"][i]} if senses["words"][i] else {}
            effectors = life.tick(row | heard, bool(first[i])).action.effectors
            actions["look"][i] = effectors.get("look", 0.0)
            actions["say"][i] = spoken_words(effectors["say"]) if "say" in effectors else ""
        return actions

    lives: list[VirtualLife] = []
    policy = Procedural(errand.beliefs_of(agent, len(seeds)), shipped_library("errand"))
    with stepping_threads():
        for where, acts in (("exam", policy), ("life", living)):
            rooms = errand.ErrandRooms(context, "moved", seeds)
            for _ in rollout(noting(where, acts), rooms, rooms.ticks):
                pass
    assert [words for _, words in done["life"]] == [words for _, words in done["exam"]]
    assert any(any(words) for _, words in done["life"]), "it was asked for"
    for (lived, _), (examined, _) in zip(done["life"], done["exam"], strict=True):
        assert lived == pytest.approx(examined, abs=2e-3)  # the remainder of a turn below a threshold is omitted


def test_in_a_simulated_world_the_agent_looks_at_the_last_place_and_then_asks(agent: Agent, tmp_path: Path) -> None:
    seed = 9
    plan, clock = hiding.plan(np.array([seed]), "moved"), VirtualClock()
    rules = rules_of("nursery", "hide/moved")
    room = WorldRoom(rules, seed, now=clock.now, sleep=clock.sleep)
    recording = Recording(tmp_path / "s.mcap", {}, LiveConfig())
    plans, lived = read_plans(ERRAND), []
    nothing = MemoryConfig(recalled=0, longest_s=None, novelty=2)
    memory = Memory(open_store(None))
    aloud = list[str]()
    speaker = SimpleNamespace(say=aloud.append)
    options = LiveOptions(FOLDER, {}, record=recording.path, config=LiveConfig(memory=nothing), director=plans)
    life = Life(agent, room, memory, options, recording=recording, speaker=speaker)
    with life, stepping_threads():
        for step in life.loop.ticks(2.7):
            assert step is not None
            word = spoken_words(step.action.effectors["say"]) if "say" in step.action.effectors else ""
            lived.append((word, step.output.answered.get("look", {}), plans.doing(), room.fovea.pan_deg))
            truth = rules.truth(room._state)
            if word:
                cover = truth["colour"][0, hiding.THINGS + truth["place"][0]]
                room.say(f"it is behind the {COLOUR_NAMES[cover]} one")
    asked = int(plan.ask[0])
    wanted = COLOUR_NAMES[truth["colour"][0, plan.target[0]]]
    assert all(doing == [] and "directed" not in by for _, by, doing, _ in lived[:asked])
    assert lived[asked][1:3] == ({"directed": 1}, [f"errand: found({wanted}) by where_it_was_seen"])
    places = hiding.place_directions_deg(np.array([seed]))[0, :, 0]
    assert np.abs(places - lived[asked + 3][3]).argmin() == plan.last_seen[0], "it looks where it saw it last"
    said_ = [(number, word) for number, (word, *_) in enumerate(lived) if word]
    assert [word for _, word in said_] == aloud == [wanted]
    assert said_[0][0] > asked + 5, "not before it has looked"
    assert np.abs(places - lived[said_[0][0] + 4][3]).argmin() == truth["place"][0], "it looks where it was told to"
    check = check_replay([tmp_path / "s.mcap"], {agent.sha256(): agent})
    assert (check.passed, check.checked) == (True, len(lived)), check
    assert 0 < check.directed < len(lived)


def page(number: int, text: str, cells: np.ndarray | None) -> Observation:
    """A tick with a standing instruction, in which the agent reads these cells."""
    said_ = None if cells is None else SimpleNamespace(mode=lambda: torch.from_numpy(cells.reshape(1, -1)))
    return Observation(Moment(number / 10, {"text": text}, first=number == 0), read=lambda head: said_)


def test_unreachable_goals_and_unknown_instructions_are_reported() -> None:
    walls = np.full((SIDE, SIDE), WALL)
    walls[-1, SIDE // 2] = FLOOR  # nothing is carried
    plans = read_plans(Path("way"))
    orders = [plans.direct(page(number, "reach the goal", walls)) for number in range(8)]
    walked = [int(one["choose"]) for one in orders if "choose" in one]
    assert walked
    assert set(walked) <= {LEFT, RIGHT}, "it looks around, and walks into no wall"
    assert [spoken_words(one["say"]) for one in orders if "say" in one] == ["i know no way"]
    assert orders[len(walked)].keys() == {"say"}
    assert orders[-1] == {}
    assert plans.doing() == []
    orders = [plans.direct(page(number, "dance", walls)) for number in range(3)]
    assert [sorted(one) for one in orders] == [["say"], [], []]
    plans.direct(page(0, "reach the goal", walls))
    assert plans.doing() == ["do_as_told"], "an episode begins, with another instruction"


def test_a_walk_interrupted_by_another_controller_starts_with_an_empty_map() -> None:
    floor = np.full((SIDE, SIDE), FLOOR)
    walking = Walking(lambda: floor)
    for _ in range(3):
        walking.begin_tick()
        assert walking.find_way("reach the goal") is AGAIN
        assert walking.find_way("reach the goal") is AGAIN, "one step a tick"
    assert walking._navigator is not None
    kept = walking._navigator.rows[0].map
    walking.begin_tick()
    walking.begin_tick()
    walking.find_way("reach the goal")
    assert walking._navigator.rows[0].map is not kept


def test_a_missing_board_is_reported() -> None:
    plans = read_plans(Path("way"))
    assert plans.direct(page(0, "reach the goal", None)) == {}
    assert "way.plan, line 5, column 10: expected 'find_way(" in plans.fault
    assert "no board is seen" in plans.fault


def answer(agent: Agent, head: str, moment: Moment) -> Any:
    """What a head answers in the first tick of a life."""
    state = agent.new_state()
    percepts = agent.encode(state, moment)
    agent.step(state, percepts, effectors=())
    return said_by(agent, percepts, head)


def test_a_heads_answer_about_a_moment_equals_the_exams(agent: Agent) -> None:
    board = np.zeros((13, 7, 7), np.int8)
    board[1] = 1
    output = answer(agent, CELLS, Moment(0.0, {"board": board, "text": "reach the goal"}, first=True))
    assert output is not None
    assert (output.mode().numpy().reshape(1, 7, 7) == by_head(agent, CELLS)({"board": board[None]})).all()
    assert answer(agent, CELLS, Moment(0.0, {"text": "reach the goal"}, first=True)) is None, "there is no board"
    assert answer(agent, "no_such_head", Moment(0.0, {"board": board}, first=True)) is None


@pytest.mark.parametrize("kind", ["MiniGrid-FourRooms-v0", "MiniGrid-KeyCorridorS3R1-v0"])
def test_the_navigator_walks_in_a_life_as_in_the_exam(kind: str, agent: Agent, tmp_path: Path) -> None:
    pytest.importorskip("minigrid")
    seed, walked = 9, list[int]()
    navigator = exam.navigator(agent)

    def noting(senses: Any, first: np.ndarray) -> Any:
        done = navigator(senses, first)
        walked.append(int(done["choose"][0]))
        return done

    with stepping_threads():
        for tick in rollout(noting, mission_rooms((kind,), np.array([seed]))):
            if tick.ended.all():
                break
    clock, lived = VirtualClock(), list[int]()
    room = WorldRoom(rules_of("minigrid", kind), seed, now=clock.now, sleep=clock.sleep)
    nothing = MemoryConfig(recalled=0, longest_s=None, novelty=2)
    plans = read_plans(Path("way"))
    options = LiveOptions(FOLDER, {}, config=LiveConfig(memory=nothing), director=plans)
    life = Life(agent, room, Memory(open_store(None)), options)
    with life, stepping_threads():
        for step in life.loop.ticks(20.0):
            assert step is not None
            if room.ended:
                break
            assert plans.doing() == ["do_as_told"]
            lived.append(int(step.action.effectors["choose"]))
            assert step.output.answered["choose"] == {"directed": 1}
    assert lived == walked
    assert (room.ended, room.rewarded) == (1, 1)
