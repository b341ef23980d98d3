"""Rehearsals: each earlier lesson in turn, with batches from behind its end, among a lesson's own; none is left out."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from devmind.curriculum.rehearsal import mixed, rehearsals
from devmind.curriculum.stage import Batches, Lesson
from devmind.errors import ConfigError
from devmind.learners.gradient import GradientLearner, Learner, Rehearsed
from devmind.testing import tiny_agent, tiny_context


def a_lesson(name, steps, rehearse=False, kind=GradientLearner, **more):
    """Its batches are pairs of its name and their numbers; its loss says its name."""

    def learner(agent, context):
        if kind is Learner:
            return Learner(agent, steps=0, seed=0)
        return GradientLearner(agent, lambda agent, batch: (name, batch), steps=0, seed=0, learning_rate=1e-3)

    def batches(agent, context, steps):
        return Batches(lambda number: (name, number), steps)

    return Lesson(name, learner, batches, steps, 1.0, rehearse=rehearse, **more)


class Earlier:
    name, requires, skills = "earlier", (), ()

    def lessons(self, context):
        return [a_lesson("walk", 10, True), a_lesson("crawl", 7), a_lesson("run", 30, True)]


@pytest.fixture
def told(tmp_path):
    """The batches that a lesson of `steps` steps gives, each checked against the loss that its learner has for it."""
    agent, context = tiny_agent(), tiny_context(tmp_path)

    def tell(lesson, before, earlier, steps):
        learner = lesson.make_learner(agent, context)
        every = rehearsals(lesson, before, earlier, agent, context)
        given = []
        for batch in mixed(lesson, learner, agent, context, steps, every):
            if isinstance(batch, Rehearsed):
                assert learner.rehearsal[batch.which](None, None)[0] == batch.batch[0]  # by the loss of its own lesson
                batch = batch.batch
            given.append(batch)
        return given

    return tell


def test_every_fourth_step_is_a_rehearsal_of_each_lesson_in_turn_from_behind_its_end(told):
    given = told(a_lesson("talk", 5), (), [Earlier()], 17)
    assert given[3::4] == [("walk", 10), ("run", 30), ("walk", 11), ("run", 31)]
    assert [batch for at, batch in enumerate(given) if at % 4 != 3] == [("talk", number) for number in range(13)]


def test_lessons_of_the_same_stage_come_as_often_as_they_are_named(told):
    talk = a_lesson("talk", 5, rehearses=("hum", "sing", "hum"), rehearsal_every=2)
    given = told(talk, [a_lesson("hum", 4), a_lesson("sing", 6)], [Earlier()], 20)
    assert given[::2] == [("talk", number) for number in range(10)]
    names = [name for name, _ in given[1::2]]
    assert names == ["walk", "run", "hum", "sing", "hum"] * 2


def test_where_nothing_is_to_be_rehearsed_all_batches_are_its_own(told):
    talk, own = a_lesson("talk", 5), [("talk", number) for number in range(9)]
    assert told(talk, (), (), 9) == own
    assert told(replace(talk, rehearsal_every=0), (), [Earlier()], 9) == own
    assert told(a_lesson("talk", 5, kind=Learner), (), [Earlier()], 9) == own


def test_the_learner_is_told_how_many_batches_are_its_own(tmp_path):
    agent, context, met = tiny_agent(), tiny_context(tmp_path), []

    def batches(agent, context, steps):
        met.append(steps)
        return Batches(lambda number: number, steps)

    talk = replace(a_lesson("talk", 5), make_batches=batches)
    every = rehearsals(talk, (), [Earlier()], agent, context)
    assert len(mixed(talk, talk.make_learner(agent, context), agent, context, 17, every)) == 17
    assert met == [13]


def test_a_lesson_that_is_not_taught_before_cannot_be_rehearsed(told):
    with pytest.raises(ConfigError, match=r"'talk' rehearses 'sing'.*hum is"):
        told(a_lesson("talk", 5, rehearses=("sing",)), [a_lesson("hum", 4)], (), 4)


def test_batches_are_made_ahead_only_where_all_can_be(tmp_path):
    agent, context = tiny_agent(), tiny_context(tmp_path)
    ahead = replace(a_lesson("talk", 5), make_batches=lambda a, c, steps: Batches(lambda n: n, steps, ahead=True))
    for other, expected in ((replace(ahead, name="walk", rehearse=True), True), (a_lesson("hum", 4), False)):
        named = replace(ahead, rehearses=(other.name,))
        every = rehearsals(named, [other], (), agent, context)
        assert mixed(named, named.make_learner(agent, context), agent, context, 9, every).ahead is expected


class Pupil(nn.Module):
    """As much of an agent as a learner needs."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))


def test_a_rehearsal_is_taught_by_its_own_loss(monkeypatch):
    met = []

    def loss_of(name):
        def loss(agent, batch):
            met.append((name, batch))
            return agent.weight * 1.0, {}

        return loss

    learner = GradientLearner(Pupil(), loss_of("own"), steps=24, seed=0, learning_rate=1e-3)
    learner.rehearsal = (loss_of("walk"), loss_of("run"))
    optimizer, reported = learner.configure_optimizers(), []
    monkeypatch.setattr(learner, "optimizers", lambda: optimizer)
    monkeypatch.setattr(learner, "report", reported.append)
    for batch in ("a", Rehearsed(1, "b"), Rehearsed(0, "c")):
        learner.training_step(batch, 0)
    assert met == [("own", "a"), ("run", "b"), ("walk", "c")]
    assert [list(values) for values in reported] == [["loss"], ["rehearsal/loss"], ["rehearsal/loss"]]
    moved = learner.transfer_batch_to_device(Rehearsed(1, {"x": torch.ones(2)}), torch.device("meta"), 0)
    assert (moved.which, moved.batch["x"].device.type) == (1, "meta")
