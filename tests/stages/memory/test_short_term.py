"""The tests of short-term memory: lessons, loss, exams and floors."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.config import load
from devmind.curriculum.stage import Context
from devmind.learners.gradient import trainable
from devmind.testing import tiny_agent
from devmind.worlds import minigrid
from devmind.worlds.memory_len import LENGTHS
from stages.memory import lessons, parts, short_term
from stages.memory.maze import exam as maze
from stages.memory.maze import lesson as maze_lesson
from stages.memory.memory_len import exam as memory_len
from stages.memory.repeat_previous import exam as repeat_previous
from stages.memory.sleep import exam as sleep
from stages.reflex import parts as reflex


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(load("tiny", sets=["exam.episodes_scale=0.02"]), 0, "cpu", tmp_path, worlds.make)


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = tiny_agent()
    reflex.admit(agent)
    parts.admit(agent)
    return agent.eval()


class Rememberer:
    """Remembers by hand: the sign of the first Moment, or the last cards."""

    def __init__(self, test: str) -> None:
        self.test, self.seen = test, []

    def __call__(self, senses, first):
        signal = senses["signal"]
        self.seen = [] if first.all() else self.seen
        self.seen.append(signal)
        if self.test == "cards":
            return self.seen[max(0, len(self.seen) - 4)].argmax(1)
        sign = self.seen[0][:, -1] > 0
        if self.test == "sign":
            return sign.astype(np.int64)
        return np.where(signal[:, 0] > 0, np.where(sign, 1, 3), 0)


def test_a_player_with_memory_wins_and_one_without_has_half(context):
    assert memory_len.right_answers(context, 20, 40, short_term.choosing(Rememberer("sign"))).mean() == 1
    assert maze.arrivals(context, maze.T_MAZE, 40, short_term.choosing(Rememberer("maze"))).mean() == 1
    np.testing.assert_allclose(
        repeat_previous.returns_of_decks(context, 8, short_term.choosing(Rememberer("cards"))), 1.0, atol=1e-5
    )
    always = memory_len.right_answers(context, 20, 40, short_term.always(1)).mean()
    assert 0.2 < always < 0.8


def test_an_agent_plays_more_side_by_side_and_a_rule_draws_as_before(context, agent, monkeypatch):
    monkeypatch.setattr(short_term, "TOGETHER", 3)
    monkeypatch.setattr(short_term, "AGENTS_TOGETHER", 6)
    sizes, make = [], context.make_world

    def counted(name, level, seeds):
        sizes.append(len(seeds))
        return make(name, level, seeds)

    object.__setattr__(context, "make_world", counted)
    memory_len.right_answers(context, 3, 8, short_term.at_random(2, 0))
    assert sizes == [3, 3, 2], "a rule that draws at random has another score in other groups"
    child = memory_len.right_answers(context, 3, 8, short_term.agent_policy(agent))
    assert sizes[3:] == [6, 2]
    monkeypatch.setattr(short_term, "AGENTS_TOGETHER", 3)
    np.testing.assert_array_equal(memory_len.right_answers(context, 3, 8, short_term.agent_policy(agent)), child)


def test_short_term_memory_off_forgets_within_a_moment(context):
    torch.manual_seed(0)
    agent = Agent(AgentConfig(size="tiny", seed=3))
    reflex.admit(agent)
    parts.admit(agent)
    with torch.no_grad():  # a trunk that attends, so that the sign can reach later Moments
        for name, weight in agent.named_parameters():
            if name.startswith(("trunk.", "heads.choose")):
                weight.normal_(0, 0.3)
    signs = [np.array([[1, 0, s], [0.5, 0, 0]], np.float32) for s in (1.0, -1.0)]

    def told(remembers: bool) -> torch.Tensor:
        child = short_term.agent_policy(agent.eval(), remembers)
        for tick in range(3):
            child({"signal": np.stack([sign[min(tick, 1)] for sign in signs])}, np.full(2, tick == 0))
        return child.output.outputs["choose"].logits

    off, on = told(remembers=False), told(remembers=True)
    assert torch.equal(off[0], off[1])
    assert not torch.allclose(on[0], on[1], atol=1e-4)


def test_the_loss_weights_questions_and_ignores_padding(agent, context):
    batch = maze_lesson.lesson_batch(context, 0, 6)
    assert not batch["valid"].all()
    before, scalars = short_term.loss(agent, batch)
    changed = dict(batch, choice=torch.where(batch["valid"], batch["choice"], 5), told=batch["told"].clone())
    changed["told"][~batch["valid"]] = 1
    assert torch.equal(short_term.loss(agent, changed)[0], before)
    assert abs(float(scalars["asked"]) - np.log(parts.CHOICES)) < 0.2  # untaught: all choices alike


def test_lessons_narrow_the_window_so_that_slots_must_carry_the_sign(agent, context):
    for make in (lessons.sign_batch, lessons.tests_batch):
        assert {make(None, context, update, 2, 12)["share"] for update in range(60)} == set(short_term.SHARES)
    agent = copy.deepcopy(agent)  # untaught layers and heads start at zero, and answer the same in any window
    for parameter in (*agent.trunk.parameters(), *agent.head("told").parameters()):
        torch.nn.init.normal_(parameter, std=0.3)
    batch = short_term.episode_batch(context, "memory_len", "12", 0, 4)
    whole, same, narrow = (short_term.loss(agent, batch | more)[0] for more in ({}, {"share": 1.0}, {"share": 0.25}))
    assert torch.equal(whole, same)
    assert not torch.equal(whole, narrow)
    assert agent.config.window == agent.trunk.window == 8


def test_a_batch_is_a_function_of_seed_and_update(context):
    for make in (lessons.boards_batch, lessons.sign_batch, lessons.tests_batch):
        for update in (0, 5):
            one, two = (make(None, context, update, 4, 12) for _ in range(2))
            assert torch.equal(one["choice"], two["choice"])
            assert one.get("share") == two.get("share")
            assert all(torch.equal(one["senses"][name], two["senses"][name]) for name in one["senses"])


def test_path_lengths_grow(context):
    longest = [lessons._longest(context, done / 12) for done in range(12)]
    assert longest[0] == 2
    assert longest == sorted(longest)
    assert longest[-1] == lessons.LONGEST["tiny"]


def test_lessons_do_not_train_the_reflexes(agent):
    names = [name for name, _ in agent.named_parameters() if name.startswith(trainable(agent, parts.NAME))]
    assert any(name.startswith("trunk.") for name in names)
    assert any(name.startswith("heads.look_trunk.") for name in names)
    assert any(name.startswith("heads.cells.") for name in names)
    assert any(name.startswith("encoders.board.") for name in names)
    assert not any(
        name.startswith(("encoders.sight", "encoders.body", "heads.push_arc", "heads.see.")) for name in names
    )


def test_without_minigrid_its_measures_are_omitted_and_the_report_says_so(agent, context, monkeypatch):
    monkeypatch.setattr(minigrid, "minigrid_installed", lambda: False)
    measures = maze.examine(agent, context.glimpse()).alone()
    assert [measure.name for measure in measures] == [maze.T_MAZE]
    assert "not installed" in measures[0].note
    decisions = maze.GATE.judge({measure.name: measure for measure in measures}).decisions
    assert [decision.measure for decision in decisions] == [maze.T_MAZE]
    turns = {frozenset(lessons.tests_batch(agent, context, update, 4, 12)["senses"]) for update in range(8)}
    assert turns == {frozenset({"signal"})}


def test_earlier_skills_are_played_on_other_episodes_by_number_and_repeat(agent, context):
    one, again, other = (sleep.earlier_skills(agent, context, number) for number in (1, 1, 2))
    assert len(one) >= 5 * 8
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert one.max() <= 1.0


@pytest.mark.slow
def test_a_full_exam_has_the_whole_curve_and_a_row_without_memory(agent, context):
    (measure,) = memory_len.examine(agent, context).in_full()
    assert {f"length {length}" for length in LENGTHS} < set(measure.rows)
    assert short_term.SHORT_OFF in measure.rows
    assert set(measure.floors) == {"random", "always the same"}
