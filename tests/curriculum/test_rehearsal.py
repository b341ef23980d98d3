"""Rehearsals: each earlier lesson in turn, with batches from behind its end, one after the other."""

import torch
from torch import nn

from devmind.curriculum.rehearsal import rehearsals
from devmind.curriculum.stage import Batches, Lesson
from devmind.learners.gradient import GradientLearner
from devmind.testing import tiny_agent, tiny_context


class Earlier:
    name, requires, skills = "earlier", (), ()

    def __init__(self):
        self.met = []

    def lessons(self, context):
        def learner(agent, context):
            return GradientLearner(agent, lambda agent, batch: None, steps=0, seed=0, learning_rate=1e-3)

        def batches(name):
            return lambda agent, context, steps: Batches(lambda update: self.met.append((name, update)), steps)

        told = [("walk", 10, True), ("crawl", 7, False), ("run", 30, True)]
        return [Lesson(name, learner, batches(name), steps, 1.0, rehearse=again) for name, steps, again in told]


def test_batches_come_from_behind_the_end_of_lessons_that_are_to_be_rehearsed(tmp_path):
    stage = Earlier()
    made = rehearsals([stage], tiny_agent(), tiny_context(tmp_path))
    for number in range(2):
        for _, make in made:
            make(number)
    assert stage.met == [("walk", 10), ("run", 30), ("walk", 11), ("run", 31)]


class Pupil(nn.Module):
    """As much of an agent as a learner needs."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))


def test_every_fourth_step_is_the_next_rehearsal_of_the_next_lesson(monkeypatch):
    met = []

    def loss(agent, batch):
        met.append(batch)
        return agent.weight * 1.0, {}

    learner = GradientLearner(Pupil(), loss, steps=24, seed=0, learning_rate=1e-3)
    learner.rehearsal = tuple((loss, lambda number, name=name: (name, number)) for name in ("a", "b"))
    optimizer = learner.configure_optimizers()
    monkeypatch.setattr(learner, "optimizers", lambda: optimizer)
    monkeypatch.setattr(learner, "report", lambda values: None)
    for learner.update in range(24):
        learner.training_step("own", 0)
    assert met[3::4] == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert [batch for at, batch in enumerate(met) if at % 4 != 3] == ["own"] * 18
    met.clear()
    learner.rehearses = False
    learner.update = 3
    learner.training_step("own", 0)
    assert met == ["own"]
