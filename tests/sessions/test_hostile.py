"""Every reader of foreign bytes with a small number of cases; `make attack` runs thousands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sessions.hostile import READERS, attack, without_corpus

CASES = {"recording": 60, "mcap": 60, "memory": 60, "dataset": 60}
"""Each of these writes files; the others take 300 cases."""
FOLDERS, AGENTS = 30, 8
"""Bags, data sets and agents take longer."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(READERS))
def test_readers_raise_nothing_but_sentences(name: str, tmp_path: Path) -> None:
    attack(name, tmp_path, CASES.get(name, AGENTS if name.startswith("agent") else FOLDERS if " " in name else 300))


def test_every_module_that_reads_files_is_attacked() -> None:
    assert without_corpus() == []
