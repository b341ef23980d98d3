"""Declared mutants: each fits its file and names existing tests; `make mutants` runs them."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.mutants.__main__ import ROOT, declared, mutated

MUTANTS = declared()


@cache
def names_in(file: str) -> set[str]:
    """The functions and classes of a test file."""
    return {node.name for node in ast.walk(ast.parse((ROOT / file).read_text())) if hasattr(node, "name")}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_fits_its_file_and_names_existing_tests(mutant) -> None:
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    ast.parse(mutated(mutant, text))
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert not name or name.partition("[")[0] in names_in(file)


def test_each_mutant_is_declared_once_and_missing_text_is_reported() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len({(m.file, m.old, m.new) for m in MUTANTS}) == len(MUTANTS)
    with pytest.raises(ValueError, match="stands 0 times"):
        mutated(MUTANTS[0], "")
