"""Figures: positions computed by hand, round ticks, and spikes that survive thinning."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmind.report.plots import MOST_POINTS, interval_bar, line_chart, nice_ticks, running_mean, thin
from devmind.report.results import Curve, MeasureResult


def drawn(svg: str) -> dict[str, dict[str, str]]:
    """Attributes of the figure's elements by class."""
    return {e.attrib["class"]: e.attrib for e in ElementTree.fromstring(svg) if "class" in e.attrib}


def percent(text: str) -> float:
    return float(text.rstrip("%"))


def test_the_bar_draws_score_interval_and_gate_at_their_values(results: dict[str, Any]) -> None:
    measure = MeasureResult.model_validate(results["skills"][0]["measures"][0])
    marks = drawn(interval_bar(measure))
    assert percent(marks["score pass"]["cx"]) == pytest.approx(1.5 + 97 * 0.941, abs=0.01)
    assert percent(marks["interval pass"]["x1"]) == pytest.approx(1.5 + 97 * 0.925, abs=0.01)
    assert percent(marks["gate"]["x1"]) == pytest.approx(1.5 + 97 * 0.9, abs=0.01)
    assert percent(marks["good"]["x"]) == percent(marks["gate"]["x1"])


def test_the_good_side_is_left_where_lower_is_better(results: dict[str, Any]) -> None:
    measure = MeasureResult.model_validate(results["skills"][0]["measures"][2])
    marks = drawn(interval_bar(measure))
    assert percent(marks["good"]["x"]) == 1.5
    assert percent(marks["good"]["x"]) + percent(marks["good"]["width"]) == pytest.approx(percent(marks["gate"]["x1"]))


@given(st.lists(st.floats(-1e9, 1e9), min_size=7, max_size=7))
def test_no_mark_leaves_the_bar(values: list[float]) -> None:
    score, low, high, chance, floor, ceiling, gate = values
    measure = MeasureResult(
        name="x", unit="u", score=score, low=low, high=high, n=3, chance=chance, floor=floor, ceiling=ceiling,
        gate=gate, passed=False, reason="",
    )  # fmt: skip
    places = [float(text) for text in re.findall(r'(?:cx|x1|x2|x)="([-0-9.e]+)%"', interval_bar(measure))]
    assert all(1.49 <= place <= 98.51 for place in places)


def test_a_line_ends_at_its_last_value() -> None:
    svg = line_chart("loss", Curve(step=[0, 5, 10], seconds=[0, 1, 4], value=[3.0, 2.0, 0.0]), "step")
    marks = drawn(svg)
    assert marks["line"]["d"].count("L") == 2
    assert float(marks["end"]["cx"]) == 380 - 12
    assert float(marks["end"]["cy"]) == 210 - 34


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_round_few_and_within_the_range(low: float, width: float) -> None:
    ticks = nice_ticks(low, low + width)
    assert 2 <= len(ticks) <= 6
    slack = 1e-6 * (abs(low) + width)
    assert low - slack <= ticks[0] < ticks[-1] <= low + width + slack


def test_nice_ticks_gives_the_known_ticks() -> None:
    assert nice_ticks(0, 6000) == [0, 2000, 4000, 6000]
    assert nice_ticks(-0.1, 1.0) == pytest.approx([0, 0.5, 1.0])


def test_thinning_keeps_ends_and_spikes() -> None:
    points = [(float(i), 0.0) for i in range(10_000)]
    points[4321] = (4321.0, 9.0)
    kept = thin(points)
    assert len(kept) <= MOST_POINTS + 4
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]
    assert points[4321] in kept
    assert kept == sorted(kept)


def test_the_running_mean_of_a_straight_line_is_the_line() -> None:
    points = [(float(i), 2.0 * i) for i in range(100)]
    means = [mean for _, mean in running_mean(points)]
    assert means[10:90] == pytest.approx([y for _, y in points[10:90]])
    assert running_mean(points[:39]) == []
