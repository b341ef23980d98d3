"""The exam of sleep: which agent answers with which memory, what a night costs, and what a share of the gain is."""

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
from stages.memory.recall.lesson import THINGS
from stages.memory.sleep import exam


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
    """The exam of one who knows names by its store, and behind a night the share `asleep` of things without it."""
    patch.setattr(exam, "NIGHTS", {"tiny": 10})
    patch.setattr(exam, "remember", lambda agent, of: "a memory")
    patch.setattr(exam, "sleep", lambda *args, **more: SimpleNamespace(steps=0, asked=0))

    def questions(pupil: Agent, of: Any, memories: Any, views: int) -> np.ndarray:
        n = of.answer.size
        known = 1.0 if memories is not None else asleep if pupil is not agent else 0.0
        right = (np.arange(n) < round(known * n)).astype(float)
        return turn(np.tile(right, views))

    patch.setattr(exam, "questions", questions)
    patch.setattr(exam, "earlier_skills", lambda pupil, context, number: np.full(5, 1.0 if pupil is agent else 0.6))
    return {measure.name: measure for measure in exam.examine(agent, context, "full")}


def test_what_a_night_taught_is_asked_of_the_sleeper_without_its_store(
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


def test_what_a_night_costs_is_measured_against_the_agent_that_did_not_sleep(
    agent: Agent, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = examined(monkeypatch, agent, context, 1.0)
    assert found["sleep/earlier skills"].score == pytest.approx(-0.4)
    assert found["sleep/awake change"].score == 0
    with monkeypatch.context() as patch:
        forgetful = examined(patch, agent, context, 1.0)
    assert not exam.GATE.judge(forgetful).passed

    def questions(pupil: Agent, of: Any, memories: Any, views: int) -> np.ndarray:
        return np.full(of.answer.size * views, float(memories is not None and pupil is agent))

    monkeypatch.setattr(exam, "questions", questions)
    night = exam.night_of(agent, context, 10**6)
    assert night.change.mean() == -1.0
    assert night.after.mean() == 0.0


def test_shuffled_answers_keep_nothing_of_a_gain(
    agent: Agent, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is right as often without its store before and behind the night has kept nothing."""
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
