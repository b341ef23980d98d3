"""`benchmarks/first_word.py`: CPU seconds of a command by two checkouts, with its exit code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def first_word(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield importlib.import_module("first_word")
    sys.modules.pop("first_word", None)


def test_seconds_of_a_command_are_measured_for_each_checkout(first_word: ModuleType, tmp_path: Path) -> None:
    commands = {"solve, no such puzzle": ("solve", "sudoku"), "an option of another build": ("stage", "list", "--none")}
    found = first_word.measured(commands, [ROOT, ROOT], 1, tmp_path)
    assert all(seconds > 0.05 for seconds in found["solve, no such puzzle"])
    assert found["an option of another build"] == [None, None]
    assert first_word.cpu_s(("solve", "sudoku"), ROOT, tmp_path)[1] == 2
    assert first_word.cpu_s(("--version",), ROOT, tmp_path)[1] == 0


def test_a_row_gives_the_ratio_only_where_both_ran(first_word: ModuleType) -> None:
    assert first_word.row("say", [5.0, 10.0]) == "| say | 5.00 | 10.00 | 0.50 |"
    assert first_word.row("say", [5.0, None]) == "| say | 5.00 | – |"
