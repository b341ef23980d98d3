"""The journal of a stage's run, prepared for the page that watches it: every lesson, every score, its state.

Only the journal is read: it also has the numbers of the log files, by lesson, and is written while the run goes on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from devmind.curriculum.journal import Journal
from devmind.report.words import curve_words, duration, reading_order

POINTS = 240
"""Points of a curve; when there are more, every second one is dropped, now and in future."""
QUIET_S = 180.0
"""A run that writes nothing for so long may be in a long exam, or killed: the journal cannot tell which."""


class LessonCurves:
    """One lesson's numbers by step."""

    def __init__(self) -> None:
        self.step, self.status = 0, "now"
        self._points_by_name: dict[str, list[tuple[int, float]]] = {}
        self._newest: dict[str, tuple[int, float]] = {}
        self._taken, self._every = 0, 1

    def take(self, step: int, scalars: Mapping[str, float]) -> None:
        """Take one progress event; an earlier step replaces the points from there on."""
        if step <= self.step:  # a stopped run resumes from its last checkpoint, or a lesson is repeated
            for name, curve in self._points_by_name.items():
                self._points_by_name[name] = [point for point in curve if point[0] < step]
            self._newest = {name: point for name, point in self._newest.items() if point[0] < step}
        self.step, self.status = step, "now"
        self._newest |= {name: (step, value) for name, value in scalars.items()}
        if self._taken % self._every == 0:
            self._keep(scalars)
        self._taken += 1

    def _keep(self, scalars: Mapping[str, float]) -> None:
        for name in scalars:
            self._points_by_name.setdefault(name, []).append(self._newest[name])
        if max((len(curve) for curve in self._points_by_name.values()), default=0) >= POINTS:
            self._points_by_name = {name: curve[::2] for name, curve in self._points_by_name.items()}
            self._every *= 2

    def curves(self) -> list[dict[str, Any]]:
        """`{"name", "unit", "points": [[step, value], ...]}` in reading order; always with the newest number."""
        return [
            dict(zip(("name", "unit"), curve_words(name), strict=True)) | {"points": self._points(name)}
            for name in reading_order(self._newest)
        ]

    def _points(self, name: str) -> list[list[float]]:
        points, newest = self._points_by_name.get(name, []), self._newest[name]
        return [list(point) for point in (points if points and points[-1] == newest else [*points, newest])]


class JournalView:
    """The content of one stage's journal so far.

    The times of the journal are the wall clock's, which may be set while a run is watched, or differ on the machine
    that runs it. So they date only what was written before the first look; what comes later is dated by this process's
    monotonic clock when it is read.

    Attributes:
        saved_s: when the newest checkpoint was made, time.monotonic() seconds; None without one.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal, self._read_to = journal, 0
        self.stage, self.lesson = "", ""
        self.steps: dict[str, int] = {}
        self.lessons: dict[str, LessonCurves] = {}
        self.scores: dict[str, dict[str, Any]] = {}
        self.state, self._says = "begun", "making the agent"
        self._unsaved = ""
        self.saved_s: float | None = None
        self._is_first_look = True
        self._last_event_s = time.monotonic()

    def read_on(self) -> None:
        """Take in what was written since the last call."""
        events, self._read_to = self.journal.after(self._read_to)
        wall_s, now_s = time.time(), time.monotonic()
        for event in events:
            age_s = max(0.0, wall_s - event.get("time", wall_s)) if self._is_first_look else 0.0
            self._last_event_s = now_s - age_s
            take = getattr(self, f"_on_{event.get('event')}", None)
            if take:
                take(event)
        self._is_first_look = False

    def view(self) -> dict[str, Any]:
        """`stage`, `state` and the header's text `says`, `lessons` with their curves, `scores` beside their gates.

        States: begun, teaching, examining, passed, failed (a gate was), stopped, broken (by a fault), quiet.
        """
        silent_s = time.monotonic() - self._last_event_s
        state, says = self.state, f"{self._says}; {self._unsaved}" if self._unsaved else self._says
        if state in ("begun", "teaching", "examining") and silent_s > QUIET_S:
            state, says = "quiet", f"no news for {duration(silent_s)}: a long exam, or it was killed ({says})"
        return {
            "stage": self.stage,
            "state": state,
            "says": says,
            "lessons": [
                {"name": name, "step": one.step, "steps": self.steps.get(name, 0), "status": one.status}
                | {"curves": one.curves()}
                for name, one in self.lessons.items()
            ],
            "scores": list(self.scores.values()),
        }

    def _where(self) -> str:
        names, one = list(self.steps), self.lessons.get(self.lesson)
        of = f", lesson {names.index(self.lesson) + 1} of {len(names)}" if self.lesson in names else ""
        steps = f", step {one.step:,} of {self.steps.get(self.lesson, 0):,}" if one and self.lesson in names else ""
        return f"{self.lesson}{of}{steps}"

    def _on_start(self, event: Mapping[str, Any]) -> None:
        self.stage = event.get("identity", {}).get("stage", "")

    def _on_resumed(self, event: Mapping[str, Any]) -> None:
        self.state, self._says = "begun", "going on after a stop"

    def _on_plan(self, event: Mapping[str, Any]) -> None:
        self.steps = dict(event["steps"])

    def _on_begun(self, event: Mapping[str, Any]) -> None:
        if "exam" in event:
            self.state, self._says = "examining", f"examining {event['exam']}"
        else:
            self.lesson = event["lesson"]
            self.steps |= {self.lesson: event["steps"]} if "steps" in event else {}  # fewer where a stage is repeated
            self.state, self._says = "teaching", f"preparing {self._where()}"

    def _on_progress(self, event: Mapping[str, Any]) -> None:
        self.lesson = event["lesson"]
        self.lessons.setdefault(self.lesson, LessonCurves()).take(event["step"], event.get("scalars", {}))
        self.state, self._says = "teaching", f"teaching {self._where()}"

    def _on_lesson_done(self, event: Mapping[str, Any]) -> None:
        self.lessons.setdefault(event["lesson"], LessonCurves()).status = event["status"]

    def _on_checkpoint(self, _: Mapping[str, Any]) -> None:
        self.saved_s, self._unsaved = self._last_event_s, ""

    def _on_checkpoint_failed(self, event: Mapping[str, Any]) -> None:
        self._unsaved = event["fault"]

    def _on_glimpse(self, event: Mapping[str, Any]) -> None:
        self._take_scores(event, f"after {event['lesson']}")

    def _on_exam(self, event: Mapping[str, Any]) -> None:
        self._take_scores(event, "in its exam")

    def _take_scores(self, event: Mapping[str, Any], when: str) -> None:
        """`measures` has the gates; journals from before that event have only the scores."""
        measures = event.get("measures", {})
        for name, score in event["scores"].items():
            self.scores[name] = {"name": name, "score": score, "when": when, "passed": None, **measures.get(name, {})}

    def _on_stopped(self, event: Mapping[str, Any]) -> None:
        fault, where = event.get("fault"), f" in {self._where()}" if self.lesson else ""
        self.state = "broken" if fault else "stopped"
        self._says = f"broke off{where}: {fault}" if fault else f"stopped{where}; the same command goes on"

    def _on_finished(self, event: Mapping[str, Any]) -> None:
        self.state = "passed" if event["passed"] else "failed"
        self._says = "finished: passed" if event["passed"] else "finished: failed, a gate was not reached"
