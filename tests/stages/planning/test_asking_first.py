"""The exam of asking: its cases, its answers, and how questions are judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devmind.agent.agent import Agent
from devmind.agent.plans import Lack
from devmind.algorithms.grid import COLOURS, thing, truth
from devmind.curriculum.exam import Exam, Measure
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.testing import tiny_context
from devmind.worlds import minigrid
from devmind.worlds.minigrid import env_of, minigrid_installed, planes, shared_room
from stages.planning import parts
from stages.planning.instruct import asking, exam, missions
from stages.planning.instruct.asking import (
    CASES,
    FAR,
    FAR_CELLS,
    IN_ROOM,
    IN_VIEW,
    LEVEL,
    OF_CASE,
    OPEN,
    WORD,
    AnsweringRooms,
    ByHand,
    Case,
    CaseResult,
    carry_out,
    cases,
)

pytestmark = pytest.mark.skipif(not minigrid_installed(), reason=minigrid.MISSING)


@pytest.fixture(scope="module")
def given() -> list[Case]:
    return cases(lesson_seeds(40 * OF_CASE, 0, "asking"), numpy_rng("asking"))


def seen_and_places(case: Case) -> tuple[set[int], list[tuple[int, int]], Any]:
    """The view at the start of a case, the places of its things, and the environment."""
    world = shared_room(LEVEL)
    world.reset(seed=case.seed)
    env = env_of(world)
    at = [(n % env.width, n // env.width) for n, cell in enumerate(env.grid.grid)
          if cell is not None and (cell.type, cell.color) == case.goal]  # fmt: skip
    return set(truth(planes(env.gen_obs()["image"])).ravel().tolist()), at, env


def test_cases_are_as_named(given: list[Case]) -> None:
    assert [sum(one.case == case for one in given) for case in CASES] == [10, 10, 12, 8]
    assert len({one.episode for one in given}) == len(given)
    for one in given:
        seen, at, env = seen_and_places(one)
        in_view = thing(one.goal[0], COLOURS.index(one.goal[1])) in seen
        assert in_view == (one.case in (IN_VIEW, WORD)), one
        if one.case == IN_ROOM:
            assert any(env.room_from_pos(*env.agent_pos).pos_inside(*place) for place in at)
        if one.case == FAR:
            assert min(abs(x - env.agent_pos[0]) + abs(y - env.agent_pos[1]) for x, y in at) >= FAR_CELLS
        unknown = [word for word in one.said.split(" ") if word not in missions.WORDS]
        assert unknown == ([one.word] if one.case == WORD else [])
        assert (one.question == "") == (one.case not in OPEN)


def test_only_the_needed_question_counts_as_right() -> None:
    far = Case(0, FAR, ("ball", "red"), "go to the red ball", "", "", 0)
    word = Case(0, WORD, ("ball", "red"), "go to the zorb ball", "zorb", "red", 0)
    closed = Case(0, IN_VIEW, ("ball", "red"), "go to the red ball", "", "", 0)
    where, door = "Where is a red ball? I look for one.", "Where is a blue door? I look for one."
    assert far.has_to([where, door, where])
    assert not far.has_to([door])
    assert not far.has_to([where, "What is 'red'?"])
    assert not far.has_to(["Where is a red box? I look for one."])
    assert word.has_to(["What is 'zorb'?"])
    assert not word.has_to(["What is 'zorb'?", where])
    assert not word.has_to(["What is 'ball'?"])
    assert closed.has_to([])
    assert not closed.has_to([where])
    assert CaseResult((), True).is_right(closed)
    assert not CaseResult((), True).is_right(far), "who never asks has not asked"
    assert CaseResult((where, "What is 'red'?"), False).is_right(far), "the first question says whether it asks rightly"


def test_the_rooms_answer_what_a_word_means_and_which_door_comes_first(given: list[Case]) -> None:
    some = [next(one for one in given if one.case == case) for case in OPEN]
    rooms = AnsweringRooms(some)
    for row, one in enumerate(some):
        rooms.answer(row, Lack(one.question, lambda answer: f"heard: {answer}"))
    stay = {parts.CHOOSE: np.full(len(some), minigrid.DONE)}
    said = rooms.step(stay)[0]["text"]
    assert said[0] == f"heard: {some[0].meant}"
    first = said[1].removeprefix("heard: open the ").removesuffix(" door")
    env = env_of(rooms.worlds[1])
    here = env.room_from_pos(*env.agent_pos)
    assert first in {door.color for door in here.doors if door}, "it is a door of the room in which one stands"
    assert rooms.step(stay)[0]["text"] == ["", ""], "it is said once"
    rooms.answer(0, Lack("What is 'go'?", lambda answer: answer))
    assert rooms.step(stay)[0]["text"] == ["", ""], "nobody knows what to say to that"
    rooms.close()


def by(monkeypatch: pytest.MonkeyPatch, player: Any) -> None:
    monkeypatch.setattr(asking, "by_agent", lambda agent: player)


def measured(agent: Agent, context: Any, of: Any = Exam.alone) -> dict[str, Measure]:
    return {measure.name: measure for measure in of(asking.examine(agent, context))}


class Swapped(ByHand):
    """Hears its neighbour's instructions."""

    def __call__(self, senses: Any, first: np.ndarray) -> Any:
        said = senses["text"]
        return super().__call__({**senses, "text": [*said[1:], said[0]]}, first)


def test_perfect_perception_reaches_the_goals_and_swapped_instructions_do_not(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = tiny_context(tmp_path, "exam.episodes_scale=0.2")
    by(monkeypatch, ByHand)
    best = measured(agent, context)
    assert best[asking.ASKS].score > 0.95
    assert best[asking.ANSWERED].score > 0.85
    assert exam.GATE.judge(best).passed
    by(monkeypatch, Swapped)
    swapped = measured(agent, context)
    assert swapped[asking.ASKS].score <= 0.5
    assert swapped[asking.ANSWERED].score <= 0.25


def test_wrong_or_missing_answers_leave_the_task_undone(given: list[Case]) -> None:
    words = [one for one in given if one.case == WORD]
    assert all(one.done for one in carry_out(words, ByHand))
    assert not any(one.done for one in carry_out(words, ByHand, answers=False))
    wrong = [Case(one.seed, one.case, one.goal, one.said, one.word, "grey", one.episode) for one in words]
    wrong = [one for one in wrong if one.goal[1] != "grey"]
    assert np.mean([one.done for one in carry_out(wrong, ByHand)]) <= 0.25


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_an_untaught_agent_is_at_the_floors(agent: Agent, tmp_path: Path) -> None:
    context = tiny_context(tmp_path, "exam.episodes_scale=0.2")
    found = measured(agent, context, Exam.in_full)
    assert found[asking.ASKS].score <= 0.6
    assert found[asking.ANSWERED].score <= 0.1
    floors = found[asking.ASKS].floors
    assert floors["never asks"] == 0.5
    assert floors["always asks where the thing is"] == pytest.approx(0.2)
    assert floors["a rule by hand, with perfect perception"] > 0.9
    assert found[asking.ANSWERED].floors["an untaught agent"] <= 0.1
    assert set(CASES) <= set(found[asking.ASKS].rows)
