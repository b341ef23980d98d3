"""The measure `converse/asks`: asking exactly when nothing was taught is right; habits and rules stand beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from devmind.agent.agent import Agent
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds
from devmind.testing import tiny_agent, tiny_context
from stages.language import parts
from stages.language.caregiver.scene import HELD_OUT
from stages.language.converse import asking, exam
from stages.language.name.scenes import THINGS
from stages.language.new_words.exam import NewWordLives
from stages.language.parts import RECOGNISED


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return tiny_context(tmp_path / "run", "exam.episodes_scale=0.1")


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = tiny_agent()
    for sense in ("sight", "words"):
        agent.add_encoder(sense)
    parts.admit(agent)
    return agent.eval()


def test_in_every_second_life_the_asked_thing_was_not_taught(context: Context, agent: Agent) -> None:
    of, strange = asking.draw_lives(context, exam_seeds(6, 0, "test"), exam=True)
    assert {tuple(pair) for pair in of.scenes.meant.tolist()} <= set(HELD_OUT)
    assert strange.tolist() == [False, True] * 3
    recall = NewWordLives(agent, of, untaught=strange)._memories(np.arange(6))
    for row, memory in enumerate(recall.memories):
        known = memory.index.update().known
        assert len(known) == THINGS - strange[row]
        assert (of.asked[row] in known) == (not strange[row])


@pytest.mark.parametrize(("knows", "score"), [(1, 1.0), (-1, 0.0)])
def test_asking_exactly_about_untaught_things_is_right_and_the_reverse_is_wrong(
    context: Context, agent: Agent, monkeypatch: pytest.MonkeyPatch, knows: int, score: float
) -> None:
    real = NewWordLives.answered

    def answered(self, questions):
        answer = real(self, questions)
        doubt = np.where(self.untaught == (knows > 0), 0.9, 0.2)
        return answer._replace(doubt=doubt, nearest=self.of.asked.tolist())

    monkeypatch.setattr(NewWordLives, "answered", answered)
    with examination(agent):
        (measure,) = asking.examine(agent, context).in_full()
    assert (measure.score, measure.chance, measure.n) == (score, 0.5, 40)
    assert measure.rows["asked about things that were never named"] == float(knows > 0)
    assert measure.rows["asked about things that were named once"] == float(knows < 0)
    assert measure.rows["calibration error of its doubt"] == pytest.approx(0.15 if knows > 0 else 0.85)
    assert bool(measure.exhibits) == (knows < 0)


def test_an_agent_without_memory_always_asks_and_habits_are_right_in_half(context: Context, agent: Agent) -> None:
    with examination(agent):
        measures = {measure.name: measure for measure in exam.examine(agent, context).in_full()}
    measure = measures[asking.ASKS]
    assert measure.rows["asked with memory off"] == 1.0
    floors = dict(measure.floors)
    assert floors.pop("never asks") == floors.pop("always asks") == 0.5
    assert len(floors) == 3
    assert max(floors.values()) > 0.55, "rules that are told where things are"
    judged = {decision.measure: decision for decision in exam.GATE.judge(measures).decisions}
    assert judged[asking.ASKS].goal, "wanted, and held by no run yet"
    assert not judged[exam.CONVERSE].goal


def test_an_agent_without_the_heads_is_not_examined(context: Context) -> None:
    agent = tiny_agent()
    agent.add_encoder("sight")
    parts.admit(agent)
    agent.heads.pop(RECOGNISED)
    assert asking.examine(agent.eval(), context).in_full() == []


def test_the_threshold_is_the_best_one_and_an_untaught_thing_fits_nothing() -> None:
    scores, known = np.array([0.1, 0.2, 0.6, 0.3, 0.9, 0.8]), np.array([False, False, True, False, True, True])
    assert asking.threshold(scores, known) == 0.6
    fits = np.array([[3.0, 2.0, 1.0, 0.0], [3.0, 2.0, 1.0, 0.0]])
    best = asking._best_fit(fits, np.array([0, 0]), np.array([False, True]))
    assert best.tolist() == [3.0, 2.0]
