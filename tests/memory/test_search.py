"""A search by name or by words finds its entries or reports that it could miss some."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from devmind.errors import StoreError
from devmind.memory import Filters, open_store
from devmind.memory.stores.migrations import APPLICATION_ID, MIGRATIONS
from devmind.memory.stores.sqlite import FILE, add_functions
from devmind.testing.stores import example

SEARCHES = (
    Filters(name="name 0"), Filters(named=True), Filters(named=False), Filters(words="entry 3"), Filters(says=False),
)  # fmt: skip


def damaged(folder: Path, statement: str) -> None:
    with sqlite3.connect(folder / FILE) as beside:
        beside.execute(statement)
    beside.close()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("UPDATE searched SET text = CAST('entry x' AS BLOB) WHERE entry = 4", Filters(words="entry 3")),
        ("UPDATE searched SET text = 'entry 3 \u00e9' WHERE entry = 4", Filters(words="entry 3")),
        ("UPDATE searched SET name = x'00' WHERE entry = 1", Filters(name="name 0")),
        ("UPDATE searched SET name = 'name 0' WHERE entry = 1", Filters(name="name 0")),
        ("UPDATE searched SET name = NULL WHERE entry = 1", Filters(named=True)),
        ("UPDATE searched SET name_checksum = 1 WHERE entry = 3", Filters(name="name 0")),
        ("UPDATE searched SET entry = 54 WHERE entry = 4", Filters(words="entry 3")),
        ("UPDATE state SET texts_sum = texts_sum + 1", Filters(says=True)),
    ],
)
def test_a_search_that_could_miss_entries_is_refused_until_mended(tmp_path: Path, damage: str, said: Filters) -> None:
    with open_store(tmp_path) as store:
        store.add([example(number) for number in range(6)])
        wanted = store.facts(said).ids.tolist()
        damaged(tmp_path, damage)
        for search in (store.facts, store.find):
            with pytest.raises(StoreError, match=r"damaged.*check --mend"):
                search(said)
        assert store.check()
        assert store.check(mend=True)
        assert store.check() == []
        assert store.facts(said).ids.tolist() == wanted
        assert store.sizes().entries == 6


def test_a_search_after_any_flipped_bit_is_complete_or_an_error(tmp_path: Path) -> None:
    """Wherever the bit is in the file, the search finds what it found before, or raises an error."""
    with open_store(tmp_path / "m") as store:
        store.add([example(number) for number in range(30)])
        wanted = [store.facts(filters).ids.tolist() for filters in SEARCHES]
        (page,) = store._connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'searched'").fetchone()  # type: ignore[attr-defined]
    data, chance, told = (tmp_path / "m" / FILE).read_bytes(), random.Random(0), 0
    (tmp_path / "flipped").mkdir()
    for _ in range(150):
        flipped = bytearray(data)
        flipped[4096 * (page - 1) + chance.randrange(4096)] ^= 1 << chance.randrange(8)
        (tmp_path / "flipped" / FILE).write_bytes(flipped)
        try:
            with open_store(tmp_path / "flipped") as store:
                assert [store.facts(filters).ids.tolist() for filters in SEARCHES] == wanted
        except StoreError:
            told += 1
    assert told > 30


def test_damaged_text_of_an_older_version_is_not_migrated(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE) as old:
        add_functions(old)
        for step in MIGRATIONS[:2]:
            for statement in step:
                old.execute(statement)
        with open_store(None) as new:
            new.add([example(0), example(1)])
            columns = "id, time_s, importance, name, payload, checksum, payload_checksum"
            for row in new._connection.execute(f"SELECT {columns} FROM entries"):  # type: ignore[attr-defined]
                old.execute(f"INSERT INTO entries ({columns}, text) VALUES (?, ?, ?, ?, ?, ?, ?, 'flipped')", row)
        old.execute("UPDATE entries SET checksum = devmind_facts_checksum(id, time_s, importance, name, '', NULL, '')")
        old.execute("UPDATE entries SET payload_checksum = devmind_payload_checksum(checksum, payload)")
        old.execute("PRAGMA user_version = 2")
        old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    old.close()
    with open_store(tmp_path) as store:
        assert store.facts(Filters(words="entry 1")).ids.tolist() == [2]
        assert store.facts(Filters(words="flipped")).ids.tolist() == []
        assert store.check() == []


def test_a_sqlite_url_raises_a_store_error() -> None:
    for kind in (None, "sqlite"):
        with pytest.raises(StoreError, match="lies in a folder; got the URL 'sqlite://mind': give a path"):
            open_store("sqlite://mind", kind)
