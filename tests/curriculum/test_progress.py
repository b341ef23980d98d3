"""The progress bar of a lesson: what is always shown, what is shown if there is room, and what a log gets."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from devmind.curriculum import progress
from devmind.curriculum.progress import (
    EVERY_S,
    ExamsProgress,
    LessonProgress,
    Rolled,
    RolloutClock,
    bar_line,
    clock,
    fitting,
    plain_line,
)

SCORES = {"see": 0.91, "hear/sounds": 0.25, "locate/masks": 0.5, "orient/motion": 0.82}
KEPT = (" 45 %", "12:05 left")
DETAILS = ["2340/5200", "3.1 steps/s", "loss 0.567", *(f"{name} {score:.2f}" for name, score in SCORES.items())]


@pytest.mark.parametrize("width", [48, 60, 80, 120, 200])
@pytest.mark.parametrize("lesson", ["gaze", "perceive", "together"])
def test_name_bar_percentage_and_time_left_are_always_whole(lesson: str, width: int) -> None:
    line = bar_line(lesson, 0.45, KEPT, DETAILS, width)
    assert line.cell_len <= width
    assert line.plain.startswith(f"{lesson}  ━")
    assert " 45 %  12:05 left" in line.plain
    bar = [cell for cell in line.plain if cell in "━─"]
    assert len(bar) >= 8
    assert bar.count("━") == round(0.45 * len(bar))


def test_details_come_in_order_and_are_never_cut() -> None:
    def shown(width: int) -> str:
        return bar_line("perceive", 0.45, KEPT, DETAILS, width).plain.partition("left")[2].strip()

    assert shown(48) == ""
    assert shown(60) == "2340/5200"
    assert shown(80) == "2340/5200 · 3.1 steps/s"
    assert shown(120) == "2340/5200 · 3.1 steps/s · loss 0.567 · see 0.91"
    assert shown(200) == " · ".join(DETAILS)
    assert fitting(["12345", "1"], 4) == "", "a shorter one does not overtake"


def test_long_name_keeps_the_time() -> None:
    line = bar_line("a lesson of a plugin whose name has no end at all", 1.0, KEPT, DETAILS, 60)
    assert line.cell_len <= 60
    assert "… " in line.plain
    assert line.plain.rstrip().endswith("12:05 left")


def test_ascii_terminal_gets_ascii() -> None:
    assert bar_line("gaze", 0.5, KEPT, [], 60, ascii_only=True).plain.isascii()


def test_log_has_the_same_words() -> None:
    line = plain_line("perceive", KEPT, DETAILS)
    assert line.startswith("perceive: 45 % · 12:05 left · 2340/5200 · 3.1 steps/s · loss 0.567 · see 0.91")
    assert len(line) <= progress.LOG_CELLS


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0:00"), (45.4, "0:45"), (725, "12:05"), (3725, "1:02:05"), (float("inf"), "–"), (float("nan"), "–")],
)
def test_durations_are_shown_as_clocks(seconds: float, said: str) -> None:
    assert clock(seconds) == said


class Clock:
    """Stands for the time module."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def test_time_left_ignores_the_first_step(time: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """Regression: compiling took a minute in the first step, all others a second, and 141 s were shown instead of 7."""
    with LessonProgress("gaze", 10, 0, {}) as bar:
        time.now_s += 60
        bar.show(1, 0.5)
        time.now_s += 20
        bar.show(5, 0.4)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "gaze: 10 steps; making the first batch"
    assert said[1] == "gaze: 10 % · 9:00 left · 1/10 · 60 s a step · loss 0.500"
    assert said[2] == "gaze: 50 % · 0:25 left · 5/10 · 0.2 steps/s · loss 0.400"


def test_step_shown_twice_keeps_its_speed(time: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """Regression: while the second batch was made, the line said "1000000000 s a step"."""
    with LessonProgress("gaze", 10, 0, {}) as bar:
        for _ in range(2):
            time.now_s += 60
            bar.show(1, 0.5)
    assert capsys.readouterr().err.splitlines()[-1] == "gaze: 10 % · 9:00 left · 1/10 · 60 s a step · loss 0.500"


def test_interrupted_lesson_shows_where_it_resumes(time: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with LessonProgress("watch", 150, 79, {}):
        pass
    assert capsys.readouterr().err == "watch: 150 steps, going on at step 80; making the first batch\n"


@pytest.mark.parametrize("width", [60, 80])
def test_terminal_shows_the_bar_before_the_first_step(time: Clock, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)

    def console(**options: Any) -> Console:
        assert options == {"stderr": True}
        return screen

    monkeypatch.setattr(progress, "Console", console)
    with LessonProgress("perceive", 5200, 0, SCORES) as bar:
        assert "perceive" in screen.file.getvalue()  # type: ignore[attr-defined]
        assert "making the first batch" in screen.file.getvalue()  # type: ignore[attr-defined]
        time.now_s += 1
        bar.show(1, 0.9)
        time.now_s += 400
        bar.show(2601, 0.5)
    last = screen.file.getvalue().rpartition("perceive")[2]  # type: ignore[attr-defined]
    assert " 50 %  6:40 left" in last
    assert ("steps/s" in last) == (width == 80)


def test_an_exam_tells_episodes_and_time_left_of_each_rollout(time: Clock) -> None:
    told: list[Rolled] = []
    watch = RolloutClock(told.append, every_s=10)
    for tick in range(1, 41):  # 40 ticks of a second, in the first rollout
        time.now_s += 1
        watch(tick // 2, 20, tick / 40)
    assert [(one.part, one.over) for one in told] == [(1, 5), (1, 10), (1, 15), (1, 20)]
    assert told[1].left_s == pytest.approx(20, abs=1)
    time.now_s += 100  # work between rollouts says nothing about the next one's ticks
    for tick in range(1, 13):
        time.now_s += 1
        watch(0, 20, tick / 100)
    assert told[-1].part == 2
    assert told[-1].left_s == pytest.approx(90, abs=3)


def test_what_a_worker_writes_of_its_exam_is_read_back() -> None:
    for rolled in (Rolled(1, 3, 400, 0.25, 12.5), Rolled(2, 0, 7, 0.0, None)):
        assert Rolled.read(rolled.written()) == rolled
    assert Rolled.read("1 3 40") is None, "a file that is just being written"


def test_exams_print_sparse_lines_where_there_is_no_terminal(time: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with ExamsProgress() as shown:
        assert shown.every_s == EVERY_S
        shown.show("startle", Rolled(2, 120, 400, 0.3, 45.0))
        shown.show("startle", Rolled(2, 121, 400, 0.31, 44.0))
        time.now_s += EVERY_S
        shown.show("startle", Rolled(2, 300, 400, 0.75, None))
        shown.ended("startle")
    assert capsys.readouterr().err.splitlines() == [
        "startle: 30 % · 0:45 left · 120 of 400 episodes · part 2", "startle: 75 % · – · 300 of 400 episodes · part 2"
    ]  # fmt: skip


def test_exams_side_by_side_have_a_bar_each_on_a_terminal() -> None:
    shown = ExamsProgress()
    shown.console = Console(file=io.StringIO(), width=100, force_terminal=True)
    shown.rolled = {"see": Rolled(1, 10, 40, 0.25, 30.0), "startle": Rolled(3, 0, 8, 0.5, 5.0)}
    first, second = shown._bars().plain.splitlines()
    assert first.startswith("see  ━")
    assert " 25 %  0:30 left  10 of 40 episodes" in first
    assert " 50 %  0:05 left  0 of 8 episodes · part 3" in second
