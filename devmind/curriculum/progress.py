"""What a user sees during a run: the current step of work, and for lessons and exams percentage and time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.live import Live
from rich.text import Text

EVERY_S = 10.0
"""Seconds between two progress lines of a lesson where there is no terminal (logs, CI)."""
LOG_CELLS = 120
"""Width of a line where there is no terminal."""
GAP = "  "


def say(what: str) -> None:
    """Print on stderr what is about to begin, so that nobody waits before a silent screen."""
    print(what, file=sys.stderr, flush=True)


class LessonProgress:
    """A bar on a terminal, a line every ten seconds elsewhere.

    Name, bar, percentage and time left are always shown. Steps, speed, loss and the scores of the last exams follow in
    this order, as many as there is room for.

    Args:
        lesson: its name.
        steps: of the whole lesson.
        done: of these, those made before an interruption.
        scores: of the latest exams, by measure.
    """

    def __init__(self, lesson: str, steps: int, done: int, scores: Mapping[str, float]) -> None:
        self.lesson, self.steps, self.step = lesson, steps, done
        self.scores = scores
        self.speed: float | None = None
        self.loss: float | None = None
        self.fault, self.skipped = "", 0  # why nothing can be saved; checkpoints for which the disk was too slow
        self._begun = (done, time.monotonic())
        self._timed_from: tuple[int, float] | None = None  # the first step also warms up: speed counts from its end
        self._shown_s = -EVERY_S
        self.console = Console(stderr=True)
        self.live = (
            Live(get_renderable=self._bar, console=self.console, refresh_per_second=4)
            if self.console.is_terminal
            else None
        )

    def __enter__(self) -> Self:
        if self.live:
            self.live.start(refresh=True)
        else:
            begun = f", going on at step {self.step + 1:,}" if self.step else ""
            say(f"{self.lesson}: {self.steps:,} step{'s' * (self.steps != 1)}{begun}; making the first batch")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.live.stop()

    def show(self, step: int, loss: float | None) -> None:
        """Show the lesson's position; cheap enough for every step."""
        now = time.monotonic()
        since_step, since_s = self._timed_from or self._begun
        self.step, self.loss = step, loss
        if step > since_step:
            self.speed = (step - since_step) / max(1e-9, now - since_s)
        self._timed_from = self._timed_from or (step, now)
        if not self.live and (now - self._shown_s > EVERY_S or step >= self.steps):
            self._shown_s = now
            say(plain_line(self.lesson, self._progress(), self._details()))

    def _bar(self) -> Text:
        """The line of the terminal, at its present width."""
        ascii_only = self.console.options.ascii_only
        share = self.step / max(1, self.steps)
        return bar_line(self.lesson, share, self._progress(), self._details(), self.console.width, ascii_only)

    def _progress(self) -> tuple[str, str]:
        """Percentage and time left."""
        share = f"{100 * self.step // max(1, self.steps):3d} %"
        if self.speed is None:
            return share, "making the first batch"
        return share, f"{clock((self.steps - self.step) / max(1e-9, self.speed))} left"

    def _details(self) -> list[str]:
        found = [*([f"not saved: {self.fault}"] if self.fault else []), f"{self.step}/{self.steps}"]
        if self.speed is not None:
            found.append(
                f"{self.speed:.1f} steps/s" if self.speed >= 0.1 else f"{1 / max(1e-9, self.speed):.0f} s a step"
            )
        if self.loss is not None:
            found.append(f"loss {self.loss:.3f}")
        if self.skipped:
            found.append(f"{self.skipped} checkpoints skipped")
        return found + [f"{name} {score:.2f}" for name, score in self.scores.items()]


class Rolled(NamedTuple):
    """How far an exam is: its present rollout, from 1, and in that the episodes over, all of them, and the share 0..1;
    seconds that are left of it, None before that is known."""

    part: int
    over: int
    episodes: int
    share: float
    left_s: float | None

    @classmethod
    def read(cls, text: str) -> Rolled | None:
        """What `written` gave; None of a text that is not whole."""
        try:
            part, over, episodes, share, left = text.split()
            return cls(int(part), int(over), int(episodes), float(share), None if left == "-" else float(left))
        except ValueError:
            return None

    def written(self) -> str:
        """One line for `read`."""
        left = "-" if self.left_s is None else f"{self.left_s:.1f}"
        return f"{self.part} {self.over} {self.episodes} {self.share:.4f} {left}"

    @property
    def kept(self) -> tuple[str, str]:
        """Percentage and time left of the rollout."""
        return f"{100 * self.share:3.0f} %", "–" if self.left_s is None else f"{clock(self.left_s)} left"

    @property
    def details(self) -> list[str]:
        """Episodes; and which rollout it is, since an exam of several does not say how many will follow."""
        return [f"{self.over} of {self.episodes} episodes", *([f"part {self.part}"] if self.part > 1 else [])]


class RolloutClock:
    """Follows the rollouts of an exam: a `Watch` (`devmind.acting.rollout`).

    Args:
        tell: is given how far the exam is, at most once in `every_s` seconds.
    """

    def __init__(self, tell: Callable[[Rolled], None], every_s: float) -> None:
        self.tell, self.every_s = tell, every_s
        self.part, self._share, self._begun_s, self._told_s = 0, 1.0, 0.0, time.monotonic()

    def __call__(self, over: int, episodes: int, share: float) -> None:
        """One tick of a rollout."""
        now = time.monotonic()
        if share <= self._share:  # another rollout
            self.part, self._begun_s, self._first = self.part + 1, now, share
        self._share = share
        if now - self._told_s >= self.every_s:
            self._told_s, done = now, share - self._first
            left_s = (now - self._begun_s) * (1 - share) / done if done > 0 else None
            self.tell(Rolled(self.part, over, episodes, share, left_s))


class ExamsProgress:
    """Exams that are held now: a bar each on a terminal, a line every ten seconds elsewhere; nothing before either."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.rolled: dict[str, Rolled] = {}
        self._said_s: dict[str, float] = {}
        self.live = (
            Live(get_renderable=self._bars, console=self.console, refresh_per_second=4, transient=True)
            if self.console.is_terminal
            else None
        )

    def __enter__(self) -> Self:
        if self.live:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.live.stop()

    @property
    def every_s(self) -> float:
        """Seconds between two looks at an exam."""
        return 0.25 if self.live else EVERY_S

    def show(self, exam: str, rolled: Rolled) -> None:
        """Show how far an exam is."""
        if self.rolled.get(exam) == rolled:
            return
        self.rolled[exam] = rolled
        now = time.monotonic()
        if not self.live and now - self._said_s.get(exam, -EVERY_S) >= 0.9 * EVERY_S:
            self._said_s[exam] = now
            say(plain_line(exam, rolled.kept, rolled.details))

    def ended(self, exam: str) -> None:
        """Remove an exam."""
        self.rolled.pop(exam, None)

    def _bars(self) -> Text:
        width, ascii_only = self.console.width, self.console.options.ascii_only
        lines = [
            bar_line(exam, one.share, one.kept, one.details, width, ascii_only) for exam, one in self.rolled.items()
        ]
        return Text("\n").join(lines)


def bar_line(
    lesson: str, share: float, kept: tuple[str, str], details: Sequence[str], width: int, ascii_only: bool = False
) -> Text:
    """One line of at most `width` cells; from 48 on, name, bar, percentage and time left are whole.

    Args:
        share: 0..1 of the lesson.
        kept: percentage and time left.
        details: shown if there is room, the most important first.
    """
    full, rest = ("#", "-") if ascii_only else ("━", "─")
    bar_cells = max(6, min(30, width // 5))
    fixed = bar_cells + cell_len(GAP.join(kept)) + 2 * len(GAP)
    name = lesson if cell_len(lesson) <= width - fixed else set_cell_size(lesson, max(1, width - fixed - 1)) + "…"
    filled = round(bar_cells * min(1.0, max(0.0, share)))
    line = Text(no_wrap=True, overflow="crop")
    line.append(name + GAP, "bold")
    line.append(full * filled, "green").append(rest * (bar_cells - filled), "dim")
    line.append(GAP + kept[0] + GAP).append(kept[1], "cyan")
    if more := fitting(details, width - line.cell_len - len(GAP)):
        line.append(GAP + more, "dim")
    return line


def plain_line(lesson: str, kept: tuple[str, str], details: Sequence[str]) -> str:
    """The line of a log."""
    line = f"{lesson}: {kept[0].strip()} · {kept[1]}"
    more = fitting(details, LOG_CELLS - cell_len(line) - 3)
    return f"{line} · {more}" if more else line


def fitting(parts: Sequence[str], room: int) -> str:
    """The first of `parts`, as many as fit into `room` cells whole; none is cut."""
    taken = ""
    for part in parts:
        longer = f"{taken} · {part}" if taken else part
        if cell_len(longer) > room:
            break
        taken = longer
    return taken


def clock(seconds: float) -> str:
    """'0:45', '12:05', '1:02:05'; '–' when it would be days."""
    if not seconds < 100 * 3600:
        return "–"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"
