"""The speed of a machine and of a lesson: both are measured, the lesson's over all its batches."""

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
    """The first lesson of the lamps; each batch takes 20 ms."""
    lesson = LampStage().lessons(Context(config(), 0, "cpu", None, None))[0]

    def batches(agent, context, steps):
        own = lesson.make_batches(agent, context, steps)

        def make(update):
            asked.append(update)
            nap()
            return own.make(update)

        return Batches(make, steps)

    return Lesson("slow", lesson.make_learner, batches, 400, 1.0)


def test_speed_of_a_lesson_is_measured_over_all_its_batches(tmp_path, monkeypatch):
    """Early and late batches: lessons grow harder, and tasks take turns. Only making batches moves this clock."""
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


def test_work_shared_by_several_batches_counts_once(tmp_path, monkeypatch):
    """Only the making of batches moves this clock: 10 ms each, and a second for the work that twelve of them share."""
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


def test_short_lesson_is_measured_briefly(tmp_path):
    agent, asked = tiny_agent(), []
    LampStage().admit(agent)
    assert machine.step_s(slow_lesson(asked), agent, Context(config(), 0, "cpu", tmp_path, None), 10) >= 1 / 50
    assert len(asked) == 2


def test_gflops_are_computed_from_a_matrix_product(monkeypatch):
    """A clock that advances by a millisecond at each look: 2 x 256^3 operations in a millisecond."""
    ticks = itertools.count(0.0, 0.001)
    monkeypatch.setattr(machine.time, "perf_counter", lambda: next(ticks))
    assert machine.gflops() == pytest.approx(2 * 256**3 / 0.001 / 1e9)


def test_one_delayed_product_does_not_change_the_speed(monkeypatch):
    """On a busy machine the first product, which also warms up, takes longer than the whole measurement should."""
    looks = itertools.count()

    def clock() -> float:
        at = next(looks)
        return at * 0.001 + (2.0 if at > 1 else 0.0)

    monkeypatch.setattr(machine.time, "perf_counter", clock)
    assert machine.gflops() == pytest.approx(2 * 256**3 / 0.001 / 1e9)
