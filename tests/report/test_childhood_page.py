"""The childhood's page: its text for made-up stages, and how a browser shows it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from devmind.report.childhood import Childhood, Gates, Saved, gather, render, skills_added
from devmind.report.results import Matrix, RetentionResult, validate
from tests.report.test_report_chromium import CROPPED, UNREADABLE, browser, long_names

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser"]


def told(results: dict[str, Any]) -> Childhood:
    """Two stages: the first failed and has no twin, the second has one."""
    results["cost"] |= {"exams": {results["stage"]: 700.0, "earlier": 20.0}}
    results["run"] |= {"exam_sha256": [results["run"]["agent_sha256"]]}
    second = results | {"stage": "language", "run": results["run"] | {"exam_sha256": ["a", "b"]}}
    second["verdict"] = {"passed": True, "reasons": []}
    second["matrix"] = {
        "stages": ["reflex", "language"],
        "skills": ["reflex/see", "reflex/hear", "language/read"],
        "rows": [[0.8, 0.5, None], [0.7, 0.55, 0.9]],
    }
    second["ablation"] = {
        "skills": {"see": 0.5},
        "note": "the same lessons",
        "differences": {"see": {"gained": 0.1, "low": 0.02, "high": 0.2, "n": 400, "significant": True}},
    }
    results["ablation"] = None
    saved = [
        Saved(precision="float32", megabytes=28.0, agent_sha256="f" * 64, gates=None),
        Saved(
            precision="float16", megabytes=17.0, agent_sha256="0" * 64, gates=Gates(passed=8, of=10), seconds=90.0,
            failed=["see", "hear"],
        ),
    ]  # fmt: skip
    pages = ["reflex/report.html", "language/report.html"]
    return gather([validate(results), validate(second)], pages, saved, "devmind curriculum run --seed 3")


def test_page_does_not_call_untouched_stages_a_single_one(results: dict[str, Any]) -> None:
    """Regression: without a stage whose exams were repeated it said that there was one stage only."""
    results["retention"] = []
    both = told(results | {"untouched": {"tensors": 1234, "lessons": 5}})
    page = render(both)
    assert "all 1,234 earlier tensors" in page
    assert "One stage only" not in page
    assert "One stage only" in render(both.model_copy(update={"stages": both.stages[:1]}))


def test_page_says_that_stages_were_taught_again_only_if_one_was(results: dict[str, Any]) -> None:
    childhood = told(results)
    once = [stage.model_copy(update={"repeated": False}) for stage in childhood.stages]
    again = [once[0].model_copy(update={"repeated": True}), *once[1:]]
    sentences = "No stage was taught again.", "taught again with half its steps"
    for stages, said in ((once, sentences), (again, sentences[::-1])):
        page = render(childhood.model_copy(update={"stages": stages}))
        assert said[0] in page
        assert said[1] not in page


def test_stage_that_failed_with_all_gates_passed_says_what_it_lost(results: dict[str, Any]) -> None:
    childhood = told(results)
    gone = RetentionResult(skill="reflex/see", change=-0.1, low=-0.2, kept=False)
    first = {"retention": [gone, gone.model_copy(update={"kept": True})], "gates": Gates(passed=13, of=13)}
    stages = [one.model_copy(update={"retention": []}) for one in childhood.stages]
    page = render(childhood.model_copy(update={"stages": stages}))
    assert "not kept</small>" not in page
    page = render(childhood.model_copy(update={"stages": [stages[0].model_copy(update=first), stages[1]]}))
    assert "<b>13/13</b> <small>1 earlier not kept</small></li>" in page
    assert page.count("1 earlier not kept") == 2, "beside its number at the top, and in the table"


def test_added_gives_new_measures_and_the_change_of_old_ones() -> None:
    first, second = skills_added(Matrix(stages=["a", "b"], skills=["x", "y"], rows=[[0.8, None], [0.6, 0.5]]))
    assert (first.new, first.change, first.mean_change) == ({"x": 0.8}, {}, None)
    assert second.new == {"y": 0.5}
    assert second.change == pytest.approx({"x": -0.2})


def test_a_skill_that_one_stage_skipped_is_compared_with_its_last_measure() -> None:
    rows = [[0.8], [None], [0.6]]
    third = skills_added(Matrix(stages=["a", "b", "c"], skills=["x"], rows=rows))[2]
    assert third.new == {}
    assert third.change == pytest.approx({"x": -0.2})


def test_the_page_reports_what_is_wrong(results: dict[str, Any]) -> None:
    page = render(told(results))
    assert "8 of 10 gates in float16" in page
    assert "its exams were of 2 agents" in page
    assert page.count("ablation: not run") == 1
    assert "+0.020 to +0.200, significant" in page
    assert "devmind curriculum run --seed 3" in page
    assert 'href="language/report.html"' in page
    assert '<td data-label="On the disk" class="loss">17.0 MB</td>' in page, "16 MB are wanted at size nursery"


def test_a_childhood_passes_only_with_all_stages_and_nine_of_ten_final_gates(results: dict[str, Any]) -> None:
    one = told(results)
    passed = [stage.model_copy(update={"passed": True}) for stage in one.stages]
    enough = [saved.model_copy(update={"gates": Gates(passed=9, of=10)}) for saved in one.saved]
    assert not one.passed
    assert not one.model_copy(update={"stages": passed}).passed
    assert not one.model_copy(update={"saved": enough}).passed
    assert one.model_copy(update={"stages": passed, "saved": enough}).passed


def test_names_are_escaped(results: dict[str, Any]) -> None:
    results["run"]["command"] = "<script>alert(1)</script>"
    one = told(results).model_copy(update={"command": "<script>alert(1)</script>"})
    assert "<script" not in render(one)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390, 320])
def test_the_childhood_page_crops_nothing_and_is_readable(
    browser: Browser, tmp_path: Path, results: dict[str, Any], width: int, scheme: Any
) -> None:
    file = tmp_path / "childhood.html"
    file.write_text(render(told(long_names(results))), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto(file.as_uri())
    assert page.evaluate(CROPPED) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(UNREADABLE) == []
    page.close()
