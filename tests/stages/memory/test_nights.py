"""The exam of sleep: which agent answers with which memory, what a night costs, and the retained share of a gain."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from devmind.agent.agent import Agent
from devmind.curriculum.exam import Measure
from devmind.curriculum.stage import Context
from devmind.testing import tiny_agent, tiny_context
from stages.memory import parts
from stages.memory.fetch import episodes as fetch
from stages.memory.recall.lesson import THINGS
from stages.memory.recall.things import NAMES, lives
from stages.memory.sleep import exam
from stages.reflex import parts as reflex
from stages.reflex import together


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = tiny_agent()
    for sense in ("sight", "sound", "words"):
        agent.add_encoder(sense)
    parts.admit(agent)
    return agent.eval()


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return tiny_context(tmp_path)


def examined(
    patch: pytest.MonkeyPatch, agent: Agent, context: Context, asleep: float, turn: Any = lambda right: right
) -> dict[str, Measure]:
    """The exam of an agent that names things by its store and, after a night, a share `asleep` of them without it."""
    patch.setattr(exam, "NIGHTS", {"tiny": 10})
    patch.setattr(exam, "remember", lambda agent, of: ["a memory"] * len(of.seed))
    patch.setattr(exam, "reopen_memory", lambda memory: memory)
    patch.setattr(exam, "looks_by_view", lambda of, views: [()] * views)
    patch.setattr(exam, "sleep", lambda *args, **more: SimpleNamespace(steps=0, asked=0))

    def questions(pupil: Agent, of: Any, asked: Any, memories: Any = None) -> np.ndarray:
        n = of.answer.size
        known = 1.0 if memories is not None else asleep if pupil is not agent else 0.0
        right = (np.arange(n) < round(known * n)).astype(float)
        return turn(np.tile(right, len(asked)))

    patch.setattr(exam, "questions", questions)
    patch.setattr(exam, "earlier_skills", lambda pupil, context, number: np.full(5, 1.0 if pupil is agent else 0.6))
    return {measure.name: measure for measure in exam.examine(agent, context).in_full()}


def test_the_sleeper_answers_without_its_store_what_the_night_taught(
    agent: Agent, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    for asleep in (0.0, 0.5, 1.0):
        sleep = examined(monkeypatch, agent, context, asleep)["sleep"]
        assert sleep.score == pytest.approx(asleep)
        assert sleep.rows == pytest.approx(
            {"store on, before sleep": 1.0, "store off, no sleep": 0.0, "store off": asleep}
        )
        assert (sleep.n, sleep.distinct) == (10 * THINGS, 10 * THINGS)
    assert sleep.interval()[0] > 0.9


def test_the_cost_of_a_night_is_measured_against_the_agent_that_did_not_sleep(
    agent: Agent, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = examined(monkeypatch, agent, context, 1.0)
    assert found["sleep/earlier skills"].score == pytest.approx(-0.4)
    assert found["sleep/awake change"].score == 0
    with monkeypatch.context() as patch:
        forgetful = examined(patch, agent, context, 1.0)
    assert not exam.GATE.judge(forgetful).passed

    def questions(pupil: Agent, of: Any, asked: Any, memories: Any = None) -> np.ndarray:
        return np.full(of.answer.size * len(asked), float(memories is not None and pupil is agent))

    monkeypatch.setattr(exam, "questions", questions)
    night = exam.night_of(exam.Sleeper(agent), context, 10**6)
    assert night.change.mean() == -1.0
    assert night.after.mean() == 0.0


def test_shuffled_answers_keep_nothing_of_a_gain(
    agent: Agent, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that is right equally often without its store before and after the night has kept nothing."""
    rng = np.random.default_rng(0)

    def shuffled(right: np.ndarray) -> np.ndarray:
        return rng.permutation(right * 0 + (rng.random(len(right)) < 1 / 8))

    found = examined(monkeypatch, agent, context, 1.0, shuffled)
    assert not exam.GATE.judge(found).passed


def test_the_share_of_a_gain_has_the_error_of_the_gain() -> None:
    rng = np.random.default_rng(3)
    awake, before = rng.choice([0.6, 1.0], 120), rng.choice([0.0, 0.4], 120)
    after = np.clip(awake - rng.choice([0.0, 0.2], 120), 0, 1)
    values = exam.shares(awake, before, after)
    share = (after.mean() - before.mean()) / (awake.mean() - before.mean())
    assert values.mean() == pytest.approx(share)
    drawn = rng.integers(0, 120, (4000, 120))
    a, b, c = (x[drawn].mean(1) for x in (awake, before, after))
    assert values.std() / np.sqrt(120) == pytest.approx(((c - b) / (a - b)).std(), rel=0.06)
    np.testing.assert_allclose(exam.shares(awake, before, awake), 1.0)


@pytest.mark.slow
def test_a_second_night_equals_a_night_alone_and_rehearsals_are_played_once(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = tiny_agent()
    for stage in (reflex, parts):
        stage.admit(agent)
    agent.config.stages = ["reflex", "memory"]
    played = list[str]()
    for module, name in ((fetch, "_live_episode"), (together, "moved_rows")):
        plain = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, name=name, plain=plain: played.append(name) or plain(*given))
    memory, other = (exam.remember(agent, lives(np.array([seed]), THINGS))[0] for seed in (1, 2))
    sleeper = exam.Sleeper(agent.eval())
    sleeper.sleep(other, context)
    once, born = len(played), agent.sha256()
    assert set(played) == {"_live_episode", "moved_rows"}
    second, slept = sleeper.sleep(memory, context)
    assert len(played) == once
    alone, slept_alone = exam.Sleeper(agent).sleep(memory, context)
    assert second.sha256() == alone.sha256() != born == agent.sha256()
    assert (slept.asked, slept.before, slept.after) == (slept_alone.asked, slept_alone.before, slept_alone.after)


def test_a_life_is_remembered_and_asked_among_others_as_alone(agent: Agent) -> None:
    three, alone = (lives(np.array(seeds), THINGS) for seeds in ([3, 4, 5], [4]))
    asked, asked_alone = exam.looks_by_view(three, 2), exam.looks_by_view(alone, 2)
    mine = slice(THINGS, 2 * THINGS)
    for one, many in zip(asked_alone, asked, strict=True):
        for moment, same in zip(one, many[mine], strict=True):
            assert all((moment.senses[name] == same.senses[name]).all() for name in exam.MET_BY)
    memories = exam.remember(agent, three)
    of_one, among = ([*m.get(m.store.facts().ids.tolist())] for m in (*exam.remember(agent, alone), memories[1]))
    assert [entry.senses["words"] for entry in of_one] == [NAMES[name] for name in alone.answer[0]]
    for entry, same in zip(of_one, among, strict=True):
        assert entry.senses["words"] == same.senses["words"]
        for sense, key in entry.keys.items():
            np.testing.assert_allclose(key.vector, same.keys[sense].vector, atol=1e-5)
    answered = exam.questions(agent, three, asked, memories).reshape(2, -1)[:, mine]
    np.testing.assert_array_equal(answered.reshape(-1), exam.questions(agent, alone, asked_alone, [memories[1]]))
    assert exam.reopen_memory(memories[1]).now_s == exam.ASKED_AFTER_S
