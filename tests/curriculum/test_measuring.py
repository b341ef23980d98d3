"""How fast a machine is, and how fast it teaches a lesson: both are measured, all over the lesson."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace

import pytest

from devmind.curriculum import machine
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.testing import tiny_agent
from tests.curriculum.lamp_stage import LampStage
from tests.curriculum.test_run import config


def slow_lesson(asked, nap=lambda: time.sleep(0.02)):
    """The first lesson of the lamps, each batch of which takes its time: 20 ms."""
    lesson = LampStage().lessons(Context(config(), 0, "cpu", None, None))[0]

    def batches(agent, context, steps):
        own = lesson.make_batches(agent, context, steps)

        def make(update):
            asked.append(update)
            nap()
            return own.make(update)

        return Batches(make, steps)

    return Lesson("slow", lesson.make_learner, batches, 400, 1.0)


def test_a_lessons_speed_is_measured_all_over_it(tmp_path, monkeypatch):
    """Early and late batches alike: lessons grow harder, and tasks take turns. Only the making moves this clock."""
    monkeypatch.setattr(machine, "LESSON_S", 2.0)
    now = [0.0]
    monkeypatch.setattr(machine, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    agent, asked = tiny_agent(), []
    LampStage().admit(agent)
    context = Context(config(), 0, "cpu", tmp_path, None)
    lesson = slow_lesson(asked, lambda: now.__setitem__(0, now[0] + 0.02))
    assert 1 / machine.step_s(lesson, agent, context, 400) == pytest.approx(50)
    assert max(asked) < 400
    runs = [asked[at : at + machine.RUN] for at in range(2, len(asked), machine.RUN)]
    assert all(run == list(range(run[0], run[0] + machine.RUN)) for run in runs)
    assert len(runs) > 4
    assert min(run[0] for run in runs) < 100
    assert max(run[0] for run in runs) >= 300


def test_what_is_made_once_for_several_batches_counts_once(tmp_path, monkeypatch):
    """A clock that only the making of batches moves: 10 ms each, and a second for what twelve of them share."""
    monkeypatch.setattr(machine, "MOST_RUNS", 48)
    monkeypatch.setattr(machine, "LESSON_S", 2.0)
    now, made, lesson = [0.0], set(), LampStage().lessons(Context(config(), 0, "cpu", None, None))[0]
    monkeypatch.setattr(machine, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def batches(agent, context, steps):
        own = lesson.make_batches(agent, context, steps)

        def make(update):
            now[0] += 0.01 + (update // 12 not in made)
            made.clear()
            made.add(update // 12)
            return own.make(update)

        return Batches(make, steps)

    agent = tiny_agent()
    LampStage().admit(agent)
    shared = Lesson("shared", lesson.make_learner, batches, 4000, 1.0)
    speed = 1 / machine.step_s(shared, agent, Context(config(), 0, "cpu", tmp_path, None), 4000)
    assert speed == pytest.approx(1 / (0.01 + 1 / 12), rel=0.25)


def test_a_short_lesson_is_measured_shortly(tmp_path):
    agent, asked = tiny_agent(), []
    LampStage().admit(agent)
    assert machine.step_s(slow_lesson(asked), agent, Context(config(), 0, "cpu", tmp_path, None), 10) >= 1 / 50
    assert len(asked) == 2


def test_gflops_are_those_of_a_product(monkeypatch):
    """A machine whose clock ticks a millisecond at each look: 2 x 256^3 operations in it."""
    ticks = itertools.count(0.0, 0.001)
    monkeypatch.setattr(machine.time, "perf_counter", lambda: next(ticks))
    assert machine.gflops() == pytest.approx(2 * 256**3 / 0.001 / 1e9)


def test_one_product_that_was_kept_waiting_is_not_the_speed(monkeypatch):
    """On a busy machine the first product, which also warms up, lasts longer than all of the measuring should."""
    looks = itertools.count()

    def clock() -> float:
        at = next(looks)
        return at * 0.001 + (2.0 if at > 1 else 0.0)

    monkeypatch.setattr(machine.time, "perf_counter", clock)
    assert machine.gflops() == pytest.approx(2 * 256**3 / 0.001 / 1e9)
