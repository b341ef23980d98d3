"""The report: one self-contained HTML file, made from results.json alone."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from devmind.report import plots, words
from devmind.report.results import LAYERS_PASS, Curve, Exhibit, MeasureResult, Results, validate

if TYPE_CHECKING:
    from jinja2 import Environment

SMALL_PICTURE = 200
"""Pictures narrower than this number of pixels are enlarged without smoothing, because every pixel matters."""


LISTED_FAILURES = 10
"""Failures beyond this number are folded."""


def render(results: Results | Mapping[str, Any]) -> str:
    """The report of one stage as a self-contained page: no script, no outside address, everything escaped.

    Raises:
        DevmindError: `results` is not what results.json holds.
    """
    results = validate(results)
    page = environment().get_template("page.html.j2")
    run, measures = results.run, [measure for skill in results.skills for measure in skill.measures]
    return page.render(
        results=results,
        style=resource("page.css"),
        machine=words.machine(run.device, run.cores, run.threads, run.gflops),
        gated=[measure for measure in measures if measure.passed is not None and not measure.goal],
        goals=[measure for measure in measures if measure.goal],
        failures=failures(results),
        listed=LISTED_FAILURES,
        anchors={measure.name: f"measure-{number}" for number, measure in enumerate(measures)},
        beaten=[measure for measure in measures if measure.passed and measure.beaten_by],
        floors_above=[measure.name for measure in measures if floor_above_gate(measure)],
        curves=curves_by_lesson(results),
        cut=[lesson for lesson in results.lessons if lesson.status == "cut"],
        examples=_exhibits(results, "example"),
        worst=_exhibits(results, "failure"),
        changed=[measure for measure in measures if set(measure.rows) - {LAYERS_PASS}],
        layers_pass=LAYERS_PASS,
        measures={measure.name: measure for measure in measures},
    )


def failures(results: Results) -> list[tuple[str, MeasureResult | None]]:
    """The verdict's reasons, except those of passed gates, each with its measure, if it has one."""
    of = {measure.reason: measure for skill in results.skills for measure in skill.measures}
    every = [(reason, of.get(reason)) for reason in results.verdict.reasons]
    return [(_readable(reason, measure), measure) for reason, measure in every if not (measure and measure.passed)]


def _readable(reason: str, measure: MeasureResult | None) -> str:
    """The reason, beginning with its measure's name for readers."""
    if measure is None or not reason.startswith(f"{measure.name}:"):
        return reason
    return words.measure_words(measure.name) + reason.removeprefix(measure.name)


def floor_above_gate(measure: MeasureResult) -> bool:
    """Whether the best floor is better than the gate's bound."""
    if measure.gate is None:
        return False
    return measure.floor > measure.gate if measure.higher_is_better else measure.floor < measure.gate


def curves_by_lesson(results: Results) -> dict[str, list[tuple[str, str, dict[str, Curve]]]]:
    """By lesson, in the order of teaching, `(title, unit, curves)` of what it logged, in reading order.

    Curves have the name ''; those of a population's best, median and worst member stand together, by these words.
    """
    found: dict[str, dict[str, Curve]] = {lesson.name: {} for lesson in results.lessons}
    for name, curve in results.curves.items():
        lesson, _, number = name.partition("/")
        found.setdefault(lesson, {})[number] = curve
    return {lesson: _figures(curves) for lesson, curves in found.items() if curves}


def _figures(curves: dict[str, Curve]) -> list[tuple[str, str, dict[str, Curve]]]:
    together: dict[str, dict[str, str]] = {}
    for name in words.reading_order(curves):
        which, quantity = words.spread_words(name)
        together.setdefault(quantity, {})[which] = name
    shown = []
    for quantity, some in together.items():
        if len(some) == 1:
            (name,) = some.values()
            shown.append((*words.curve_words(name), {"": curves[name]}))
        else:
            order = sorted(some, key=("", *words.SPREAD).index)
            shown.append((*words.curve_words(quantity), {which: curves[some[which]] for which in order}))
    return shown


@cache
def environment() -> Environment:
    """The Jinja environment of all pages."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        loader=FunctionLoader(resource),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        name: getattr(words, name)
        for name in ("number", "count", "duration", "memory", "percent", "trial", "measure_words")
    }
    made.globals |= {
        "interval_bar": plots.interval_bar,
        "overlaid": plots.overlaid,
        "slices": slices,
        "is_small": is_small,
        "is_strip": is_strip,
        "heat": heat,
        "moment": moment,
        "worse": worse,
    }
    return made


@cache
def resource(name: str) -> str:
    """A file of this folder."""
    return (files("devmind.report") / name).read_text(encoding="utf-8")


def _exhibits(results: Results, kind: str) -> list[tuple[MeasureResult, Exhibit]]:
    """The exhibits of one kind, each with its measure, pictures before sounds."""
    found = [
        (measure, exhibit)
        for skill in results.skills
        for measure in skill.measures
        for exhibit in measure.exhibits
        if exhibit.kind == kind
    ]
    return sorted(found, key=lambda pair: pair[1].png is None)


def slices(amounts: Mapping[str, float]) -> list[tuple[str, float, float]]:
    """`(name, amount, share of the whole)`, largest first, without zeros."""
    whole = sum(amounts.values())
    ordered = sorted(amounts.items(), key=lambda item: -item[1])
    return [(name, amount, amount / whole) for name, amount in ordered if amount > 0]


def is_small(png: str) -> bool:
    """Whether a base64 PNG is narrower than `SMALL_PICTURE` pixels."""
    width, _ = picture_size(png)
    return 0 < width < SMALL_PICTURE


def is_strip(png: str | None) -> bool:
    """Whether a base64 PNG is several pictures side by side, too wide for one card of the gallery."""
    width, height = picture_size(png) if png else (0, 0)
    return width > 3 * height


def picture_size(png: str) -> tuple[int, int]:
    """Width and height of a base64 PNG in pixels, read from its header; zeros if it is no PNG."""
    try:
        width, height = struct.unpack(">II", base64.b64decode(png[:32])[16:24])
    except (ValueError, struct.error):
        return 0, 0
    return width, height


def heat(score: float | None) -> int:
    """The tint of a matrix cell in percent: 0 for a skill score of 0 (chance), full for 1 (ceiling)."""
    return 0 if score is None else round(75 * min(max(score, 0.0), 1.0))


def worse(measure: MeasureResult, value: float) -> bool:
    """Whether `value` is worse than the measure's score."""
    return value < measure.score if measure.higher_is_better else value > measure.score


def moment(iso: str) -> str:
    """An ISO 8601 text as '2026-03-01 14:05 UTC'; other text unchanged."""
    from datetime import UTC, datetime

    try:
        time = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if time.tzinfo else f"{time:%Y-%m-%d %H:%M}"
