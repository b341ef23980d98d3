"""Names follow the glossary: a word of its column "not this word" stands in fewer and fewer of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = ("devmind", "stages", "sensors")
CEILING = 60
"""How many names of functions and classes have such a word today. Whoever renames some lowers it; it never rises."""


def rows() -> Iterator[list[str]]:
    """The cells of the glossary's rows: term, meaning, words that are not used for it."""
    for line in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| term |"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def left_words() -> set[str]:
    return {word for row in rows() for word in re.findall(r"`(\w+)`", row[2])}


def words_of(name: str) -> list[str]:
    """`drawnFrom_luck`, `DrawnPlan` -> their words, in small letters."""
    return re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())


def offenders(text: str, left: set[str]) -> list[str]:
    """Names of functions and classes in a module that have a word of `left`."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names = [node.name for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    return [name for name in names if left.intersection(words_of(name))]


def test_names_use_fewer_and_fewer_words_that_the_glossary_left() -> None:
    left = left_words()
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        for name in offenders(path.read_text(encoding="utf-8"), left)
    ]
    assert len(found) <= CEILING, f"{len(found)} names, {CEILING} are allowed; rename the new ones:\n" + "\n".join(
        found
    )


def test_each_term_has_a_meaning_and_no_term_is_a_word_that_was_left() -> None:
    table = list(rows())
    assert len(table) > 60
    assert [row for row in table if len(row) != 3 or not row[0] or not row[1]] == []
    terms = {word for row in table for word in re.findall(r"\w+", row[0].lower())}
    assert not terms & left_words()


def test_words_in_names_are_found_however_they_are_written() -> None:
    text = "def drawn_plan(): ...\nclass DrawnPlan:\n    def redrawn(self): ...\n    async def luck(self): ...\n"
    assert offenders(text, {"drawn", "luck"}) == ["drawn_plan", "DrawnPlan", "luck"]
