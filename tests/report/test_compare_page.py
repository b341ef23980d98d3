"""The page of two runs: both scores, their difference with an interval, curves over one another, nothing loaded."""

from __future__ import annotations

import copy
import json
import re
from html import escape, unescape
from math import hypot
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from devmind.cli import app
from devmind.errors import DevmindError
from devmind.report.compare import Pair, curves, pairs, render, settings
from devmind.report.results import MeasureResult, validate
from tests.browsers import chromium
from tests.report.conftest import fake_results, measure

NAMES = ("seed0", "seed1")


@pytest.fixture
def both() -> tuple[dict[str, Any], dict[str, Any]]:
    """Two runs: the second sees worse, hears alike, lacks one measure, and has one of its own."""
    one = fake_results()
    other = copy.deepcopy(one)
    other["run"] |= {"seed": 4, "versions": {**one["run"]["versions"], "torch": "9.9"}, "commit": None}
    by_name = {m["name"]: m for skill in other["skills"] for m in skill["measures"]}
    for key in ("score", "low", "high"):
        by_name["see"][key] -= 0.2
        by_name["see/depth"][key] -= 0.1
    by_name["see"] |= {"passed": False, "verdict": None}
    del other["skills"][0]["measures"][1]
    other["skills"][0]["measures"].append(measure("see/own", "correct", 0.5, 0.1, 20, None))
    name = next(iter(other["curves"]))
    other["curves"][name]["value"] = [2 * value for value in other["curves"][name]["value"]]
    other["curves"]["watch/own"] = {"step": [0.0, 1.0], "seconds": [0.0, 1.0], "value": [3.0, 4.0]}
    return one, other


def test_every_score_and_difference_is_on_the_page(both: Any) -> None:
    one, other = map(validate, both)
    html = render(one, other, NAMES)
    text = re.sub(r"<svg.*?</svg>", " ", html, flags=re.DOTALL)
    text = " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())
    assert "seed0: ✗ failed" in text
    assert "see: B is worse −0.200" in text
    assert "see, depth: B is better −0.100" in text, "of errors, less is better"
    assert "see, own correct – 0.500 0.400 to 0.600, n 20 – –" in text
    assert "see, box ≥ 0.650 ✓ passed not measured" in text
    assert "✓ passed ✗ failed" in text
    assert "<script" not in html
    assert not re.search(r"https?:|@import|url\(", html)
    links = set(re.findall(r'href="#([a-z]+)"', html))
    assert links == set(re.findall(r'<(?:section|header) id="([a-z]+)"', html))


def test_runs_that_are_equal_show_no_difference() -> None:
    one = validate(fake_results())
    html = render(one, one, NAMES)
    assert "No measure shows a difference between the two." in html
    assert "Nothing: seed, size, code, packages, machine and configuration are the same." in html
    assert {pair.answer for pair in pairs(one, one)} == {"no difference shown"}


def test_interval_of_a_difference_covers_it_as_often_as_it_says() -> None:
    """Against 4,000 simulated pairs of runs whose true scores are known."""
    rng, n, true = np.random.default_rng(0), 400, (0.7, 0.8)

    def measured(share: float) -> MeasureResult:
        half = 1.96 * (share * (1 - share) / n) ** 0.5
        return MeasureResult.model_validate(measure("see", "correct", share, half, n, None))

    shares = rng.binomial(n, true, (4000, 2)) / n
    found = [Pair("see", measured(a), measured(b)).interval for a, b in shares]
    covered = np.mean([low <= true[1] - true[0] <= high for low, high in filter(None, found)])
    assert 0.935 < covered < 0.965
    one, other = measured(0.7), measured(0.8)
    half = hypot(one.high - one.score, other.high - other.score)
    assert Pair("see", one, other).interval == pytest.approx((0.1 - half, 0.1 + half))


def test_curves_of_both_stand_in_one_chart(both: Any) -> None:
    one, other = map(validate, both)
    shown = curves(one, other)
    assert sum(map(len, shown.values())) == len({**one.curves, **other.curves})
    assert any(pair[0] is None and pair[1] is not None for _, _, pair in shown["watch"])
    chart = render(one, other, NAMES).partition('id="curves"')[2].partition("</figure>")[0]
    assert chart.count('class="line of0"') == chart.count('class="line of1"') == 2, "against steps, and against seconds"
    assert chart.count("nan") == 0


def test_what_differs_is_listed_once(both: Any) -> None:
    one, other = map(validate, both)
    found = {name: (first, second) for name, first, second in settings(one, other)}
    assert len(found) == len(settings(one, other))
    assert found["seed"] == (3, 4)
    assert found["torch"][1] == "9.9"
    assert found["commit"][1] == "none"
    changed = copy.deepcopy(both[0])
    changed["run"]["changes"] = {"lessons.watch.steps": [100, 200]}
    assert ("lessons.watch.steps", 200, 100) in settings(
        validate(changed), validate({**both[0], "run": {**both[0]["run"], "changes": {}}})
    )


def test_runs_of_two_stages_are_refused_and_text_is_escaped(both: Any) -> None:
    one, other = both
    with pytest.raises(DevmindError, match="'a' is a run of stage 'reflex' and 'b' of 'memory', which share no exam"):
        render(validate(one), validate({**other, "stage": "memory"}), ("a", "b"))
    nasty = "<img src=x onerror=alert(1)>"
    other["skills"][0]["measures"][0]["name"] = nasty
    html = render(validate(one), validate({**other, "about": nasty}), (nasty, "b"))
    assert nasty not in html
    assert escape(nasty) in html


def test_command_writes_the_page_and_replaces_only_its_own(both: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for name, results in zip(NAMES, both, strict=True):
        folder = tmp_path / name / "reports" / "reflex"
        folder.mkdir(parents=True)
        (folder / "results.json").write_text(json.dumps(results))

    def devmind(*words: str) -> Any:
        return CliRunner().invoke(app, ["report", *words])

    for _ in range(2):
        done = devmind("seed0", "seed1/reports/reflex/results.json")
        assert (done.exit_code, done.output.strip()) == (0, "comparison: compare.html")
    assert "seed0" in Path("compare.html").read_text(encoding="utf-8")
    Path("letter.html").write_text("Dear Anna")
    kept = devmind("seed0", "seed1", "--out", "letter.html")
    assert (kept.exit_code, "is no page of this command" in kept.stderr) == (2, True)
    assert Path("letter.html").read_text() == "Dear Anna"
    assert "did you mean 'seed1'" in devmind("seed0", "seed11").stderr
    (tmp_path / "empty").mkdir()
    assert "There is no run in 'empty' that has ended" in devmind("seed0", "empty").stderr


@pytest.mark.parametrize("width", [390, 1280])
def test_page_has_no_sideways_scrolling(both: Any, tmp_path: Path, width: int) -> None:
    file = tmp_path / "compare.html"
    file.write_text(render(*map(validate, both), ("a run with a long name " * 4, "seed1")), encoding="utf-8")
    with chromium() as browser:
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto(file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.click("nav a[href='#settings']")
        assert page.evaluate("document.querySelector('nav').getBoundingClientRect().top") == 0, "the contents stay"
        page.click("nav a.up")
        assert page.evaluate("scrollY") == 0
