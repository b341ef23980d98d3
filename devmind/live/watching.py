"""A training run on the page of a life: what its journal tells, once a second, for as long as somebody watches.

The journal alone is read: it holds the numbers of the log files too, by lesson, and is written while the run goes on.
Nothing is written here, so any number may watch, from another process or a machine that shares the folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from devmind.curriculum.journal import Journal
from devmind.errors import ConfigError, DevmindError

POINTS = 240
"""Of a curve; when there are more, every second one goes, and so it is with those to come."""
PERIOD_S = 1.0


class Publisher(Protocol):
    """Where views go: a `Hub`."""

    def publish(self, view: Mapping[str, Any], jpeg: bytes | None = None) -> None:
        """Give everybody who watches the newest view."""


class Story:
    """What one stage's journal has told so far: its lesson, the curves of its numbers, the newest scores."""

    def __init__(self, journal: Journal) -> None:
        self.journal, self._read_to = journal, 0
        self.stage, self.lesson, self.step = "", "", 0
        self.steps: dict[str, int] = {}
        self._forget_curves()
        self.scores: dict[str, dict[str, Any]] = {}
        self.saved_s: float | None = None

    def _forget_curves(self) -> None:
        self.curves: dict[str, list[tuple[int, float]]] = {}
        self.newest: dict[str, tuple[int, float]] = {}
        self._told, self._every = 0, 1

    def read_on(self) -> None:
        """Take in what was written since the last time."""
        events, self._read_to = self.journal.after(self._read_to)
        for event in events:
            take = getattr(self, f"_on_{event.get('event')}", None)
            if take:
                take(event)

    def learning(self) -> dict[str, Any]:
        """`lesson`, `step` (0 in exams), `steps`, `curves` {name: [[step, value], ...]} of it, `scores` of all."""
        return {
            "lesson": self.lesson,
            "step": self.step,
            "steps": self.steps.get(self.lesson, 0),
            "curves": {name: [list(point) for point in self._curve(name)] for name in self.newest},
            "scores": list(self.scores.values()),
        }

    def _curve(self, name: str) -> list[tuple[int, float]]:
        """What was kept, and the newest number."""
        kept, last = self.curves.get(name, []), self.newest[name]
        return kept if kept and kept[-1] == last else [*kept, last]

    def _on_start(self, event: Mapping[str, Any]) -> None:
        self.stage = event.get("identity", {}).get("stage", "")

    def _on_plan(self, event: Mapping[str, Any]) -> None:
        self.steps = dict(event["steps"])

    def _on_progress(self, event: Mapping[str, Any]) -> None:
        if event["lesson"] != self.lesson:
            self.lesson = event["lesson"]
            self._forget_curves()
        if event["step"] <= self.step:  # a stopped run goes on from its last checkpoint, or a lesson is repeated
            for name, curve in self.curves.items():
                self.curves[name] = [point for point in curve if point[0] < event["step"]]
        self.step = event["step"]
        self.newest = {name: (self.step, value) for name, value in event.get("scalars", {}).items()}
        if self._told % self._every == 0:
            self._keep()
        self._told += 1

    def _keep(self) -> None:
        for name, point in self.newest.items():
            self.curves.setdefault(name, []).append(point)
        if max((len(curve) for curve in self.curves.values()), default=0) >= POINTS:
            self.curves = {name: curve[::2] for name, curve in self.curves.items()}
            self._every *= 2

    def _on_checkpoint(self, event: Mapping[str, Any]) -> None:
        self.saved_s = event["time"]

    def _on_glimpse(self, event: Mapping[str, Any]) -> None:
        for name, score in event["scores"].items():
            self.scores[name] = {"name": name, "score": score, "passed": None}

    def _on_exam(self, event: Mapping[str, Any]) -> None:
        self.lesson, self.step = f"exam of {event['skill']}", 0
        self._forget_curves()
        for name, score in event["scores"].items():
            self.scores[name] = {"name": name, "score": score, "passed": event["passed"]}

    def _on_finished(self, event: Mapping[str, Any]) -> None:
        self.lesson, self.step = "finished: passed" if event["passed"] else "finished: a gate was failed", 0


class Watching:
    """Stands where a `Life` stands for the page's server, but there is nobody to talk to.

    Args:
        run: folder of a stage's run, or of a curriculum, whose newest stage is shown.
        hub: gets a view each second.

    Raises:
        ConfigError: there is no run in that folder.
    """

    mailboxes: tuple[Any, ...] = ()

    def __init__(self, run: Path, hub: Publisher) -> None:
        self.folder, self.hub = run, hub
        self.story = Story(self._newest())

    def _newest(self) -> Journal:
        """The journal written last: the folder's own, or that of one of its stages."""
        found = [*self.folder.glob("journal.jsonl"), *self.folder.glob("*/journal.jsonl")]
        if not found:
            raise ConfigError(
                f"There is no run in '{self.folder}' (no journal.jsonl); give the folder that --out named, "
                "such as checkpoints/reflex-nursery-seed0."
            )
        return Journal(max(found, key=lambda path: path.stat().st_mtime))

    def welcome(self) -> dict[str, Any]:
        """What a page is told first: there is something to watch, and nothing to do."""
        return {
            "type": "welcome", "mode": "watch", "camera": "none", "microphone": "none", "hz": 1 / PERIOD_S,
            "private": False, "ages": [], "age": "", "examples": {}, "can_record": False,
            "version": metadata.version("devmind"),
        }  # fmt: skip

    def do(self, command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Refuse.

        Raises:
            DevmindError: always.
        """
        raise DevmindError(f"Nobody is awake here to '{command}': this page watches a run. Meet one by 'devmind live'.")

    def view(self) -> dict[str, Any]:
        """What there is to show now."""
        newest = self._newest()
        if newest.path != self.story.journal.path:  # a curriculum went on to its next stage
            self.story = Story(newest)
        self.story.read_on()
        saved_s = self.story.saved_s
        age_s = None if saved_s is None else max(0.0, time.time() - saved_s)
        return {"type": "tick", "learning": self.story.learning(), "checkpoint_age_s": age_s}

    def run(
        self,
        seconds: float | None = None,
        stop: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Publish a view each second for so long (for ever by default) or until `stop()`.

        It goes on after the run has finished, so that who opens the page then sees the end.
        """
        until_s = time.monotonic() + (float("inf") if seconds is None else seconds)
        while True:
            self.hub.publish(self.view(), None)
            if stop() or time.monotonic() >= until_s:
                return
            sleep(min(PERIOD_S, max(0.0, until_s - time.monotonic())))
