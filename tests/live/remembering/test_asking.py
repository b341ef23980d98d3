"""The agent asks what a thing is only if it is held up steadily, has no name, and nobody is teaching."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from devmind.live.remembering.asking import GONE_S, OPEN_S, REST_S, STEADY_S, Asking
from devmind.live.remembering.held_object import Square
from devmind.live.remembering.press import Showing
from devmind.memory import Named

HERE, THERE = Square(0.5, 0.4, 0.3), Square(0.15, 0.4, 0.2)
TICK_S = 0.1
SHOWN = Showing([(HERE, np.zeros((64, 64, 3), np.uint8))], None, ())


class Scene:
    """Ticks of a scene for `asking`; collects the questions."""

    def __init__(self, asking: Asking | None = None) -> None:
        self.asking, self.now_s = asking or Asking(), 100.0
        self.asked_s: list[float] = []

    def go(
        self,
        seconds: float,
        square: Square | None = HERE,
        unsure: Callable[[int], bool] | bool = True,
        busy: bool = False,
    ) -> Scene:
        for tick in range(round(seconds / TICK_S)):
            self.now_s += TICK_S
            is_unsure = unsure(tick) if callable(unsure) else unsure
            if self.asking.see(self.now_s, square, is_unsure, busy):
                self.asking.ask(SHOWN)
                self.asked_s.append(round(self.now_s - 100, 1))
        return self


def test_unnamed_thing_is_asked_about_once_after_two_seconds() -> None:
    scene = Scene().go(1, None).go(120)
    assert scene.asked_s == [pytest.approx(1 + STEADY_S, abs=2.1 * TICK_S)]


@pytest.mark.parametrize(("square", "unsure", "busy"), [(None, True, False), (HERE, False, False), (HERE, True, True)])
def test_empty_scene_known_thing_and_teaching_cause_no_question(
    square: Square | None, unsure: bool, busy: bool
) -> None:
    assert Scene().go(60, square, unsure, busy).asked_s == []


def test_agent_without_permission_does_not_ask_and_drops_its_question() -> None:
    scene = Scene(Asking(on=False)).go(30)
    assert scene.asked_s == []
    scene.asking.allow(True)
    assert len(scene.go(5).asked_s) == 1
    assert scene.asking.question is not None
    scene.asking.allow(False)
    assert scene.asking.question is None


def test_thing_that_comes_and_goes_causes_no_question() -> None:
    scene = Scene()
    for _ in range(20):
        scene.go(1.5).go(GONE_S + 0.2, None)
    assert scene.asked_s == []


def test_thing_lost_for_a_moment_stays_the_same_thing() -> None:
    scene = Scene().go(1.2).go(0.5, None).go(1.2)
    assert len(scene.asked_s) == 1
    scene.go(REST_S)
    for _ in range(20):
        scene.go(2).go(GONE_S - 0.2, None)
    assert len(scene.asked_s) == 1


def test_another_thing_is_asked_about_after_twenty_seconds() -> None:
    scene = Scene().go(4).go(2, None).go(60, THERE)
    first, second = scene.asked_s
    assert second - first == pytest.approx(REST_S, abs=1.1 * TICK_S)
    assert len(Scene().go(4).go(1 + REST_S, None).go(1.9, THERE).asked_s) == 1
    assert len(Scene().go(30).go(0.3, THERE).go(3, THERE).asked_s) == 2, "without a pause, but elsewhere"


def test_thing_that_is_sometimes_recognised_is_not_asked_about() -> None:
    assert Scene().go(60, unsure=lambda tick: tick % 19 != 0).asked_s == []
    assert Scene().go(30, unsure=lambda tick: tick > 100).asked_s == [pytest.approx(10.2 + STEADY_S, abs=2.1 * TICK_S)]


def test_taught_thing_is_not_asked_about_but_the_next_one_is() -> None:
    scene = Scene().go(1).go(1.2, busy=True)
    scene.asking.settle()
    assert scene.go(30).asked_s == []
    assert len(scene.go(2, None).go(3, THERE).asked_s) == 1


def test_press_without_teaching_restarts_the_two_seconds() -> None:
    scene = Scene().go(1).go(1.2, busy=True).go(1.8)
    assert scene.asked_s == []
    assert len(scene.go(0.5).asked_s) == 1


def test_unwatched_ticks_are_not_counted() -> None:
    scene = Scene().go(1.5)
    scene.now_s += 30  # unwatched ticks are not passed on
    assert scene.go(1.8).asked_s == []
    assert len(scene.go(0.5).asked_s) == 1


def test_question_is_open_until_answered_or_for_two_minutes() -> None:
    scene = Scene()
    scene.asking.see(0.0, HERE, True)
    question = scene.asking.ask(SHOWN, Named(None, "cup", 0.2345, 0.5))
    assert question.note() == {"number": 1, "text": "What is that?", "confidence": 0.234}
    scene.asking.see(OPEN_S - 1, None, False)
    assert scene.asking.question is question
    scene.asking.see(OPEN_S + 1, None, False)
    assert scene.asking.question is None
    assert scene.asking.ask(SHOWN).note() == {"number": 2, "text": "What is that?", "confidence": 0.0}
    scene.asking.settle()
    assert scene.asking.question is None


def test_slow_machine_takes_the_thing_in_its_next_tick_for_the_same() -> None:
    """At less than one Moment a second, everything was new in every tick, and nothing was ever asked about."""
    asking = Asking()
    assert [asking.see(100 + 1.3 * tick, THERE, True) for tick in range(4)] == [False, False, True, True]
    asking = Asking()
    assert not any(asking.see(100 + tick / 10, THERE, True) for tick in range(15))
    assert not asking.see(160, THERE, True), "nobody watched meanwhile, and it may be another thing"
