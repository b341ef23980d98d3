"""The knowledge of a puzzle's glance is handed over to the trunk's head, and the trunk stays unchanged."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.testing import tiny_agent, tiny_context
from stages.reasoning import parts
from stages.reasoning.glancing import hand_over
from stages.reasoning.puzzles import lesson
from stages.reasoning.puzzles.lesson import COSTS, RULES, bounds, cost_batch, scrambles


@pytest.fixture
def agent():
    agent = tiny_agent()
    parts.admit(agent)
    agent.config.stages = ["reasoning"]
    return agent


def unlike(agent, n: int) -> float:
    """Mean square difference of the trunk's head and the glance, by the variance of the glance."""
    board = RULES.observe(RULES.of(scrambles(n, np.random.default_rng(9), held_out=True)[0]))["puzzle"]
    glanced, by_trunk = COSTS.of(agent, board, COSTS.glance), COSTS.of(agent, board)
    return float(((by_trunk - glanced) ** 2).mean() / glanced.var(0).mean())


def test_after_handing_over_the_trunks_head_agrees_with_the_glance_on_new_boards(agent) -> None:
    assert unlike(agent, 200) > 1.0
    lit, presses = scrambles(200, np.random.default_rng(1), held_out=False)
    hand_over(
        agent,
        parts.PUZZLE,
        COSTS.heads,
        [cost_batch(lit[:100], bounds(presses[:100])), cost_batch(lit[100:], bounds(presses[100:]))],
    )
    assert unlike(agent, 200) < 0.2


def test_the_lesson_changes_the_board_sense_and_its_heads_and_not_the_trunk(agent, tmp_path) -> None:
    context = tiny_context(tmp_path)
    learner = lesson.lesson(context).make_learner(agent, context)
    learner.steps = 2
    before = {name: value.clone() for name, value in agent.state_dict().items()}
    learner.begin(0)
    for step in range(2):
        learner.update(lesson.make(agent, context, step, 16), step)
    learner.end()
    changed = {name for name, value in agent.state_dict().items() if not value.equal(before[name])}
    assert {".".join(name.split(".")[:2]) for name in changed} == {
        f"encoders.{parts.PUZZLE}", f"heads.{COSTS.head}", f"heads.{COSTS.glance}"
    }  # fmt: skip
    assert unlike(agent, 200) < 0.2


def test_a_rehearsal_trains_both_heads_on_the_costs(agent, tmp_path) -> None:
    context = tiny_context(tmp_path)
    learner = lesson.lesson(context).make_learner(agent, context)
    loss, _ = learner.rehearse(lesson.make(agent, context, 0, 8))
    loss.backward()
    for name in (COSTS.head, COSTS.glance):
        assert all(p.grad is not None and p.grad.any() for p in agent.head(name).read.squeeze.parameters()), name
