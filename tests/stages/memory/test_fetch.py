"""Reaching for hidden things: what the exam hides, and that a life acts as in the exam."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from devmind.acting import Senses, rollout
from devmind.acting.in_life import why_not_in_life
from devmind.acting.rollout import Actions
from devmind.acting.standing import standing
from devmind.agent.agent import Agent
from devmind.curriculum.exam import Exam
from devmind.curriculum.examining import examine_skill, pick_skills
from devmind.live.loop import LiveLoop, Tick
from devmind.live.virtual import VirtualClock
from devmind.seeding import exam_seeds
from devmind.testing import tiny_agent, tiny_context
from devmind.worlds.nursery.fetching import ASKS_FROM, HORIZON, SCREEN
from devmind.worlds.rules import rules_of
from devmind.worlds.world_room import WorldRoom
from stages.memory.fetch import exam
from stages.memory.fetch.episodes import ARC, HEAD, NAME
from stages.memory.stage import MemoryStage
from stages.reflex.stage import ReflexStage
from tests.agent.conftest import shake


@pytest.fixture(scope="module")
def agent() -> Agent:
    torch.manual_seed(0)
    agent = tiny_agent()
    ReflexStage().admit(agent)
    MemoryStage().admit(agent)
    shake(agent)
    return agent.eval()


def test_the_truth_and_a_kept_picture_find_the_thing_and_a_look_at_the_screen_does_not(tmp_path):
    context, seeds = tiny_context(tmp_path), exam_seeds(60, "fetch", "test")
    assert exam.fetches_named(context, seeds, exam.ByTruth).mean() > 0.95
    assert exam.fetches_named(context, seeds, exam.Remembered).mean() > 0.85

    class Blind(exam.Remembered):
        def _ray(self, picture, word, tilt):
            return super()._ray(np.zeros_like(picture), word, tilt)

    assert not exam.fetches_named(context, seeds, Blind).any(), "where no colour fits, the hand rests"
    hasty = exam.fetches_named(context, seeds, lambda: lambda senses, first: {"reach": np.ones((len(first), 4))})
    assert hasty.mean() < 0.4

    class Second(exam.ByTruth):
        """Reaches for another thing first, and then for the named one."""

        def __call__(self, truth, first):
            others = truth["present"].copy()
            others[:, SCREEN], others[np.arange(len(first)), truth["target"]] = False, False
            wrong = dict(truth) | {"target": others.argmax(1)}
            return super().__call__(wrong if truth["tick"][0] < ASKS_FROM + 12 else truth, first)

    assert exam.fetches_named(context, seeds, Second).mean() < 0.2, "the first touch counts"


@torch.inference_mode()
def test_arc_and_trunk_answer_alone_and_hear_the_colour_only_after_the_delay(agent, tmp_path):
    context, seeds = tiny_context(tmp_path), exam_seeds(12, "fetch", "alone")
    for make, head in ((exam.by_arc, ARC), (exam.by_trunk, HEAD)):
        actor, said = make(agent), list[bool]()

        def noting(senses: Senses, first: np.ndarray, actor: Any = actor, said: list[bool] = said) -> Any:
            said.append(bool(exam.has_question(senses).any()))
            return actor(senses, first)

        exam.fetches_named(context, seeds, lambda policy=noting: policy)
        assert set(actor.counts["reach"]) == {head}
        assert said == [tick >= ASKS_FROM for tick in range(HORIZON)]


class Rests:
    """A hand that never moves."""

    counts: Mapping[str, Mapping[str, int]] = {}

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        return {}


class Told(exam.ByTruth):
    """A hand that is told where to go."""

    counts: Mapping[str, Mapping[str, int]] = {}


def results(monkeypatch: pytest.MonkeyPatch, agent: Agent, context: Any, knowing: str) -> dict[str, Any]:
    """The results of an exam in which one of the two knows the truth and the other rests."""
    for name in ("by_arc", "by_trunk"):
        who = Told() if name == knowing else Rests()
        monkeypatch.setattr(exam, name, lambda agent, who=who: who)
    stage = MemoryStage()
    found = examine_skill(stage, pick_skills(stage, NAME)[0], agent, context.glimpse(), Exam.alone)
    return {"skills": [found.result(100).model_dump()]}


def test_a_life_asks_the_trunk_first_only_where_the_trunk_passed_its_exam(agent, tmp_path, monkeypatch):
    context = tiny_context(tmp_path, "exam.episodes_scale=0.5")
    assert standing(agent)["reach"] == (ARC,)
    assert standing(agent, results(monkeypatch, agent, context, "by_trunk"))["reach"] == (HEAD, ARC)
    assert standing(agent, results(monkeypatch, agent, context, "by_arc"))["reach"] == (ARC,)


def test_a_life_in_its_world_acts_as_the_exam_does(agent, tmp_path, monkeypatch):
    """The room is the world of `devmind live --world nursery:fetch`, on a virtual clock."""
    context = tiny_context(tmp_path, "exam.episodes_scale=0.5")
    seed, clock = exam_seeds(1, 0, NAME), VirtualClock()
    wanted, lived = list[np.ndarray](), list[np.ndarray]()
    with torch.inference_mode():
        for tick in rollout(exam.by_trunk(agent), context.make_world("nursery", NAME, seed), HORIZON):
            wanted.append(tick.actions["reach"][0])
            if tick.ended[0]:
                break
    room = WorldRoom(rules_of("nursery", NAME), int(seed[0]), now=clock.now, sleep=clock.sleep)

    def watch(tick: Tick) -> None:
        lived.append(tick.action.effectors["reach"])
        assert tick.output.answered["reach"][HEAD] == 1

    passed = results(monkeypatch, agent, context, "by_trunk")
    LiveLoop(agent, room, effectors=["reach"], watchers={"test": watch}, results=passed).run(
        stop=lambda: room.ended > 0
    )
    assert len(wanted) > ASKS_FROM
    # The life's last tick already sees how the episode has ended.
    np.testing.assert_allclose(lived[:-1], wanted, atol=1e-5)
    assert np.ptp(lived, axis=0).max() > 0.01, "it does not always do the same"


def test_exam_rows_without_beliefs_are_not_asked_of_a_life(agent):
    assert why_not_in_life(exam.by_trunk(agent)) == why_not_in_life(exam.by_arc(agent)) == ""
    assert why_not_in_life(exam.by_trunk(agent, beliefs=False)), "a life keeps up beliefs"
