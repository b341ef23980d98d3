"""One lesson in closed form: laws, order of batches, a stop, rounds, and what cannot be solved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.curriculum.stage import Context, Lesson
from devmind.errors import ConfigError, DevmindError
from devmind.learners.closed_form import ClosedFormLearner, closed_form_lesson
from devmind.seeding import lesson_seeds
from devmind.testing import LampRules, check_learner, tiny_agent, tiny_context
from devmind.testing.parts import check_rehearsed

HEAD, STEPS = "lit", 20


def shown(seeds: np.ndarray) -> dict[str, Any]:
    rules = LampRules()
    state = rules.initial(seeds)
    batch = collate_tick({"warmth": rules.observe(state)["warmth"]}, np.ones(len(seeds), bool))
    return batch | {"lit": torch.from_numpy(rules.truth(state)["lit"])[:, None]}


def make_agent(part: str = "head.categorical", **options: Any) -> Agent:
    agent = tiny_agent()
    agent.add_encoder("warmth", space=LampRules().observation_space["warmth"])
    agent.add_head(HEAD, part, tap="warmth", options=options or {"classes": 3})
    return agent


def lesson(context: Context, order: Sequence[int] = range(STEPS), steps: int = STEPS, **more: Any) -> Lesson:
    return closed_form_lesson(
        context,
        "lamps",
        lambda agent, context: ClosedFormLearner(agent, HEAD, "lit", seed=context.seed, **more),
        lambda agent, context, update, rows: shown(lesson_seeds(rows, context.seed, order[update % STEPS])),
        steps={"tiny": steps},
        rows={"tiny": 24},
        minutes=0.1,
    )


def teach(lesson: Lesson, agent: Agent, context: Context, steps: int = STEPS) -> Agent:
    from devmind.curriculum.journal import Journal
    from devmind.curriculum.teaching import teach

    context.out.mkdir(parents=True, exist_ok=True)
    teach(lesson, steps, agent, context, Journal(context.out / "journal.jsonl"))
    return agent


def right(agent: Agent) -> float:
    batch = shown(np.arange(10**6, 10**6 + 90))
    with torch.no_grad():
        return float((agent(batch, [HEAD])[HEAD].mode() == batch["lit"]).float().mean())


def test_closed_form_keeps_the_laws_and_learns_in_one_pass(tmp_path: Path) -> None:
    context = tiny_context(tmp_path / "run", "loggers=[]")
    check_learner(lesson(context), make_agent(), tiny_context(tmp_path / "laws"))
    check_rehearsed(lesson(context), make_agent(), context)
    agent = make_agent()
    assert right(agent) < 0.6
    assert right(teach(lesson(context), agent, context)) > 0.9


def test_order_of_batches_leaves_the_weights_as_they_are_to_the_bit(tmp_path: Path) -> None:
    agents = []
    for at, order in enumerate((range(STEPS), np.random.default_rng(0).permutation(STEPS).tolist())):
        context = tiny_context(tmp_path / str(at), "loggers=[]")
        agents.append(teach(lesson(context, order, scale=2.0), make_agent(), context))
    assert agents[0].sha256() == agents[1].sha256()
    assert agents[0].sha256() != make_agent().sha256()


def test_each_round_has_sums_of_its_own_so_a_stop_between_two_changes_nothing(tmp_path: Path) -> None:
    """Regression: sums stayed at the layer in memory, so a stop between two rounds gave other weights."""
    half, alone, agent = STEPS // 2, make_agent(), make_agent()
    for number, taught in ((0, [agent]), (1, [agent, alone])):
        for one in taught:
            learner = ClosedFormLearner(one, HEAD, "lit", seed=0, scale=2.0)
            learner.again, learner.steps = number > 0, half
            learner.begin(0)
            for step in range(half):
                learner.update(shown(lesson_seeds(24, 0, number * half + step)), step)
            learner.end()
    assert agent.sha256() == alone.sha256() != make_agent().sha256()


def test_a_lesson_cut_short_is_solved_for_what_it_has_seen(tmp_path: Path) -> None:
    agent = make_agent()
    learner = ClosedFormLearner(agent, HEAD, "lit", seed=0)
    learner.steps = 100
    learner.begin(0)
    for step in range(7):  # behind the fourth it was solved
        learner.update(shown(lesson_seeds(24, 0, step)), step)
    before = agent.sha256()
    learner.end()
    assert agent.sha256() != before
    assert right(agent) > 0.9


def test_numbers_are_learned_too(tmp_path: Path) -> None:
    agent = make_agent("head.regression", shape=2)
    learner = ClosedFormLearner(agent, HEAD, "wanted", seed=0, classes=False, target_scale=4.0)
    learner.steps = 8
    learner.begin(0)

    def batch(number: int) -> dict[str, Any]:
        made = shown(lesson_seeds(24, 0, number))
        lit = made["lit"].float()
        return made | {"wanted": torch.stack((lit, 1 - lit), -1)}

    for step in range(8):
        learner.update(batch(step), step)
    fresh = batch(99)
    with torch.no_grad():
        answer = agent(fresh, [HEAD])[HEAD].mode()
    assert float((answer - fresh["wanted"]).abs().mean()) < 0.1


def test_rows_without_a_label_are_left_out_and_wrong_ones_refused() -> None:
    agent = make_agent()
    learner = ClosedFormLearner(agent, HEAD, "lit", seed=0)
    learner.steps = 1
    learner.begin(0)
    batch = shown(lesson_seeds(24, 0))
    batch["lit"][:4] = -1
    assert learner.update(batch, 0)["examples"] == 20
    one = ClosedFormLearner(agent, HEAD, "lit", seed=0)
    one.steps = 1
    with pytest.raises(DevmindError, match="one class, so there is nothing to tell apart"):
        one.update(batch | {"lit": torch.zeros_like(batch["lit"])}, 0)
    with pytest.raises(ConfigError, match="25 labels 'lit' for 24 rows"):
        one.update(batch | {"lit": torch.zeros(25, 1, dtype=torch.int64)}, 0)


def test_a_head_that_adds_to_its_last_layer_is_refused(tmp_path: Path) -> None:
    """Regression: the last layer was solved as if it answered alone, so the head answered something else."""
    agent = make_agent()
    options = {"part": "head.categorical", "options": {"classes": 3}}
    agent.add_head("both", "head.with-readout", tap=("trunk:warmth", "trunk"), options=options)
    learner = ClosedFormLearner(agent, "both", "lit", seed=0)
    learner.steps = 1
    with pytest.raises(ConfigError, match=r"does not answer by its last linear layer, 'more\.2', alone"):
        learner.update(shown(lesson_seeds(24, 0)), 0)
