"""Instructions carried out by a plan: symbols, the controller in whole rooms, the carried state, and reading."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from devmind.acting import Actor, rollout
from devmind.agent.agent import Agent
from devmind.algorithms import grid
from devmind.algorithms.grid import (
    COLOURS,
    FLOOR,
    FORWARD,
    KINDS,
    LEFT,
    LOCKED,
    RIGHT,
    THINGS,
    UNSEEN,
    WALL,
    ahead,
    door,
    move_pose,
    thing,
    truth,
)
from devmind.cli import app
from devmind.curriculum.exam import Exam, Measure
from devmind.errors import ConfigError, WorldError
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.testing import tiny_agent, tiny_context
from devmind.worlds import minigrid
from devmind.worlds.minigrid import env_of, minigrid_installed, shared_room
from stages.planning import parts
from stages.planning.instruct import asking, exam, lesson, missions, symbols
from stages.planning.instruct.carrying import Carried
from stages.planning.instruct.carrying import carried_out as carried_out_once
from stages.planning.instruct.controller import Controller, Errand
from stages.planning.instruct.hand_rules import by_pattern
from stages.planning.instruct.head import DECLINED, InstructHead, Instruction, Reader
from stages.planning.instruct.rooms import Rooms
from stages.planning.instruct.symbols import ANY, DROP_NEXT_TO, GO_TO, OPEN, PICK_UP, Subgoal, as_numbers, from_numbers

pytestmark = pytest.mark.skipif(not minigrid_installed(), reason=minigrid.MISSING)

PUT_NEXT, IN_TURN = "BabyAI-PutNextLocal-v0", "BabyAI-GoToSeqS5R2-v0"
KEY, BALL, BOX = range(len(KINDS))


def head_of(agent: Agent) -> InstructHead:
    head: Any = agent.head(parts.INSTRUCT)
    return head


def instructed(agent: Agent, n: int = 1) -> Actor:
    return Actor(agent, n, effectors=[parts.CHOOSE], standing={parts.CHOOSE: (parts.INSTRUCT,)})


def carried_out(name: str, seeds: np.ndarray, plans: Any = None) -> np.ndarray:
    """Whether each room was done, float [N], by a controller with perfect perception."""
    rooms, controller = Rooms(name, seeds), Controller()
    plans = rooms.plans() if plans is None else plans
    errands, earned = [Errand(plan=plan) for plan in plans], np.zeros(len(seeds))

    def policy(senses: Any, first: np.ndarray) -> dict[str, np.ndarray]:
        readings = truth(senses[parts.BOARD])
        return {"choose": np.array([controller.act(one, at) for one, at in zip(errands, readings, strict=True)])}

    for tick in rollout(policy, rooms):
        earned += tick.reward
        if (tick.ended | np.array([errand.over for errand in errands])).all():
            break
    return (earned > 0).astype(float)


def test_actions_are_numbered_as_in_minigrid() -> None:
    walker = grid.PICKUP, grid.DROP, grid.TOGGLE, grid.DONE
    assert walker == (minigrid.PICKUP, minigrid.DROP, minigrid.TOGGLE, minigrid.DONE)
    from minigrid.core.constants import COLOR_TO_IDX

    assert tuple(COLOR_TO_IDX) == COLOURS


def test_plans_convert_to_numbers_and_words_and_back() -> None:
    plan = (Subgoal(PICK_UP, BALL, 0), Subgoal(DROP_NEXT_TO, BOX, 2), Subgoal(OPEN, symbols.DOORS, ANY))
    assert from_numbers(as_numbers(plan)) == plan
    assert symbols.in_words(plan) == "pick up the red ball, drop next to the blue box, open a door"
    full = (plan[0],) * symbols.LENGTH
    assert from_numbers(as_numbers(full)) == full
    with pytest.raises(WorldError, match="up to 8 subgoals; got 9"):
        as_numbers((*full, plan[0]))


def test_what_comes_after_is_done_before() -> None:
    found = {}
    for seed in range(200):
        world = shared_room(IN_TURN)
        world.reset(seed=seed)
        found[env_of(world).mission] = symbols.of_instruction(env_of(world).instrs)
    for said, plan in found.items():
        told = [f"go to {'a' if 'a ' in one[:2] else 'the'} {one.split(' ', 1)[1]}" for one in by_grammar(said)]
        mine = [str(goal).replace(" the ", " a ") for goal in plan]
        assert mine == [one.replace(" the ", " a ") for one in told], said
    assert any(" after you " in said for said in found)
    assert any(", then " in said for said in found)


def by_grammar(said: str) -> list[str]:
    """The things to go to, in order: a second way to read these missions."""
    parts_ = said.split(", then ") if ", then " in said else said.split(" after you ")[::-1]
    return [one.removeprefix("go to ") for part in parts_ for one in part.split(" and ")]


@pytest.mark.parametrize("name", [PUT_NEXT, IN_TURN, "BabyAI-UnlockLocal-v0", "BabyAI-OpenTwoDoors-v0"])
def test_the_right_plan_is_carried_out_in_partly_seen_rooms(name: str) -> None:
    assert carried_out(name, lesson_seeds(12, 0, "carried out", name)).mean() >= 11 / 12


def test_a_plan_of_another_room_fails() -> None:
    seeds = lesson_seeds(16, 0, "another")
    plans = Rooms(PUT_NEXT, seeds).plans()
    assert carried_out(PUT_NEXT, seeds, [*plans[1:], plans[0]]).mean() <= 0.25
    swapped = [(goal._replace(verb=GO_TO), other._replace(verb=GO_TO)) for goal, other in plans]
    assert carried_out(PUT_NEXT, seeds, swapped).mean() == 0.0


def test_an_impossible_errand_ends_and_is_reported() -> None:
    errand, controller = Errand(plan=(Subgoal(DROP_NEXT_TO, BOX, 0),)), Controller()
    rooms = Rooms(PUT_NEXT, lesson_seeds(1, 0, "cannot"))
    for _ in range(60):
        action = controller.act(errand, truth(rooms.observe()[parts.BOARD])[0])
        rooms.step({"choose": np.array([action])})
    # It has nothing to put down, so it looks at everything and gives up.
    assert errand.stuck
    assert errand.over
    assert action == minigrid.DONE


def test_a_far_thing_is_looked_for_and_then_known() -> None:
    """In six rooms the thing of a mission is behind doors: it is unknown at first, looked for, and reached."""
    looked = 0
    for seed in lesson_seeds(6, 0, "looked for"):
        rooms, controller = Rooms("BabyAI-GoToSeqS5R2-v0", np.array([seed])), Controller()
        errand, told = Errand(plan=rooms.plans()[0]), []
        while not errand.over and len(told) < 300:
            told.append((errand.at, errand.lacks is None, errand.belief))
            action = controller.act(errand, truth(rooms.observe()[parts.BOARD])[0])
            _, _, terminated, *_ = rooms.step({"choose": np.array([action])})
            if terminated[0]:
                break
        assert not errand.stuck
        # Once a thing is on the map, its errand does not lack it again.
        for at in range(len(errand.plan)):
            known = [known for number, known, _ in told if number == at]
            assert known == sorted(known)
        looked += sum("I would have to know first" in belief for *_, belief in told[1:])
    assert looked > 6


def gone_through(
    room: np.ndarray, errand: Errand, pose: tuple[int, int, int], carried: int = FLOOR
) -> tuple[tuple[int, int, int], int]:
    """Carry out an errand in a room of classes [H, W], which is changed; the last pose, and what is carried then."""
    controller = Controller()
    for _ in range(60):
        view = np.full((7, 7), UNSEEN)
        for row, column in np.ndindex(7, 7):
            forth, aside = 6 - row, column - 3
            down, along = [(aside, forth), (forth, -aside), (-aside, -forth), (-forth, aside)][pose[2]]
            at = pose[0] + down, pose[1] + along
            if 0 <= at[0] < room.shape[0] and 0 <= at[1] < room.shape[1]:
                view[row, column] = room[at]
        view[6, 3] = carried
        action = controller.act(errand, view)
        if errand.over:
            break
        front = ahead(pose)
        if action in (LEFT, RIGHT) or (action == FORWARD and room[front] == FLOOR):
            pose = move_pose(pose, action)
        elif action == minigrid.PICKUP and carried == FLOOR and room[front] >= THINGS:
            carried, room[front] = int(room[front]), FLOOR
        elif action == minigrid.DROP and carried != FLOOR and room[front] == FLOOR:
            carried, room[front] = FLOOR, carried
    return pose, carried


def test_obstacles_are_put_aside() -> None:
    """A corridor with a ball in it and the box behind; and rooms strewn with things, with locked doors."""
    room = np.full((9, 5), WALL)
    room[1:8, 2] = FLOOR
    room[6, 3] = FLOOR
    room[4, 2], room[1, 2] = thing("ball", 1), thing("box", 0)
    errand = Errand(plan=(Subgoal(GO_TO, BOX, 0),))
    pose, _ = gone_through(room, errand, (6, 2, 3))
    assert not errand.stuck
    assert room[ahead(pose)] == thing("box", 0)
    assert carried_out("BabyAI-SynthS5R2-v0", lesson_seeds(20, 0, "strewn")).mean() >= 0.7


def test_what_is_to_be_put_down_is_not_dropped_for_a_key() -> None:
    """A locked door and its key are in view, and the box beside which the ball belongs stands behind the agent."""
    room = np.full((5, 12), WALL)
    room[2, 1:11] = room[3, 5] = FLOOR
    room[1, 4], room[2, 6], room[2, 1] = door(0, LOCKED), thing("key", 0), thing("box", 2)
    errand = Errand(plan=(Subgoal(DROP_NEXT_TO, BOX, 2),))
    _, carried = gone_through(room, errand, (2, 4, 0), thing("ball", 1))
    assert not errand.stuck
    assert carried == FLOOR
    assert room[2, 2] == thing("ball", 1)


def test_an_instruction_with_a_place_has_no_symbols() -> None:
    from minigrid.envs.babyai.core.verifier import GoToInstr, ObjDesc

    with pytest.raises(WorldError, match="no symbols for where things are"):
        symbols.of_instruction(GoToInstr(ObjDesc("ball", "red", "left")))


def test_missions_of_lessons_use_babyais_words_and_hold_out_pairs() -> None:
    rng = numpy_rng("missions")
    found = list(missions.draw_missions(lesson_seeds(40, 0, "missions"), 300, rng))
    assert len(found) == 300
    assert {word for said, _ in found for word in said.replace(",", "").split()} <= missions.WORDS
    assert not any(missions.pair_held_out(plan) for _, plan in found)
    every = [((0, kind, colour), (0, other, shade)) for kind in range(3) for colour in range(6) for other in range(3)
             for shade in range(6)]  # fmt: skip
    pairs = [(Subgoal(PICK_UP, *one[1:]), Subgoal(DROP_NEXT_TO, *two[1:])) for one, two in every]
    assert 0.08 < np.mean([missions.pair_held_out(pair) for pair in pairs]) < 0.17


def test_a_fresh_thread_draws_the_same_missions() -> None:
    """The first reset of a room used to draw another mission than all later ones, so one lesson had two versions."""
    seeds = lesson_seeds(6, 0, "again")
    with ThreadPoolExecutor(1) as pool:  # its rooms were never reset
        first = pool.submit(lambda: list(missions.draw_missions(seeds, 48, numpy_rng("again")))).result()
    assert list(missions.draw_missions(seeds, 48, numpy_rng("again"))) == first


def test_made_up_words_differ_in_exams_and_stand_at_their_position() -> None:
    rng = numpy_rng("words")
    words = {exam: {missions.made_up(rng, exam) for _ in range(300)} for exam in (False, True)}
    assert not words[True] & words[False]
    assert not (words[True] | words[False]) & missions.WORDS
    said, at = missions.with_word("go to the ball, then open a door", "zorb", rng)
    assert said[at : at + 4] == "zorb"
    assert said.count("zorb") == 1


def test_a_page_is_read_the_same_alone_and_beside_a_longer_one() -> None:
    torch.manual_seed(0)
    reader = Reader(12, 4, 5, 16).eval()
    tokens, present = torch.randn(2, 31, 12), torch.ones(2, 31, dtype=torch.bool)
    present[0, 17:] = False
    with torch.no_grad():
        plan, unknown = reader(tokens, present)
        alone, odd = reader(tokens[:1, :17], present[:1, :17])
    torch.testing.assert_close(plan[:1], alone)
    torch.testing.assert_close(unknown[:1, :17], odd)


def test_the_head_checks_its_taps_and_reads_views_like_navigation(agent: Agent) -> None:
    from devmind.agent.heads import Inlet

    with pytest.raises(ConfigError, match="'trunk:text', 'text' and 'board'"):
        InstructHead(Inlet(16, 9))
    from devmind.curriculum.start import load_stage

    other = tiny_agent()
    load_stage("reasoning").admit(other)
    parts.admit(other)
    mine, theirs = head_of(other).read, other.head(parts.VIEW_CELLS).read
    for one, two in zip(mine.parameters(), theirs.parameters(), strict=True):  # type: ignore[union-attr,operator]
        torch.testing.assert_close(one, two)
    with pytest.raises(ConfigError, match="same map and width"):
        head_of(agent).start_from(agent.head(parts.TRADE))


class Knowing:
    """Replaces the head's reading: the plans of rooms, and views without an error."""

    def __init__(self, patch: pytest.MonkeyPatch, rooms: Rooms) -> None:
        self.plans, self.rooms = torch.from_numpy(np.stack([as_numbers(plan) for plan in rooms.plans()])), rooms
        patch.setattr(Instruction, "symbols", lambda output: self.plans[: len(output.seen)])
        patch.setattr(Instruction, "declined", property(lambda output: torch.zeros(len(output.seen), dtype=torch.bool)))
        patch.setattr(Instruction, "reading", lambda output: torch.from_numpy(truth(self.rooms.observe()[parts.BOARD])))


def test_a_carried_errand_continues_from_a_restored_state(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """An errand is cut in the middle and continued in a state of its own: the same actions, and both rooms done."""
    seeds = lesson_seeds(2, 0, "cut")

    def actions(cut: int | None) -> tuple[list[np.ndarray], np.ndarray]:
        rooms = Rooms(PUT_NEXT, seeds)
        Knowing(monkeypatch, rooms)
        actor, done, earned = instructed(agent, 2), [], np.zeros(2)
        for tick in rollout(actor, rooms, 60):
            done.append(tick.actions["choose"])
            earned += tick.reward
            if tick.tick == cut:
                kept, actor.state = actor.state.clone(), agent.new_state(2)
                actor.state.put([0, 1], kept)
            if tick.ended.all():
                break
        return done, earned

    whole, earned = actions(None)
    assert (earned > 0).all()
    assert len(whole) > 12
    again, _ = actions(8)
    np.testing.assert_array_equal(whole, again)


def test_rows_without_an_instruction_are_not_answered(agent: Agent) -> None:
    rooms = Rooms(PUT_NEXT, lesson_seeds(2, 0, "silent"), said=["go to the red ball", ""])
    actor = instructed(agent, 2)
    actor(rooms.observe(), np.ones(2, bool))
    output: Any = actor.output
    assert output.acted["choose"].tolist() == [True, False]
    told = output.outputs[parts.INSTRUCT]
    assert told.heard.tolist() == [True, False]
    assert told.over.tolist()[1]


@pytest.mark.parametrize("said", ["go to the zorb ball", "öööööö zorb ball"])
def test_an_unknown_word_is_named_and_its_instruction_declined(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """Regression: behind letters of several bytes, another word was named."""
    rooms = Rooms(PUT_NEXT, lesson_seeds(1, 0, "declined"), said=[said])
    actor = instructed(agent)
    reader, forward = head_of(agent).reader, head_of(agent).reader.forward

    def doubting(tokens: Any, present: Any) -> Any:
        plan, unknown = forward(tokens, present)
        unknown[:] = -5.0
        unknown[:, 1 + said.encode().index(b"orb")] = 5.0
        return plan, unknown

    monkeypatch.setattr(reader, "forward", doubting)
    assert actor(rooms.observe(), np.ones(1, bool))["choose"].tolist() == [minigrid.DONE]
    told: Any = actor.output.outputs[parts.INSTRUCT]  # type: ignore[union-attr]
    assert told.over.all()
    assert told.answer_to(said).startswith(f"unknown word 'zorb' in '{said}'")


def test_a_standing_page_is_read_once(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the page was read again at a later Moment, a word of every lesson was once taken for unknown."""
    senses, actor, declined = Rooms(PUT_NEXT, lesson_seeds(1, 0, "once")).observe(), instructed(agent), []
    reader, forward = head_of(agent).reader, head_of(agent).reader.forward

    def doubting(tokens: Any, present: Any) -> Any:
        plan, unknown = forward(tokens, present)
        return plan, torch.full_like(unknown, 9.0 if declined else -9.0)

    monkeypatch.setattr(reader, "forward", doubting)
    for page in ["go to the red ball"] * 3 + ["", "go to the red ball", "go to the red box"]:
        actor({**senses, "text": [page]}, np.array([not declined]))
        told: Any = actor.output.outputs[parts.INSTRUCT]  # type: ignore[union-attr]
        declined.append(bool(told.carry["numbers"][0, DECLINED]))
    assert declined == [False] * 5 + [True]


def test_the_command_plans_in_a_room_and_reports_what_it_cannot_do(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.save_pretrained(tmp_path)
    plan = as_numbers((Subgoal(PICK_UP, BALL, ANY),))

    def command(*words: str) -> tuple[int, str]:
        came = CliRunner().invoke(app, ["plan", "room", *words, "--agent", str(tmp_path)])
        return came.exit_code, " ".join((came.output + str(came.exception or "")).split())

    code, said = command("BabyAI-PutNextLokal-v0")
    assert code != 0
    assert "did you mean 'BabyAI-PutNextLocal-v0'" in said
    # The plan replaces an untaught agent's reading; the room, the map and the walk are real.
    monkeypatch.setattr(Instruction, "symbols", lambda output: torch.from_numpy(plan)[None])
    declined = torch.zeros(1, dtype=torch.bool)
    monkeypatch.setattr(Instruction, "declined", property(lambda output: declined))
    code, said = command(PUT_NEXT, "--goal", "pick up a ball", "--seed", "3")
    assert "told: pick up a ball I shall pick up a ball." in said
    assert re.search(r"I would have to know first where a ball is|I know of a ball\.", said)
    assert re.search(r"(done|stuck: .*), \d+ steps?", said)
    declined[:] = True
    code, said = command(PUT_NEXT, "--goal", "pick up a ball", "--seed", "3")
    assert code == 2
    assert "unknown word" in said
    assert "step" not in said


def test_an_errand_without_a_path_is_stuck_and_one_with_a_path_is_done(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def carried(plan: Any, seed: int = 3) -> Carried:
        rooms: list[Rooms] = []
        init = Rooms.__init__

        def made(self: Rooms, *args: Any) -> None:
            init(self, *args)
            rooms.append(self)

        with monkeypatch.context() as patch:
            patch.setattr(Rooms, "__init__", made)
            patch.setattr(Instruction, "symbols", lambda output: torch.from_numpy(as_numbers(plan))[None])
            patch.setattr(Instruction, "declined", property(lambda output: torch.zeros(1, dtype=torch.bool)))
            patch.setattr(
                Instruction, "reading", lambda output: torch.from_numpy(truth(rooms[0].observe()[parts.BOARD]))
            )
            return carried_out_once(agent, PUT_NEXT, seed, "an instruction")

    (plan,) = Rooms(PUT_NEXT, np.array([3])).plans()
    right = carried(plan)
    assert right.rewarded
    assert right.done
    there = {(KINDS.index(cell.type), COLOURS.index(cell.color)) for cell in things_of(PUT_NEXT, 3)}
    missing = next(one for one in np.ndindex(len(KINDS), len(COLOURS)) if one not in there)
    stuck = carried((Subgoal(GO_TO, *missing),))
    assert stuck.stuck
    assert not stuck.done
    # It looks for a thing that is not on its map, and reports that there is none once it has looked everywhere.
    kind = f"{COLOURS[missing[1]]} {KINDS[missing[0]]}"
    assert stuck.first == f"I would have to know first where a {kind} is: I look for one."
    assert stuck.last == f"there is no {kind}: I have looked wherever I can come to."
    found = carried((Subgoal(GO_TO, plan[0].noun, plan[0].colour),))
    assert found.done
    assert not found.rewarded
    assert found.last == "done, as far as I see."


def things_of(name: str, seed: int) -> list[Any]:
    world = shared_room(name)
    world.reset(seed=seed)
    return [cell for cell in env_of(world).grid.grid if cell is not None and cell.type in KINDS]


def test_the_hand_pattern_reads_missions_and_nothing_else() -> None:
    for said, plan in missions.draw_missions(lesson_seeds(20, 0, "pattern"), 150, numpy_rng("pattern")):
        assert by_pattern(said) == plan
    assert by_pattern("go to the zorb ball") == ()


def test_known_plans_pass_and_shuffled_plans_fall(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = tiny_context(tmp_path, "exam.episodes_scale=0.2")
    monkeypatch.setattr(
        asking, "examine", lambda agent, context: Exam([])
    )  # tests/stages/planning/test_asking_first.py

    def of(by: Any) -> dict[str, Measure]:
        monkeypatch.setattr(exam, "by_agent", lambda agent, without=(): by)
        return {measure.name: measure for measure in exam.examine(agent, context).alone()}

    best = of(lambda rooms: exam.Planned(rooms.plans()))
    assert all(measure.score > 0.95 for measure in best.values())
    assert exam.GATE.judge(best).passed
    shuffled = of(lambda rooms: exam.Planned([*rooms.plans()[1:], rooms.plans()[0]]))
    assert all(measure.score < 0.45 for measure in shuffled.values())
    assert not exam.GATE.judge(shuffled).passed


def of_an_untaught_agent(measures: Mapping[str, Measure]) -> None:
    """It fails, and its exam has floors and rows."""
    assert not exam.GATE.judge(measures).passed
    assert set(measures) == {*exam.LEVELS, asking.ASKS, asking.ANSWERED}
    for measure in (measures[name] for name in exam.LEVELS):
        assert {"random plan", "a pattern by hand", "an untaught agent"} <= set(measure.floors)
        assert measure.rows["the true plan"] > 0.85
        assert measure.rows["text off"] == 0.0
        assert measure.rows["board off"] == 0.0
        assert measure.floors["random plan"] < 0.6


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_few_missions_are_learned_and_made_up_words_declined(agent: Agent, tmp_path: Path) -> None:
    """At size tiny, on missions of rooms that no batch had."""
    context = tiny_context(tmp_path)
    learner = lesson.lesson(context).make_learner(agent, context)
    learner.steps = 160
    learner.begin(0)
    agent.train()
    for step in range(learner.steps):
        learner.update(lesson.make(agent, context, step, 48), step)
    agent.eval()
    with torch.no_grad():
        _, told = lesson.loss(agent, lesson.make(agent, context, 10**6, 200))
    assert told["plans right"] > 0.4
    assert told["declined rightly"] > 0.9
