"""The study's page, CSV and LaTeX: their text for made-up arms, and how a browser shows the page."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from devmind.report.study import (
    ArmOutcome,
    ArmReport,
    ComparisonReport,
    SeedValue,
    StudyReport,
    as_csv,
    as_latex,
    render,
)
from tests.report.test_report_chromium import CROPPED, UNREADABLE, browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser"]
SEEDS = list(range(100, 110))
LONG = "fresh trunk and encoders that nobody has ever taught"


def over_seeds(**changes: Any) -> ArmOutcome:
    values: dict[str, Any] = {
        "outcome": "match/seen", "mean": 0.8, "iqm": 0.81, "low": 0.78, "high": 0.84, "chance": 0.5, "floor": 0.6,
        "ceiling": 1.0, "gate": 0.9, "passed": 2, "unit": "right", "seeds": [0.8] * len(SEEDS),
    }  # fmt: skip
    return ArmOutcome.model_validate(values | changes)


def arm(name: str, **changes: Any) -> ArmReport:
    return ArmReport(
        name=name, walk="reflex, then memory", steps=12_345, stage_steps={"reflex": 12_000, "memory": 345},
        rehearsals=70, seconds=601.0, outcomes=[over_seeds(**changes)],
    )  # fmt: skip


def compared(answer: str = "better", **changes: Any) -> ComparisonReport:
    values: dict[str, Any] = {
        "arms": ("staged", LONG), "outcome": "match/seen", "primary": True, "equal": "all steps", "n": 10,
        "difference": 0.1, "low": 0.05, "high": 0.15, "iqm": 0.11, "iqm_low": 0.04, "iqm_high": 0.16, "p": 0.004,
        "detectable": 0.06, "answer": answer,
    }  # fmt: skip
    return ComparisonReport.model_validate(values | changes)


def told(**changes: Any) -> StudyReport:
    values: dict[str, Any] = {
        "schema": 1, "name": "reflex-memory", "question": "Does it help?", "command": "devmind study reflex-memory",
        "begun": "2026-03-01T14:05:00+00:00", "finished": "2026-03-02T14:05:00+00:00",
        "file": "question: Does <b>it</b> help?\n" + "arms: " + 40 * "long_word_", "file_sha256": "a" * 64,
        "code_sha256": "b" * 64, "commit": "c" * 40, "versions": {"torch": "2.13"}, "machine": "2 cores of 100 GFLOP/s",
        "seeds": SEEDS, "size": "nursery", "alpha": 0.05, "power": 0.8,
        "gates": [{"measure": "match/seen", "bound": 0.9, "beats_floor": False, "goal": False}], "runs": 60,
        "seconds": 18_000.0, "arms": [arm("staged"), arm(LONG, iqm=0.7, low=0.55, high=0.74)],
        "comparisons": [compared(), compared("no difference shown", primary=False, p=0.03, p_holm=0.06)],
        "values": [
            SeedValue(
                arm="staged", seed=seed, outcome="match/seen", value=0.8, low=0.7, high=0.9, n=400, chance=0.5,
                floor=0.6, ceiling=1.0, gate=0.9, passed=False, unit="right",
            )
            for seed in SEEDS
        ],
    }  # fmt: skip
    return StudyReport.model_validate(values | changes)


def test_the_page_gives_the_answer_and_its_evidence() -> None:
    page = render(told())
    assert f"staged does better than {LONG} at match/seen: +0.100 [+0.050, +0.150], p = 0.004" in page
    assert "a" * 64 in page
    assert "b" * 64 in page
    assert "match/seen 0.900" in page
    assert '<header class="passed">' in page
    assert '<header class="failed">' in render(told(comparisons=[compared("worse")]))
    assert '<header class="open">' in render(told(comparisons=[compared("no difference shown")]))
    assert "<b>it</b>" not in page


def test_a_missing_difference_names_the_smallest_detectable_one() -> None:
    said = compared("no difference shown", difference=0.01, p=0.5).said
    assert said.endswith("no difference shown, +0.010 [+0.050, +0.150], p = 0.500; 10 seeds could have shown 0.060")
    assert "p = 0.060 (Holm)" in compared("no difference shown", p_holm=0.06).said


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"low": 0.55}, ""),
        ({"low": 0.5}, "not above chance"),
        ({"high": 1.0}, "at its ceiling"),
        ({"low": 0.1, "high": 0.2, "chance": 0.2, "ceiling": 0.0, "higher_is_better": False}, "not above chance"),
        ({"low": 0.0, "high": 0.1, "chance": 0.2, "ceiling": 0.0, "higher_is_better": False}, "at its ceiling"),
    ],
)
def test_an_arm_at_chance_or_ceiling_raises_a_doubt(changes: dict[str, Any], why: str) -> None:
    assert over_seeds(**changes).room == why
    doubts = told(arms=[arm("staged", **changes), arm("other", low=0.1)]).doubts
    assert [doubt for doubt in doubts if why and why in doubt] == doubts, (
        "the arm 'other' is not in the primary question"
    )
    assert len(doubts) == bool(why)


def test_seeds_used_for_tuning_make_a_pilot() -> None:
    assert "A pilot" in told(seeds=[99, *SEEDS[1:]]).doubts[0]
    assert "A pilot" in render(told(seeds=[99, *SEEDS[1:]]))


def test_the_csv_has_a_line_for_each_value() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(told()))))
    assert [row["seed"] for row in rows] == [str(seed) for seed in SEEDS]
    assert rows[0]["value"] == "0.8"


def test_the_latex_is_complete_and_escaped() -> None:
    one = told(comparisons=[compared(arms=("50% & more", "under_score"), difference=-0.1)])
    text = as_latex(one)
    assert r"50\% \& more - under\_score & match/seen & $-$0.100 & [0.050, 0.150] & 0.004 & 0.060 \\" in text
    for begun in text.split(r"\begin{tabular}")[1:]:
        columns = len(begun.partition("}")[0]) - 1
        lines = [line for line in begun.splitlines() if line.endswith(r"\\")]
        assert {line.replace(r"\&", "").count("&") for line in lines} == {columns - 1}


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390, 320])
def test_the_study_page_crops_nothing_and_is_readable(
    browser: Browser, tmp_path: Path, width: int, scheme: Any
) -> None:
    file = tmp_path / "study.html"
    file.write_text(render(told(seeds=[99, *SEEDS[1:]])), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto(file.as_uri())
    assert page.evaluate(CROPPED) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(UNREADABLE) == []
    page.close()
