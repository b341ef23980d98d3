"""The terminal's table and its numbers."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from devmind.report.table import verdict_table
from devmind.report.words import count, curve_words, duration, memory, number, percent, reading_order


def printed(results: dict[str, Any], width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(verdict_table(results))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_table_gives_the_verdict_and_the_remarks(results: dict[str, Any]) -> None:
    results["verdict"]["reasons"].append("navigate: nothing that its gate asks was measured")
    text = printed(results)
    assert "reflex: FAILED" in text
    row = next(line for line in text.splitlines() if "orient/sound" in line)
    wanted = "orient/sound 0.702 0.671–0.733 400 0.100 0.350 ≥ 0.700 ✗ failed"
    assert " ".join(row.split()) == wanted
    assert "≤ 0.250" in next(line for line in text.splitlines() if "see/depth" in line)
    for remark in (
        "newborn/cry was not kept: -0.081",
        "navigate: nothing that its gate asks was measured",
        "lesson move was cut at 640 of 900",
        "failed its gate",
        "not run",
    ):
        assert remark in text


def test_what_passed_is_named_before_what_a_rule_does_better(results: dict[str, Any]) -> None:
    measures = [measure for skill in results["skills"] for measure in skill["measures"]]
    judged = [measure for measure in measures if measure["passed"] is not None]
    passed = [measure["name"] for measure in judged if measure["passed"]]
    next(measure for measure in judged if measure["passed"])["beaten_by"] = "name of the nearest key"
    text = " ".join(printed(results).split())
    said = f"passed {len(passed)} of {len(judged)} measures with a gate: {', '.join(passed)}"
    assert 0 <= text.find(said) < text.find("a rule does better, name of the nearest key")


@pytest.mark.parametrize("width", [60, 70, 80, 100])
def test_a_long_name_is_broken_only_at_its_slashes(results: dict[str, Any], width: int) -> None:
    names = ("orient/motion/look_trunk", "startle/false alarms/move_trunk", "hear/sounds/hear_trunk", "see/see_trunk")
    for measure, name in zip([m for s in results["skills"] for m in s["measures"]], names, strict=False):
        measure["name"] = name
    text = printed(results, width)
    assert max(map(len, text.splitlines())) <= width
    for word in ("motion/", "look_trunk", "startle/", "move_trunk", "sounds/", "hear_trunk", "see/see_trunk"):
        assert word in text, word


def test_a_twin_comparison_gives_n_and_interval(results: dict[str, Any]) -> None:
    paired = {"gained": 0.1, "low": 0.02, "high": 0.2, "n": 1400, "significant": True}
    results["ablation"] = {"skills": {"see": 0.5}, "differences": {"see": paired}}
    text = " ".join(printed(results).split())
    assert "see, against its twin: +0.100 [+0.020, +0.200], n = 1,400, significant" in text
    assert "ablation: not run" not in text


def test_measures_not_compared_with_a_twin_are_named(results: dict[str, Any]) -> None:
    results["skills"][0]["measures"][0]["twin"] = "not asked"
    name = results["skills"][0]["measures"][0]["name"]
    assert f"not compared with a twin: {name}" in " ".join(printed(results).split())
    results["skills"][0]["measures"][0] |= {"twin": "not above", "verdict": "no better than its twin", "passed": False}
    assert "not compared with a twin" not in printed(results)
    assert "✗ no better than its twin" in " ".join(printed(results).split())


def test_a_better_rule_is_named_beside_the_verdict(results: dict[str, Any]) -> None:
    row = next(line for line in printed(results).splitlines() if "orient/sight" in line)
    assert "✓ passed, a rule does better" in " ".join(row.split())
    assert "orient/sight: a rule does better, chase the brightest place 0.985" in printed(results)
    narrow = printed(results, width=80)
    assert max(map(len, narrow.splitlines())) <= 80
    (row,) = [" ".join(line.split()) for line in narrow.splitlines() if line.startswith("orient/sight ")]
    assert row.endswith("≥ 0.750 ✓ passed, a rule"), "the verdict is wrapped, and no number gives way to it"


def test_the_tiny_size_is_marked_as_meaningless(results: dict[str, Any]) -> None:
    results["run"]["size"] = "tiny"
    text = printed(results, width=80)
    assert text.index("Size tiny only tries the machinery: these scores mean nothing.") < text.index("chance")


def test_markup_in_names_is_printed_as_text(results: dict[str, Any]) -> None:
    results["skills"][0]["measures"][0]["name"] = "see[/bold]"
    assert "see[/bold]" in printed(results)


def test_the_table_fits_eighty_columns(results: dict[str, Any]) -> None:
    text = printed(results, width=80)
    assert "✗ failed" in text
    assert max(map(len, text.splitlines())) <= 80


def test_numbers_are_uncropped_at_sixty_columns(results: dict[str, Any]) -> None:
    wide, narrow = (printed(results, width) for width in (120, 60))
    assert max(map(len, narrow.splitlines())) <= 60
    row = next(line for line in wide.splitlines() if "orient/sound" in line)
    assert set(row.split()) <= set(narrow.split())


def test_a_long_name_crops_no_number(results: dict[str, Any]) -> None:
    """A cropped number reads as another number; a name may take two lines."""
    measure = results["skills"][0]["measures"][0]
    measure |= {"name": "sleep/earlier skills", "score": -8.3e-4, "low": -0.003, "high": 0.0, "n": 1200, "chance": -1.0}
    text = printed(results, width=80)
    assert "…" not in text
    row = next(line for line in text.splitlines() if "−8.3e−04" in line)
    assert {"−0.003–0.000", "1,200", "−1.000"} <= set(row.split())


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (curve_words("loss"), ("loss", "loss")),
        (curve_words("startle/value loss"), ("startle: loss of the critic", "loss")),
        (curve_words("rehearsal/next_sight"), ("rehearsal: next sight", "loss")),
        (curve_words("event right"), ("event right", "share right")),
        (curve_words("moving deg"), ("moving", "degrees")),
        (reading_order(["b/kl", "see", "loss", "b/reward", "a/kl"]), ["loss", "see", "a/kl", "b/reward", "b/kl"]),
        (number(0.9412), "0.941"),
        (number(-0.02, signed=True), "−0.020"),
        (number(0.5, signed=True), "+0.500"),
        (number(487.31), "487.3"),
        (number(12345.6), "12,346"),
        (number(0.00002), "2.0e−05"),
        (number(0), "0.000"),
        (number(None), "–"),
        (number(float("nan")), "not finite"),
        (count(1234), "1,234"),
        (count(1_057_982), "1.06 M"),
        (count(123_400_000), "123 M"),
        (duration(0.25), "0.2 s"),
        (duration(59.6), "1 min 00 s"),
        (duration(12.0), "12 s"),
        (duration(1661.4), "27 min 41 s"),
        (duration(12000), "3 h 20 min"),
        (memory(512), "512 MB"),
        (memory(1392), "1.4 GB"),
        (percent(1, 4), "25 %"),
        (percent(1, 1000), "<1 %"),
        (percent(1, 0), "–"),
    ],
)
def test_numbers_and_names_are_formatted(said: object, text: object) -> None:
    assert said == text


def test_what_the_trunk_carries_is_a_remark(results: dict[str, Any]) -> None:
    first, second, *_ = [one for skill in results["skills"] for one in skill["measures"] if one["gate"]]
    first["trunk"], second["trunk"] = {"verdict": "as good without"}, {"verdict": "not in its path"}
    text = " ".join(printed(results).split())
    assert (
        f"with the trunk's layers passing, as good without: {first['name']}; not in its path: {second['name']}" in text
    )
