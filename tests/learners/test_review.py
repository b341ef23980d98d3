"""A review repeats the lessons of a stage in turn, with batches after their ends and with their own losses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from devmind.curriculum.journal import Journal
from devmind.curriculum.stage import ROWS_SHARE, Batches, Lesson
from devmind.curriculum.teaching import teach
from devmind.errors import ConfigError
from devmind.learners.gradient import GradientLearner
from devmind.learners.review import review
from devmind.testing import tiny_agent, tiny_context

RATE = 1e-2


def a_lesson(name: str, steps: int, wanted: float) -> Lesson:
    """It pulls the readout towards a number; a batch holds the lesson's name, its number and its rows."""

    def loss(agent, batch):
        assert batch["name"] == name
        return (agent.readout - wanted).square().mean(), {name: torch.tensor(float(batch["number"]))}

    return Lesson(
        name,
        lambda agent, context: GradientLearner(agent, loss, seed=0, learning_rate=RATE),
        lambda agent, context, steps: Batches(
            lambda number: {"name": name, "number": number, "rows": context.rows(16)}, steps
        ),
        steps,
        1.0,
        skills=(name,),
    )


def reviewed(*turns: str, steps: int = 8) -> Lesson:
    lessons = [a_lesson("walk", 10, 1.0), a_lesson("run", 30, -1.0), a_lesson("rest", 3, 0.0)]
    return review(lessons, turns, steps=steps, minutes=1.0, learning_rate=RATE)


def test_review_takes_lessons_in_turn_and_continues_each_behind_its_end_and_its_rehearsals(tmp_path):
    lesson, context = reviewed("walk", "run", "walk"), tiny_context(tmp_path)
    batches = [each["batch"] for each in lesson.make_batches(tiny_agent(), context, 7)]
    assert [(one["name"], one["number"]) for one in batches] == [
        ("walk", 20), ("run", 60), ("walk", 21), ("walk", 22), ("run", 61), ("walk", 23), ("walk", 24),
    ]  # fmt: skip
    assert {one["rows"] for one in batches} == {round(16 * ROWS_SHARE)}
    assert lesson.skills == ("walk", "run")


def test_review_trains_by_the_losses_of_its_lessons(tmp_path):
    agent, context = tiny_agent(), tiny_context(tmp_path)
    before = agent.readout.detach().clone()
    lesson = reviewed("walk", steps=20)
    teach(lesson, 20, agent, context, Journal(tmp_path / "journal.jsonl"))
    assert (agent.readout - before).mean() > 5 * RATE


def test_review_names_a_turn_that_is_no_lesson():
    with pytest.raises(ConfigError, match="'swim' is none"):
        reviewed("walk", "swim")


class Noting(GradientLearner):
    """Notes the readout in `remember`, and rehearses towards it."""

    noted = torch.zeros(())

    def remember(self) -> None:
        self.noted = self.agent.readout.detach().clone()

    def state_dict(self):
        return super().state_dict() | {"noted": self.noted}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.noted = state["noted"]

    def rehearse(self, batch):
        return (self.agent.readout - self.noted).square().mean(), {}


def test_learners_in_a_review_remember_once_and_save_it(tmp_path):
    agent, context = tiny_agent(), tiny_context(tmp_path)
    lesson = replace(
        a_lesson("walk", 10, 1.0),
        make_learner=lambda agent, context: Noting(agent, lambda *_: None, seed=0, learning_rate=RATE),
    )
    lesson = review([lesson], ["walk"], steps=3, minutes=1.0, learning_rate=RATE)
    learner, before = lesson.make_learner(agent, context), agent.readout.detach().clone()
    learner.begin(0)
    agent.readout.data += 1.0
    again = lesson.make_learner(agent, context)
    again.load_state_dict(learner.state_dict())
    again.begin(1)
    assert torch.equal(again.of["walk"].noted, before)
    loss, _ = again.rehearse({"of": "walk", "batch": None})
    assert float(loss.detach()) == pytest.approx(1.0)
