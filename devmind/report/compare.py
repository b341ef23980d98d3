"""Two runs of one stage side by side: gates, scores with intervals, differences, curves; one self-contained page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any

from devmind.errors import DevmindError
from devmind.report import words
from devmind.report.page import environment, resource
from devmind.report.results import Curve, MeasureResult, Results

MARK = "Made by devmind report compare"
"""Stands in every such page: a file with it may be replaced by another one."""


@dataclass(frozen=True)
class Pair:
    """One measure of both runs; None where a run does not have it."""

    name: str
    one: MeasureResult | None
    other: MeasureResult | None

    @property
    def difference(self) -> float | None:
        """The second score minus the first."""
        return self.other.score - self.one.score if self.one and self.other else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the difference, made of both scores' intervals as if their episodes were independent
        (MOVER: Zou and Donner, Statistics in Medicine 27, 2008, eq. 3). On equal episodes it is too wide, never too
        narrow, where good episodes of one run are good ones of the other.
        """
        if not self.one or not self.other:
            return None
        low = hypot(self.other.score - self.other.low, self.one.high - self.one.score)
        high = hypot(self.other.high - self.other.score, self.one.score - self.one.low)
        return self.other.score - self.one.score - low, self.other.score - self.one.score + high

    @property
    def answer(self) -> str:
        """Whether the second run is better or worse than the first, or no difference is shown."""
        if self.interval is None or self.one is None:
            return ""
        low, high = self.interval
        if low <= 0 <= high:
            return "no difference shown"
        return "better" if (low > 0) == self.one.higher_is_better else "worse"


def pairs(one: Results, other: Results) -> list[Pair]:
    """The measures of both, in the order of the first, then those that only the second has."""
    first, second = (
        {measure.name: measure for skill in results.skills for measure in skill.measures} for results in (one, other)
    )
    return [Pair(name, first.get(name), second.get(name)) for name in {**first, **second}]


def curves(one: Results, other: Results) -> dict[str, list[tuple[str, str, Sequence[Curve | None]]]]:
    """By lesson, `(title, unit, curves of both)` of what was logged, in reading order."""
    found: dict[str, list[str]] = {}
    for name in {**one.curves, **other.curves}:
        lesson, _, number = name.partition("/")
        found.setdefault(lesson, []).append(number)
    return {
        lesson: [
            (*words.curve_words(name), [results.curves.get(f"{lesson}/{name}") for results in (one, other)])
            for name in words.reading_order(names)
        ]
        for lesson, names in found.items()
    }


def settings(one: Results, other: Results) -> list[tuple[str, Any, Any]]:
    """What the runs were made with, where that differs: `(name, of the first, of the second)`."""
    rows: list[tuple[str, Any, Any]] = []

    def add(name: str, first: Any, second: Any) -> None:
        if first != second and name not in {row[0] for row in rows}:  # the seed is a key of the configuration, too
            rows.append((name, "none" if first is None else first, "none" if second is None else second))

    for name in ("seed", "size", "started_from", "commit", "device", "threads"):
        add(name.replace("_", " "), getattr(one.run, name), getattr(other.run, name))
    _each(add, one.run.changes, other.run.changes, lambda pair: pair[1])
    _each(add, one.run.versions, other.run.versions, lambda version: version)
    return rows


def _each(add: Any, first: Mapping[str, Any], second: Mapping[str, Any], value: Any) -> None:
    """Add the entries of two mappings; a key of the configuration that one lacks has its default there."""
    for key in {**first, **second}:
        there = first.get(key, second.get(key))
        usual = there[0] if isinstance(there, tuple) else None
        add(key, *(value(some[key]) if key in some else usual for some in (first, second)))


def render(one: Results, other: Results, names: tuple[str, str]) -> str:
    """The page of two runs: no script, no outside address, everything escaped.

    Args:
        names: how the page calls the runs.

    Raises:
        DevmindError: they are of two stages.
    """
    if one.stage != other.stage:
        raise DevmindError(
            f"'{names[0]}' is a run of stage '{one.stage}' and '{names[1]}' of '{other.stage}', which share no exam; "
            "give two runs of one stage."
        )
    every = pairs(one, other)
    gated = [pair for pair in every if any(m and m.passed is not None and not m.goal for m in (pair.one, pair.other))]
    return environment().get_template("compare.html.j2").render(
        runs=[one, other], names=names, mark=MARK, style=resource("page.css"), pairs=every, gated=gated,
        curves=curves(one, other), settings=settings(one, other),
        differing=[pair for pair in every if pair.answer in ("better", "worse")],
        machines=[words.machine(r.run.device, r.run.cores, r.run.threads, r.run.gflops) for r in (one, other)],
        lessons=list(dict.fromkeys(lesson.name for results in (one, other) for lesson in results.lessons)),
    )  # fmt: skip
