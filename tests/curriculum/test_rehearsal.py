"""Rehearsals: each earlier lesson in turn, after its own end, in small batches, for a share of the time."""

import threading
from dataclasses import replace

import pytest
import torch
from torch import nn

from devmind.agent.config import AgentConfig
from devmind.curriculum.journal import Journal
from devmind.curriculum.plan import LessonPlan
from devmind.curriculum.rehearsal import mix_rehearsal, rehearsal_rate, rehearsals, rehearsed_by, unrehearsed_why
from devmind.curriculum.stage import ROWS_SHARE, Batches, Learner, Lesson, Rehearsed
from devmind.curriculum.teaching import LessonModule, position, teach
from devmind.errors import ConfigError
from devmind.learners.gradient import GradientLearner, grown_layers, trainable
from devmind.testing import tiny_agent, tiny_context


class Table(Learner):
    """Learns without a gradient: counts in its own table."""

    def __init__(self, agent):
        super().__init__(agent, seed=0, trains=("readout",))
        self.counts = torch.zeros(2)

    def update(self, batch, step):
        self.counts[step % 2] += 1
        return {"counted": self.counts.sum()}

    def state_dict(self):
        return {"counts": self.counts}

    def load_state_dict(self, state):
        self.counts = state["counts"]

    def rehearse(self, batch):
        raise ConfigError("A table is not forgotten, so there is nothing to rehearse.")


def a_lesson(name, steps, kind=GradientLearner, **more):
    """Its batches are pairs of its name and their number; its loss gives its name."""

    def learner(agent, context):
        if kind is Table:
            return Table(agent)
        return GradientLearner(agent, lambda agent, batch: (name, batch), seed=0, learning_rate=1e-3)

    def batches(agent, context, steps):
        return Batches(lambda number: (name, number), steps)

    return Lesson(name, learner, batches, steps, 1.0, **more)


class Earlier:
    name, requires, skills = "earlier", (), ()

    def lessons(self, context):
        return [a_lesson("walk", 10), a_lesson("crawl", 7, rehearsed=False), a_lesson("run", 30)]


@pytest.fixture
def told(tmp_path):
    """The batches of a lesson with `steps` own steps, each checked against the loss that it is taught by."""
    agent, context = tiny_agent(), tiny_context(tmp_path)

    def tell(lesson, before, earlier, steps):
        every = rehearsals(lesson, before, earlier, agent, context)
        given = []
        for batch in mix_rehearsal(
            lesson, lesson.make_learner(agent, context), context, steps, every, lesson.rehearsal_every
        ):
            if isinstance(batch, Rehearsed):
                assert batch.learner.rehearse(batch.batch)[0] == batch.batch[0]  # by the loss of its own lesson
                batch = batch.batch
            given.append(batch)
        return given

    return tell


def test_every_third_update_rehearses_the_next_lesson_after_its_end(told):
    given = told(a_lesson("talk", 5), (), [Earlier()], 13)
    assert given[2::3] == [
        (name, number) for turn in range(3) for name, number in (("walk", 10 + turn), ("run", 30 + turn))
    ]
    assert [batch for at, batch in enumerate(given) if at % 3 != 2] == [("talk", number) for number in range(13)]


def test_lessons_of_the_same_stage_are_rehearsed_as_often_as_named(told):
    talk = a_lesson("talk", 5, rehearses=("hum", "sing", "hum"), rehearsal_every=2)
    given = told(talk, [a_lesson("hum", 4), a_lesson("sing", 6)], [Earlier()], 10)
    assert given[::2] == [("talk", number) for number in range(10)]
    names = [name for name, _ in given[1::2]]
    assert names == ["walk", "run", "hum", "sing", "hum"] * 2
    assert [batch for batch in given if batch[0] == "hum"] == [("hum", number) for number in range(4, 8)], "none twice"


def test_lesson_without_rehearsals_gets_only_its_own_batches(told):
    talk, own = a_lesson("talk", 5), [("talk", number) for number in range(9)]
    assert told(talk, (), (), 9) == own
    assert told(replace(talk, rehearsal_every=0), (), [Earlier()], 9) == own
    assert told(a_lesson("talk", 5, kind=Table, rehearsal_every=0), (), [Earlier()], 9) == own


def test_lesson_of_own_parts_and_layers_rehearses_no_earlier_stage_and_is_not_rehearsed(tmp_path):
    agent, context = tiny_agent(), tiny_context(tmp_path)
    agent.config.stages = ["reflex", "talking"]
    agent.add_encoder("own", "encoder.vector", stage="talking", options={"size": 2})
    agent.ensure_grown("talking", {"own": "own"})
    (grown,) = grown_layers(agent, {"talking"})

    def of(*trains):
        def learner(agent, context):
            return GradientLearner(agent, lambda *_: None, seed=0, learning_rate=1e-3, trains=trains)

        return replace(a_lesson("talk", 5), make_learner=learner)

    for trains, rehearses, rehearsed in (
        (("encoders.own.",), False, False),
        (("encoders.own.", grown), False, True),
        (("encoders.own.", "heads.push_arc."), True, False),
        (("encoders.own.", "trunk."), True, True),
    ):
        lesson = of(*trains)
        named = [other.name for _, other in rehearsed_by(lesson, [], [Earlier()], agent, context)]
        assert named == (["walk", "run"] if rehearses else []), trains
        assert bool(unrehearsed_why(lesson, agent, context)) != rehearsed, trains
        assert unrehearsed_why(replace(lesson, rehearsed=True), agent, context) == ""
        assert unrehearsed_why(replace(lesson, rehearsed=False), agent, context).endswith("goes over what it teaches.")
    further = replace(of("encoders.own.", "heads.push_arc."), control=("heads.push_arc.",))
    assert not rehearsed_by(further, [], [Earlier()], agent, context), "what its twin alone trains"


def test_learner_that_takes_no_rehearsals_is_refused(told):
    with pytest.raises(
        ConfigError, match=r"'talk' should rehearse 'walk', but its learner \(Table\) takes no rehearsals"
    ):
        told(a_lesson("talk", 5, kind=Table), (), [Earlier()], 9)


def test_steps_of_a_lesson_exclude_rehearsals(tmp_path):
    agent, context, met = tiny_agent(), tiny_context(tmp_path), []

    def batches(agent, context, steps):
        met.append(steps)
        return Batches(lambda number: number, steps)

    talk = replace(a_lesson("talk", 5), make_batches=batches)
    every = rehearsals(talk, (), [Earlier()], agent, context)
    stream = mix_rehearsal(talk, talk.make_learner(agent, context), context, 13, every, 4)
    assert (len(stream), met) == (17, [13])
    assert [stream.own_steps(updates) for updates in range(9)] == [0, 1, 2, 3, 3, 4, 5, 6, 6]


def test_later_lesson_cannot_be_rehearsed(told):
    with pytest.raises(ConfigError, match=r"'talk' rehearses 'sing'.*hum is"):
        told(a_lesson("talk", 5, rehearses=("sing",)), [a_lesson("hum", 4)], (), 4)


def test_rehearsal_has_a_quarter_of_the_rows(tmp_path):
    agent, context, rows = tiny_agent(), tiny_context(tmp_path), []

    def batches(agent, context, steps):
        rows.append(context.rows(16))
        return Batches(lambda number: number, steps)

    hum = replace(a_lesson("hum", 4), make_batches=batches)
    rehearsals(a_lesson("talk", 5, rehearses=("hum",)), [hum], (), agent, context)
    hum.make_batches(agent, context, 4)
    assert rows == [round(16 * ROWS_SHARE), 16]
    assert replace(context, rows_share=ROWS_SHARE).rows(1) == 1


def test_kept_batches_are_made_once_per_run_and_repeated(tmp_path):
    agent, context, made = tiny_agent(), tiny_context(tmp_path), []

    def batches(agent, context, steps):
        return Batches(lambda number: made.append(number) or number, steps, kept=3)

    class Stage(Earlier):
        def lessons(self, context):
            return [replace(a_lesson("walk", 10), make_batches=batches)]

    kept = {}
    for name in ("talk", "sing"):
        talk = a_lesson(name, 5)
        every = rehearsals(talk, (), [Stage()], agent, context, kept)
        stream = mix_rehearsal(talk, talk.make_learner(agent, context), context, 12, every, 4)
        stream.load_state_dict({"update": 3})
        assert [batch.batch for batch in stream if isinstance(batch, Rehearsed)] == [10, 11, 12, 10]
    assert made == [10, 11, 12]


def test_run_goes_on_through_the_rehearsals_of_its_lessons_and_attempts(tmp_path):
    """Each lesson began again at the first batch, so all learned the same few by heart."""
    agent, context, journal = tiny_agent(), tiny_context(tmp_path), Journal(tmp_path / "journal.jsonl")
    lessons = [
        a_lesson("hum", 6),
        a_lesson("sing", 9, rehearses=("hum", "hum"), rehearsal_every=2),
        a_lesson("talk", 8, rehearses=("hum",)),
        a_lesson("rest", 8, rehearsal_every=0),
        a_lesson("shout", 7, rehearses=("talk",), rehearsal_every=4),
    ]
    steps = {"hum": 10, "sing": 9, "talk": 8, "rest": 8, "shout": 12}
    every = {lesson.name: lesson.rehearsal_every for lesson in lessons}
    journal.write("plan", steps=steps, rehearsal_every=every)
    met = {}
    for attempt in range(3):
        plan = LessonPlan("voice", lessons, [Earlier()], context, journal, attempt)
        for at, lesson in enumerate(lessons):
            begin = plan.rehearsed(lesson, agent)
            others = rehearsals(lesson, lessons[:at], [Earlier()], agent, context, begin=begin)
            stream = mix_rehearsal(lesson, lesson.make_learner(agent, context), context, plan.steps[lesson.name],
            others,  plan.every[lesson.name])  # fmt: skip
            for batch in stream:
                if isinstance(batch, Rehearsed):
                    met.setdefault(batch.batch[0], []).append(batch.batch[1])
    # After the end of the lesson as it was taught: `hum` had ten steps.
    for name, first in (("walk", 10), ("run", 30), ("hum", 10), ("talk", 8)):
        assert met[name] == list(range(first, first + len(met[name]))), name
    assert {name: len(numbers) for name, numbers in met.items()} == {"walk": 18, "run": 14, "hum": 9, "talk": 1}

    plan = LessonPlan("voice", lessons, [Earlier()], context, journal)
    assert plan.rehearsed(lessons[0], agent) == {("earlier", "walk"): 0, ("earlier", "run"): 0}
    plan.later = 100
    assert plan.rehearsed(lessons[0], agent) == {("earlier", "walk"): 100, ("earlier", "run"): 100}


def test_rehearsals_that_begin_later_are_prefetched(tmp_path):
    agent, context, made = tiny_agent(), tiny_context(tmp_path), []

    def batches(agent, context, steps):
        return Batches(lambda number: made.append(number) or number, steps, prefetch=True)

    talk, hum = a_lesson("talk", 5, rehearses=("hum",)), replace(a_lesson("hum", 4), make_batches=batches)
    others = rehearsals(talk, [hum], (), agent, context, begin={("", "hum"): 100})
    stream = mix_rehearsal(talk, talk.make_learner(agent, context), context, 9, others, 4)
    assert [batch.batch for batch in stream if isinstance(batch, Rehearsed)] == [104, 105, 106]
    assert made[:3] == [104, 105, 106]


def test_rehearsal_that_needs_weights_keeps_other_batches_prefetched(tmp_path):
    """The lesson's next batch is already being made while the rehearsal waits for the weights."""
    agent, context, made, begun = tiny_agent(), tiny_context(tmp_path), [], threading.Event()

    def batches_of(name, ahead):
        def make(number):
            made.append((name, number))
            if (name, number) == ("talk", 3):
                begun.set()
            if name == "hum":
                assert begun.wait(10)
            return number

        return lambda agent, context, steps: Batches(make, steps, ahead)

    talk = replace(a_lesson("talk", 5, rehearses=("hum", "sing")), make_batches=batches_of("talk", True))
    before = [
        replace(a_lesson(n, 4), make_batches=batches_of(n, ahead)) for n, ahead in (("hum", False), ("sing", True))
    ]
    every = rehearsals(talk, before, (), agent, context)
    stream = iter(mix_rehearsal(talk, talk.make_learner(agent, context), context, 9, every, 4))
    given = [next(stream) for _ in range(4)]
    assert given[:3] == [0, 1, 2]
    assert ("hum", 4) in made
    assert ("hum", 5) not in made, "what needs the weights is made when its turn comes"
    rest = list(stream)
    assert [b.batch if isinstance(b, Rehearsed) else b for b in rest] == [3, 4, 5, 4, 6, 7, 8, 5]
    again = mix_rehearsal(talk, talk.make_learner(agent, context), context, 9, every, 4)
    again.load_state_dict({"update": 6})
    assert [b.batch if isinstance(b, Rehearsed) else b for b in again] == [5, 4, 6, 7, 8, 5]


@pytest.mark.parametrize(
    ("wish", "own", "other", "every"),
    [(4, 1.0, 0.5, 4), (2, 1.0, 0.25, 2), (2, 1.0, 0.3, 3), (4, 1.0, 1.0, 5), (2, 1.0, 1.2, 6), (4, 0.2, 2.5, 51),
     (6, 1.0, 1.0, 6), (0, 1.0, 9.0, 0)],
)  # fmt: skip
def test_rehearsals_take_at_most_a_fifth_of_the_time(wish, own, other, every):
    talk = replace(a_lesson("talk", 5, rehearsal_every=wish), minutes=5 * own)
    others = [replace(a_lesson("hum", 4), minutes=4 * share * other, rehearsal_cost=1.0) for share in (0.5, 1.5)]
    found, share = rehearsal_rate(talk, others)
    assert found == every
    assert share == (pytest.approx(other / (other + (found - 1) * own)) if found else 0)
    assert share <= 0.2 + 1e-9


def test_lesson_can_lift_the_limit_on_rehearsals():
    dear = replace(a_lesson("hum", 4), minutes=400.0)
    talk = replace(a_lesson("talk", 5, rehearsal_every=3), minutes=5.0)
    assert rehearsal_rate(replace(talk, rehearsal_share=1.0), [dear])[0] == 3
    assert rehearsal_rate(replace(talk, minutes=0.0), [dear]) == (3, 0.0), "who tells no minutes cannot be compared"
    assert rehearsal_rate(talk, ()) == (0, 0.0)


class Pupil(nn.Module):
    """The part of an agent that a learner needs."""

    def __init__(self):
        super().__init__()
        self.weight, self.config = nn.Parameter(torch.ones(())), AgentConfig(size="tiny")


def test_rehearsal_uses_its_own_loss():
    met = []

    def learner(name):
        def loss(agent, batch):
            met.append((name, batch))
            return agent.weight * 1.0, {"weight": agent.weight.detach()}

        return GradientLearner(pupil, loss, steps=24, seed=0, learning_rate=1e-3, trains=("",))

    pupil = Pupil()
    own, walk, run = (learner(name) for name in ("own", "walk", "run"))
    reported = [own.update(batch, 3) for batch in ("a", Rehearsed(run, "b"), Rehearsed(walk, "c"))]
    assert met == [("own", "a"), ("run", "b"), ("walk", "c")]
    rehearsed = ["rehearsal/loss", "rehearsal/weight"]
    assert [list(values) for values in reported] == [["loss", "weight"], rehearsed, rehearsed]
    module = LessonModule(own, Batches(lambda update: update, 24))
    moved = module.transfer_batch_to_device(Rehearsed(run, {"x": torch.ones(2)}), torch.device("meta"), 0)
    assert (moved.learner, moved.batch["x"].device.type) == (run, "meta")


class Steps(GradientLearner):
    """Notes the step of each update."""

    def update(self, batch, step):
        self.met = [*getattr(self, "met", []), ("rehearsal" if isinstance(batch, Rehearsed) else "own", step)]
        return {}


def test_rehearsal_has_the_number_of_the_step_before_it(tmp_path):
    agent, context = tiny_agent(), tiny_context(tmp_path, "loggers=[]")
    made = []

    def learner(agent, context):
        made.append(Steps(agent, None, seed=0, learning_rate=1e-3))
        return made[-1]

    talk = replace(a_lesson("talk", 5), make_learner=learner)
    every = rehearsals(talk, (), [Earlier()], agent, context)
    taught = teach(talk, 5, agent, context, Journal(tmp_path / "journal.jsonl"), rehearsal=every, every=3)
    assert made[-1].met == [
        ("own", 0),
        ("own", 1),
        ("rehearsal", 1),
        ("own", 2),
        ("own", 3),
        ("rehearsal", 3),
        ("own", 4),
    ]
    assert (taught.steps, taught.rehearsals, taught.status) == (5, 2, "done")
    assert 0 < taught.rehearsal_share < 1


class Diary(GradientLearner):
    """Counts how often it was rehearsed; the count is its state."""

    count = 0

    def update(self, batch, step):
        if isinstance(batch, Rehearsed):
            batch.learner.count += 1
        return {}

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


def test_what_rehearsed_learners_have_kept_goes_on_from_a_checkpoint(tmp_path):
    agent, context, journal = tiny_agent(), tiny_context(tmp_path, "loggers=[]"), Journal(tmp_path / "journal.jsonl")

    def diary(agent, context):
        return Diary(agent, None, seed=0, learning_rate=1e-3)

    before = [replace(a_lesson(name, 4), make_learner=diary) for name in ("hum", "sing")]
    talk = replace(a_lesson("talk", 5, rehearses=("hum", "sing")), make_learner=diary)
    first, again = (rehearsals(talk, before, (), agent, context) for _ in range(2))
    teach(talk, 6, agent, context, journal, rehearsal=first, every=3)
    assert [one.learner.count for one in first] == [2, 1]
    saved = position(context)
    taught = teach(talk, 6, agent, context, journal, rehearsal=again, every=3, resume=saved)
    assert [one.learner.count for one in again] == [2, 1]
    assert (taught.steps, taught.rehearsals, taught.status) == (6, 3, "done")


# -- which parameters


def an_agent():
    agent = tiny_agent()
    agent.add_encoder("body", stage="reflex")
    agent.add_head("arc", "head.categorical", tap="body", stage="reflex", options={"classes": 2})
    agent.add_head("deep", "head.categorical", stage="reflex", options={"classes": 2})
    agent.add_encoder("words", stage="memory")
    agent.add_head("named", "head.categorical", tap="words", stage="memory", options={"classes": 2})
    return agent


def parts(agent, *stage):
    names = {name for name, _ in agent.named_parameters() if name.startswith(trainable(agent, *stage))}
    return {".".join(name.split(".")[:2]) for name in names if name.startswith(("heads.", "encoders."))}, names


def test_stage_trains_the_trunk_its_readers_and_its_own_parts():
    agent = an_agent()
    agent.config.stages = ["reflex", "memory"]
    found, names = parts(agent)
    assert found == {"encoders.words", "heads.named", "heads.deep"}
    assert "readout" in names
    assert any(name.startswith("trunk.") for name in names)
    assert parts(agent, "memory") == (found, names)
    assert parts(agent, "reflex")[0] == {"encoders.body", "heads.arc", "heads.deep"}


def test_agent_without_a_stage_trains_all_and_first_stage_the_parts_of_the_newborn():
    agent = an_agent()
    agent.add_head("old", "head.categorical", tap="body", options={"classes": 2})
    assert trainable(agent) == ("",)
    agent.config.stages = ["reflex"]
    assert "heads.old" in parts(agent)[0]
    agent.config.stages = ["reflex", "memory"]
    assert "heads.old" not in parts(agent)[0]


def test_gradient_learner_trains_the_parts_of_its_stage_by_default():
    agent = an_agent()
    agent.config.stages = ["reflex", "memory"]
    learner = GradientLearner(agent, None, seed=0, learning_rate=1e-3)
    assert learner.trains == trainable(agent)
    learner.begin(0)
    assert not any(p.requires_grad for n, p in agent.named_parameters() if n.startswith(("encoders.body", "heads.arc")))
    learner.end()
    assert all(p.requires_grad for p in agent.parameters())
