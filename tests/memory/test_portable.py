"""A memory is exported and imported whole and only once, and a failure is reported in a sentence."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from devmind.errors import StoreError
from devmind.memory import Entry, open_store
from devmind.memory.portable import Imported, check_export, export_memory, import_memory
from devmind.memory.stores.sqlite import SqliteStore
from devmind.testing.stores import example


def exported(file: Path, entries: Sequence[Entry]) -> Path:
    with open_store(None) as store:
        store.add(entries)
        export_memory(store, file, file.parent)
    return file


def test_two_concurrent_imports_add_every_entry_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmind.memory.portable.AT_ONCE", 3)
    file = exported(tmp_path / "mind.zip", [example(number) for number in range(20)])

    def bring(_: int) -> Imported:
        with open_store(tmp_path / "memory") as store:
            return import_memory(store, file)

    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(bring, range(3)))
    assert sum(one.added for one in done) == 20
    assert all(one.added + one.there == 20 for one in done)
    with open_store(tmp_path / "memory") as store:
        assert sorted(entry.time_s for entry in store.find()) == [100.0 + number for number in range(20)]


class Interrupted(SqliteStore):
    """Another import adds the same entries between this import's check and its write."""

    def add(self, entries: Sequence[Entry]) -> list[int]:
        super().add(entries)
        return super().add(entries)


def test_an_import_removes_entries_that_a_concurrent_import_added_first(tmp_path: Path) -> None:
    file = exported(tmp_path / "mind.zip", [example(number) for number in range(5)])
    with Interrupted(None) as store:
        assert import_memory(store, file) == (0, 5)
        assert store.facts().ids.tolist() == [1, 2, 3, 4, 5]


def test_equal_entries_of_one_file_are_all_imported(tmp_path: Path) -> None:
    file = exported(tmp_path / "mind.zip", [example(1), example(1), example(2)])
    with open_store(None) as store:
        assert import_memory(store, file) == (3, 0)
        assert import_memory(store, file) == (0, 3)


def test_entries_that_differ_only_in_their_pointer_are_both_kept(tmp_path: Path) -> None:
    file = exported(tmp_path / "mind.zip", [example(1), example(2)])
    with open_store(None) as store:
        store.add([replace(example(1), pointer=None), example(2)])
        assert import_memory(store, file) == (1, 1)
        assert store.find()[-1].pointer is not None


def test_a_file_of_another_agent_adds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmind.memory.portable.AT_ONCE", 1)
    file = exported(tmp_path / "mind.zip", [replace(example(0), keys={}), example(1, "encoder-b")])
    assert check_export(file) == {"sight": "encoder-b", "sound": "encoder-b"}
    with open_store(None) as store:
        store.add([example(5)])
        with pytest.raises(StoreError, match=r"two encoders cannot be compared.*devmind memory import FILE.*--keys-of"):
            import_memory(store, file)
        assert len(store.find()) == 1


def test_a_file_that_is_no_exported_memory_is_refused_before_a_store_is_opened(tmp_path: Path) -> None:
    file = exported(tmp_path / "mind.zip", [example(number) for number in range(3)])
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "broken.zip").write_bytes(data)
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    for name in ("broken.zip", "empty.zip"):
        with pytest.raises(StoreError, match="damaged or no exported memory"):
            check_export(tmp_path / name)
    with pytest.raises(StoreError, match="no file"):
        check_export(tmp_path / "none.zip")
