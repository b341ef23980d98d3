"""Figures as inline SVG: coloured by the page's style sheet, so they follow light, dark and print."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, isfinite, log10

from markupsafe import Markup, escape

from devmind.report.results import Curve, MeasureResult
from devmind.report.words import number

WIDTH, HEIGHT = 380, 210
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 24, 34
MOST_POINTS = 300


def interval_bar(measure: MeasureResult) -> Markup:
    """Score and 95 % interval on a line with chance, floor and gate; its good side of the gate is tinted.

    Positions are percentages, so the bar stretches with its cell without distortion.
    """
    marks = [measure.score, measure.low, measure.high, measure.chance, measure.floor, measure.ceiling, measure.gate]
    start, end = _domain([mark for mark in marks if mark is not None and isfinite(mark)])

    def at(value: float) -> float:
        return 1.5 + 97 * (min(max(value, start), end) - start) / (end - start) if isfinite(value) else 1.5

    state = {True: "pass", False: "fail", None: "plain"}[measure.passed]
    parts = ['<line class="track" x1="1.5%" x2="98.5%" y1="15" y2="15"/>']
    if measure.gate is not None:
        gate = at(measure.gate)
        left, right = (gate, 98.5) if measure.higher_is_better else (1.5, gate)
        parts.append(f'<rect class="good" x="{left:.2f}%" y="5" width="{max(right - left, 0):.2f}%" height="20"/>')
        parts.append(f'<line class="gate" x1="{gate:.2f}%" x2="{gate:.2f}%" y1="2" y2="28"/>')
    for kind, value in (("chance", measure.chance), ("floor", measure.floor)):
        if kind == "chance" or value != measure.chance:
            parts.append(f'<line class="{kind}" x1="{at(value):.2f}%" x2="{at(value):.2f}%" y1="8" y2="22"/>')
    low, high = at(measure.low), at(measure.high)
    parts.append(f'<line class="interval {state}" x1="{low:.2f}%" x2="{high:.2f}%" y1="15" y2="15"/>')
    parts.append(f'<circle class="score {state}" cx="{at(measure.score):.2f}%" cy="15" r="5"/>')
    caption = f"{measure.name}: {number(measure.score)}, 95 % interval {number(measure.low)} to {number(measure.high)}"
    caption += f", gate {number(measure.gate)}" if measure.gate is not None else ", not gated"
    label = escape(f"{caption}, chance {number(measure.chance)}, floor {number(measure.floor)}")
    return Markup(
        f'<svg class="bar" height="30" role="img" aria-label="{label}"><title>{label}</title>{"".join(parts)}</svg>'
    )


def _domain(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=0.0), max(values, default=1.0)
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return (low, high) if high > low else (low - 1, high + 1)


def line_chart(name: str, curve: Curve, axis: str, y_unit: str = "") -> Markup:
    """A curve against 'step' or 'seconds'; a long one as a thin line with its running mean on top.

    `y_unit` is printed above the axis of the values.
    """
    return overlaid(name, [curve], axis, y_unit)


def overlaid(name: str, curves: Sequence[Curve | None], axis: str, y_unit: str = "") -> Markup:
    """Curves over one another as `line_chart` draws one, each in the hue of its place; None leaves a place out."""
    every = [_points(curve, axis) for curve in curves]
    points = [point for some in every for point in some]
    unit = "steps" if axis == "step" else "seconds"
    label = escape(f"{name} against {unit}")
    head = f'<svg class="chart by-{axis}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
    if not points:
        return Markup(f'{head}<text class="tick" x="{LEFT}" y="{HEIGHT // 2}">no finite values</text></svg>')
    xs, ys = zip(*points, strict=True)
    x_end = max(xs) if max(xs) > 0 else 1.0
    y_start, y_end = _vertical_range(min(ys), max(ys))

    def place(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (WIDTH - LEFT - RIGHT) * x / x_end
        return across, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (y - y_start) / (y_end - y_start)

    body = [_grid_y(y, place(0, y)[1]) for y in nice_ticks(y_start, y_end)]
    body += [_tick_x(x, place(x, 0)[0]) for x in nice_ticks(0, x_end)]
    body.append(f'<text class="axis" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 2}">{unit}</text>')
    body.append(f'<text class="unit" x="2" y="11">{escape(y_unit)}</text>')
    for number_of, some in enumerate(every):
        if not some:
            continue
        hue = f" of{number_of}" if len(curves) > 1 else ""
        smooth = running_mean(some)
        if smooth:
            body.append(f'<path class="raw{hue}" d="{_path([place(*p) for p in thin(some)])}"/>')
        line = smooth or some
        body.append(f'<path class="line{hue}" d="{_path([place(*p) for p in thin(line)])}"/>')
        x, y = place(*line[-1])
        body.append(f'<circle class="end{hue}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
    return Markup(head + "".join(body) + "</svg>")


def _points(curve: Curve | None, axis: str) -> list[tuple[float, float]]:
    pairs = zip(getattr(curve, axis), curve.value, strict=True) if curve else ()
    return [(x, y) for x, y in pairs if isfinite(x) and isfinite(y)]


def _vertical_range(low: float, high: float) -> tuple[float, float]:
    """The data's range with a small margin, beginning at zero if zero is near; never empty."""
    if high <= low:
        pad = abs(low) / 2 or 0.5
        return low - pad, high + pad
    pad = 0.05 * (high - low)
    return (0.0 if 0 <= low < high / 3 else low - pad), high + pad


def _grid_y(value: float, y: float) -> str:
    line = f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return f'{line}<text class="tick y" x="{LEFT - 6}" y="{y + 3.5:.1f}">{_short(value)}</text>'


def _tick_x(value: float, x: float) -> str:
    return f'<text class="tick x" x="{x:.1f}" y="{HEIGHT - BOTTOM + 15}">{_short(value)}</text>'


def _short(value: float) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:g} M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:g} k"
    return f"{round(value, 10):g}".replace("-", "−")


def nice_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Two to `about` + 1 ticks within [low, high], at 1, 2 or 5 times a power of ten."""
    rough = (high - low) / about
    power = 10.0 ** floor(log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    return [i * step for i in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def running_mean(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Centred mean over a twentieth of the points, one-sided at the ends; empty for fewer than 40 points."""
    n = len(points)
    if n < 40:
        return []
    sums = [0.0]
    for _, y in points:
        sums.append(sums[-1] + y)
    means = []
    for i, (x, _) in enumerate(points):
        first, last = max(0, i - n // 40), min(n, i + n // 40 + 1)
        means.append((x, (sums[last] - sums[first]) / (last - first)))
    return means


def thin(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """About `MOST_POINTS` points: both ends, and the lowest and highest of each group, so that no spike is lost."""
    if len(points) <= MOST_POINTS:
        return list(points)
    size = ceil(2 * len(points) / MOST_POINTS)
    kept: list[tuple[float, float]] = []
    for start in range(0, len(points), size):
        run = range(start, min(start + size, len(points)))
        ends = {min(run, key=lambda i: points[i][1]), max(run, key=lambda i: points[i][1])}
        kept += [points[i] for i in sorted(ends | ({0, len(points) - 1} & set(run)))]
    return kept


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
