"""The report in a browser: nothing is cropped from phone to desktop, and it follows the colour scheme."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from devmind.report.page import render
from tests.browsers import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CROPPED = """() => [...document.querySelectorAll(".scroll, .card, table, header")]
    .filter((box) => box.scrollWidth > box.clientWidth + 1)
    .map((box) => `${box.closest("section")?.id} ${box.className || box.tagName}: ${box.scrollWidth}`)"""
UNREADABLE = """() => {
    const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const numbers = (colour) => {
        const found = colour.match(/[\\d.]+/g).map(Number); // color-mix() gives color(srgb 0.9 0.9 0.9)
        return colour.startsWith("color") ? found.map((part) => 255 * part) : found;
    };
    const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    const ground = (node) => {
        for (; node; node = node.parentElement) {
            const colour = numbers(getComputedStyle(node).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return luminance(colour);
        }
    };
    const found = [];
    for (const node of document.querySelectorAll("main *, header *, footer")) {
        const says = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
        if (!says || !node.checkVisibility()) continue;
        const style = getComputedStyle(node);
        const ink = luminance(numbers(node.closest("svg") ? style.fill : style.color));
        const [light, dark] = [ink, ground(node)].sort((a, b) => b - a);
        if ((light + 0.05) / (dark + 0.05) < 4.5) found.push(node.textContent.slice(0, 40));
    }
    return found;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def opened(browser: Browser, folder: Path, results: dict[str, Any], **view: Any) -> Page:
    file = folder / "report.html"
    file.write_text(render(results), encoding="utf-8")
    page = browser.new_page(**view)
    page.goto(file.as_uri())
    return page


def long_names(results: dict[str, Any]) -> dict[str, Any]:
    """Give the results what real stages have: names as long as a line, and every part of the time."""
    results["run"]["size"] = "tiny"
    for skill in results["skills"]:
        for measure in skill["measures"]:
            measure["name"] += "/of things that are hidden"
            measure["floors"] |= {"the nearest neighbour on log-mel spectra of one second": 0.351}
            measure["beaten_by"] = "the nearest neighbour on log-mel spectra of one second"
            measure["rows"] |= {"with the periphery and the sound off": 0.2}
    results["ablation"] = {"skills": {"see/of things that are hidden": 0.9, "gone": 0.3}, "note": "same steps"}
    results["run"]["changes"]["lessons.perceive.learning_rate"] = [None, "a" * 70]
    return results


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 768, 390, 320])
def test_no_table_is_cropped(browser: Browser, tmp_path: Path, results: dict[str, Any], width: int) -> None:
    page = opened(browser, tmp_path, long_names(results), viewport={"width": width, "height": 900})
    assert page.evaluate(CROPPED) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_readable_in_both_colour_schemes(
    browser: Browser, tmp_path: Path, results: dict[str, Any], scheme: str
) -> None:
    page = opened(browser, tmp_path, long_names(results), viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, paper.removeprefix("rgb(").removesuffix(")").split(", "))) / 3
    assert (brightness > 200) == (scheme == "light")
    assert page.evaluate(UNREADABLE) == []
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_the_labels_of_a_strip_stand_over_their_pictures(
    browser: Browser, tmp_path: Path, results: dict[str, Any], width: int
) -> None:
    page = opened(browser, tmp_path, results, viewport={"width": width, "height": 900})
    places = page.evaluate(
        """() => [...document.querySelectorAll(".labels li")].map((label) => {
            const picture = label.closest("figure").querySelector("img").getBoundingClientRect();
            const box = label.getBoundingClientRect();
            return [(box.left + box.width / 2 - picture.left) / picture.width, picture.top - box.bottom];
        })"""
    )
    assert [round(across, 2) for across, _ in places] == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9], abs=0.02)
    assert all(-1 <= above < 20 for _, above in places)
    page.close()
