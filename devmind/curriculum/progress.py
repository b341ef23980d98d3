"""What a user sees while a lesson runs: step, speed, time left, loss, and the latest exam scores."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class LessonProgress:
    """A rich progress bar on a terminal, a line every ten seconds elsewhere (logs, CI)."""

    def __init__(self, lesson: str, steps: int, done: int, scores: str) -> None:
        self.lesson, self.steps, self.started_at, self.scores = lesson, steps, done, scores
        self.since = self.spoke_at = time.monotonic()
        self.console = Console(stderr=True)
        self.bar: Progress | None = None
        self.task = TaskID(0)
        if self.console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
            self.bar = Progress(
                *columns, TextColumn("{task.fields[speed]}"), TimeRemainingColumn(), console=self.console
            )
            self.task = self.bar.add_task(lesson, total=steps, completed=done, speed="")

    def __enter__(self) -> Self:
        if self.bar:
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar:
            self.bar.stop()

    def show(self, step: int, loss: float | None) -> None:
        """Say where the lesson is; cheap enough for every step."""
        now = time.monotonic()
        speed = (step - self.started_at) / max(1e-9, now - self.since)
        text = f"{speed:.1f} steps/s" + (f" · loss {loss:.3f}" if loss is not None else "")
        text += f" · {self.scores}" if self.scores else ""
        if self.bar:
            self.bar.update(self.task, completed=step, speed=text)
        elif now - self.spoke_at > 10 or step >= self.steps:
            self.spoke_at = now
            left = (self.steps - step) / max(1e-9, speed)
            print(f"{self.lesson}: {step}/{self.steps} · {text} · {left:.0f} s left", file=sys.stderr, flush=True)
