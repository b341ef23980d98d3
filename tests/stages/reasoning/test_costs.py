"""The knowledge of a puzzle's glance is handed over to the trunk's head, and the trunk stays unchanged."""

from __future__ import annotations

import numpy as np
import pytest
import torch

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


@pytest.fixture
def taught_trunk(agent):
    """The same with a trunk that changes its tokens, as one that has learned does."""
    with torch.no_grad():
        for name, parameter in agent.trunk.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                parameter.normal_(generator=torch.Generator().manual_seed(0))
    return agent.eval()


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


def test_a_lesson_asks_the_heads_as_a_search_does(taught_trunk) -> None:
    """It asked them beside the slots of short-term memory, which a search does not show: by the packaged agent an
    8-puzzle took 119 states for the 64 with the features that its head was made for."""
    agent = taught_trunk
    with torch.no_grad():
        agent.head(COSTS.head).read.net[-1].weight.mul_(30)
    lit, _ = scrambles(40, np.random.default_rng(1), held_out=False)
    board = RULES.observe(RULES.of(lit))["puzzle"]
    told = COSTS.of(agent, board)
    loss, _ = COSTS.loss(agent, cost_batch(lit, told))
    assert float(loss) < 1e-9
    assert float(COSTS.loss(agent, cost_batch(lit, told + COSTS.spread))[0]) == pytest.approx(1.0, rel=1e-3)


def test_a_handover_fits_the_features_that_a_search_reads(taught_trunk, monkeypatch) -> None:
    lit, presses = scrambles(200, np.random.default_rng(1), held_out=False)
    read, think = [], taught_trunk.think

    def noting(*args, **options):
        read.append(think(*args, **options).of_senses[parts.PUZZLE].tokens)
        return think(*args, **options)

    monkeypatch.setattr(taught_trunk, "think", noting)
    batch = cost_batch(lit, bounds(presses))
    hand_over(taught_trunk, parts.PUZZLE, COSTS.heads, [batch])
    perceived = taught_trunk.encode_batch(batch, {parts.PUZZLE})
    alone, beside = (think(perceived, batch["first"], short_term=one).of_senses[parts.PUZZLE].tokens for one in (0, 1))
    assert torch.equal(read[0], alone)
    assert not torch.allclose(alone, beside, atol=0.01)


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
