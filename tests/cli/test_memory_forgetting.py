"""`devmind memory forget`: what is counted, what is refused, and what another reader keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devmind.errors import TracesError
from devmind.memory import Filters, open_store
from devmind.memory.stores.sqlite import SqliteStore


def left(mind: Path) -> int:
    with open_store(mind) as store:
        return store.sizes().entries


def test_each_number_counts_once_and_missing_ones_are_named(devmind: Any, mind: Path) -> None:
    answer = devmind("memory", "forget", "4", "77", "4", "78")
    assert (answer.exit_code, left(mind)) == (0, 8)
    assert "1 entry forgotten" in answer.output
    assert "There is no entry 77, 78" in answer.output


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("77",), "There is no entry 77"),
        (("--name", "nam 0"), "No name 'nam 0' was taught; did you mean 'name 0'?"),
        (("--words", "nonsense"), "Nothing has 'nonsense'"),
        (("--words", ""), "--words expects a text"),
        (("--words", " \t"), "--words expects a text"),
        (("--name", " "), "--name expects a text"),
    ],
)
def test_filter_that_matches_nothing_or_everything_is_refused(
    devmind: Any, mind: Path, words: tuple[str, ...], sentence: str
) -> None:
    answer = devmind("memory", "forget", *words)
    assert (answer.exit_code, sentence in answer.output, left(mind)) == (2, True, 9)


def test_names_are_stripped_as_in_teaching(devmind: Any, mind: Path) -> None:
    assert "3 entries forgotten" in devmind("memory", "forget", "--name", " name 0 ").output


def test_forgetting_without_old_entries_is_no_error(devmind: Any, mind: Path) -> None:
    answer = devmind("memory", "forget", "--older-than-h", "1e6")
    assert (answer.exit_code, answer.output) == (0, "0 entries forgotten\n")


def test_entries_dated_after_now_are_reported_when_old_ones_are_forgotten(
    devmind: Any, mind: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(mind) as store:
        first_s, second_s, *rest = sorted(entry.time_s for entry in store.find(Filters(named=False)))
        assert first_s < second_s
    monkeypatch.setattr("devmind.cli.memory.time.time", lambda: second_s)  # as after it was set back
    answer = devmind("memory", "forget", "--older-than-h", "0")
    assert answer.exit_code == 0
    assert "1 entry forgotten" in answer.output
    said = " ".join(answer.output.split())
    assert f"{1 + len(rest)} entries are dated after now, perhaps because it was set back" in said
    assert left(mind) == 8


def test_traces_held_by_another_process_give_a_note(devmind: Any, mind: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(store: SqliteStore) -> None:
        raise TracesError("It is deleted, but another process is reading.")

    monkeypatch.setattr(SqliteStore, "_erase", busy)
    answer = devmind("memory", "forget", "1", "4")
    assert answer.exit_code == 0
    assert "Note: It is deleted, but another process is reading." in answer.output
    assert "2 entries forgotten" in answer.output
    named = devmind("memory", "forget", "--name", "name 0")
    assert (named.exit_code, "2 entries forgotten" in named.output) == (0, True)
    assert left(mind) == 5
