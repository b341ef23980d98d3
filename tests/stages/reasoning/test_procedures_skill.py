"""The skill procedures: known answers, shuffled answers, and what the lesson teaches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from devmind.agent.tracker import no_beliefs
from devmind.curriculum.examining import examination
from devmind.seeding import lesson_seeds
from devmind.testing import tiny_agent, tiny_context
from devmind.worlds.nursery import hiding
from devmind.worlds.nursery.state import COLOUR_NAMES
from stages.reasoning import parts
from stages.reasoning.procedures import errand, exam, lesson
from stages.reasoning.procedures.commitment import COMMITMENTS, Forced, live
from stages.reasoning.procedures.parser import read_library, shipped_library
from stages.reasoning.stage import SKILLS

(SKILL,) = (skill for skill in SKILLS if skill.name == "procedures")


def test_known_outcomes_reach_the_ceiling_and_shuffled_answers_fall_to_the_floors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, best = tiny_context(tmp_path, "exam.episodes_scale=0.12"), dict[tuple[int, float], str]()

    def knowing(agent: Any, seed: int, rate: float) -> float:
        values = {plan: live(seed, rate, Forced(plan))[0] for plan in COMMITMENTS}
        best[seed, rate] = max(values, key=values.__getitem__)
        return values[best[seed, rate]]

    monkeypatch.setattr(exam, "effectiveness", knowing)
    (found,) = exam._tileworld(None, context).alone()  # type: ignore[arg-type]
    assert found.score == pytest.approx(found.ceiling)
    shuffle = dict(zip(best, np.random.default_rng(0).permutation(list(best.values())), strict=True))
    monkeypatch.setattr(exam, "effectiveness", lambda agent, *one: live(*one, Forced(str(shuffle[one])))[0])
    (told,) = exam._tileworld(None, context).in_full()  # type: ignore[arg-type]
    assert told.interval()[0] <= max(told.floors.values()) + 0.02 * told.ceiling
    assert not exam.GATE.judge({exam.NAME: told}).passed


class Seeing:
    """Beliefs with perfect perception: the truth, as far as nothing covers it."""

    def __init__(self, rooms: errand.ErrandRooms, order: np.ndarray | None = None) -> None:
        self.rooms, self.things, self.order = rooms, no_beliefs(rooms.num_envs, 5), order

    def __call__(self, senses: Any, first: np.ndarray) -> tuple[list[str], Any]:
        truth, n = self.rooms.world.truth(), self.rooms.num_envs
        here = truth["visible"][:, :5] > 6
        self.things = replace(
            self.things, used=np.ones((n, 5), bool), hits=np.full((n, 5), 9), kind=truth["colour"][:, :5],
            in_sight=here,
            mean=np.where((here | first[:, None])[..., None], truth["position"][:, :5], self.things.mean),
        )  # fmt: skip
        return list(COLOUR_NAMES), self.things if self.order is None else self.things.take(self.order)


def rooms(tmp_path: Path, kind: str, n: int = 12) -> errand.ErrandRooms:
    seeds = lesson_seeds(8 * n, "errand", kind)
    return errand.ErrandRooms(tiny_context(tmp_path), kind, seeds[hiding.plan(seeds, kind).delay == 4][:n])


@pytest.mark.parametrize("kind", errand.KINDS)
def test_perfect_beliefs_do_the_errand_and_another_rooms_fail(kind: str, tmp_path: Path) -> None:
    here = rooms(tmp_path, kind)
    done = errand.run(here, errand.Procedural(Seeing(here), shipped_library("errand")))
    assert done.right.mean() >= 0.9, (done.found, done.asked)
    assert (done.needed == (kind != "unmoved")).all()
    shuffled = rooms(tmp_path, kind)
    n = shuffled.num_envs
    other = errand.run(
        shuffled, errand.Procedural(Seeing(shuffled, np.roll(np.arange(n), 1)), shipped_library("errand"))
    )
    assert other.right.mean() <= 0.5


def test_never_asking_and_always_asking_are_right_in_half_of_the_rooms(tmp_path: Path) -> None:
    library = shipped_library("errand")
    asks = read_library("plan e { for believed heard(T) when not busy do { believe busy achieve found(T) } }").joined(
        [type(library)([library["ask"]])]
    )
    for kind, right in (("unmoved", 0.0), ("moved", 1.0)):
        here = rooms(tmp_path, kind, 8)
        done = errand.run(here, errand.Procedural(Seeing(here), asks))
        assert done.asked.all()
        assert done.right.mean() == pytest.approx(right, abs=0.13)


def test_an_agent_without_a_tracker_believes_nothing_and_asks_in_vain(tmp_path: Path) -> None:
    agent, context = tiny_agent(), tiny_context(tmp_path)
    parts.admit(agent)
    seeds = rooms(tmp_path, "unmoved", 8).seeds
    done = errand.of_agent(agent, context, "unmoved", seeds)
    assert done.asked.all()
    assert not done.right.any()


def test_the_caregiver_answers_once_and_only_when_asked(tmp_path: Path) -> None:
    here = rooms(tmp_path, "moved", 8)
    names = np.array(COLOUR_NAMES)
    heard = []

    def asks(senses: Any, first: np.ndarray) -> dict[str, Any]:
        heard.append(list(senses["words"]))
        return {"look": np.zeros((8, 2)), "say": ["red" if row < 3 and here.tick == 13 else "" for row in range(8)]}

    errand.run(here, asks)
    truth = here.world.truth()
    covers = names[truth["colour"][np.arange(8), hiding.THINGS + truth["place"]]]
    assert heard[14] == [*covers[:3], "", "", "", "", ""]
    asked = [row for row in heard if any(row)]
    assert len(asked) == hiding.ASK_TICKS + 1, "the nursery's second question is not asked"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_lesson_teaches_bold_plans_where_little_changes(tmp_path: Path) -> None:
    context = tiny_context(tmp_path, "exam.episodes_scale=1.0", "lessons.procedures.batch=48")
    agent = tiny_agent()
    parts.admit(agent)
    made = lesson.lesson(context)
    learner = made.make_learner(agent, context)
    learner.steps = 60
    learner.begin(0)
    for update, batch in enumerate(made.make_batches(agent, context, learner.steps)):
        learner.update(batch, update)
    learner.end()
    with examination(agent.eval()):
        (found,) = exam._tileworld(agent, context).in_full()
    assert found.interval()[0] > max(found.floors[exam.BOLD], found.floors[exam.CAUTIOUS])
    worth = [exam.worths(agent, np.array([changes, 0.4, 0.5], np.float32)) for changes in (-3.0, -0.5)]
    assert worth[0][0] > worth[0][1]
    assert worth[1][0] < worth[1][1]


def test_the_gate_requires_more_than_either_commitment() -> None:
    assert SKILL.gate_in(SimpleNamespace()) is exam.GATE  # type: ignore[arg-type]
    assert {threshold.measure for threshold in exam.GATE.thresholds} == {"procedures", "procedures/errand"}
