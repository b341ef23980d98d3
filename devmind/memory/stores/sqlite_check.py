"""A check of the whole SQLite store: what is damaged, and what can be mended."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from devmind.errors import StoreError
from devmind.memory.stores.sqlite_rows import read_entries
from devmind.memory.stores.sqlite_search import empty, fill, unfound

MAX_FAULTS = 20
_TOTALS = """
    SELECT (SELECT count(*) FROM entries), (SELECT coalesce(sum(length(payload)), 0) FROM entries),
        (SELECT count(*) FROM keys),
        (SELECT coalesce(sum(length(vector) + coalesce(length(features), 0)), 0) FROM keys),
        (SELECT coalesce(sum(checksum), 0) FROM keys),
        (SELECT coalesce(sum(name_checksum), 0) FROM searched), (SELECT coalesce(sum(text_checksum), 0) FROM searched)
"""
_COUNTED = "entries, payload_bytes, keys, key_bytes, keys_sum, names_sum, texts_sum"


@dataclass(frozen=True)
class Fault:
    """A fault, as a sentence; with the entry that must be deleted, if there is one."""

    sentence: str
    entry: int | None = None


def faults(database: sqlite3.Connection) -> list[Fault]:
    """All faults. A file too damaged to be read at all is a fault as well."""
    try:
        return [*_pages(database), *_entries(database), *_lost_keys(database), *_totals(database)]
    except sqlite3.DatabaseError as error:
        return [Fault(f"The database cannot be read through ({error}); take a copy of it from a backup.")]


def mended(database: sqlite3.Connection, change: int) -> list[str]:
    """Delete damaged entries and rebuild derived data, inside a transaction; a sentence for each repair.

    Raises:
        StoreError: pages are damaged in a way that only a backup mends.
    """
    found = faults(database)
    if not found:
        return []
    empty(database)  # first: deleting an entry would read it
    for number in sorted({fault.entry for fault in found if fault.entry is not None}):
        database.execute("DELETE FROM keys WHERE entry = ?", (number,))
        database.execute("DELETE FROM entries WHERE id = ?", (number,))
        database.execute("INSERT OR REPLACE INTO deletions VALUES (?, ?)", (number, change))
    try:
        database.execute("REINDEX")
        fill(database)
        totals = database.execute(_TOTALS).fetchone()
    except sqlite3.DatabaseError as error:
        raise StoreError(f"The memory cannot be mended ({error}); take a copy of it from a backup.") from error
    database.execute(f"UPDATE state SET ({_COUNTED}) = (?, ?, ?, ?, ?, ?, ?)", totals)
    left = faults(database)
    if left:
        raise StoreError(f"The memory cannot be mended: {left[0].sentence} Take a copy of it from a backup.")
    return [
        f"{fault.sentence} {'It was deleted.' if fault.entry is not None else 'It was rebuilt.'}" for fault in found
    ]


def _pages(database: sqlite3.Connection) -> Iterator[Fault]:
    for (text,) in database.execute(f"PRAGMA integrity_check({MAX_FAULTS})").fetchall():
        if text != "ok":
            yield Fault(f"The database's pages do not fit together: {text}.")


def _entries(database: sqlite3.Connection) -> Iterator[Fault]:
    """Entries and keys that differ from what was written."""
    for (number,) in database.execute("SELECT id FROM entries ORDER BY id").fetchall():
        try:
            read_entries(database, "WHERE id = ?", (number,), payloads=True)
        except StoreError as error:
            yield Fault(str(error).split(". '")[0] + ".", number)
    for number in unfound(database):
        yield Fault(f"What entry {number} is found by in a search by words differs from its content.")


def _lost_keys(database: sqlite3.Connection) -> Iterator[Fault]:
    found = database.execute("SELECT * FROM keys WHERE entry NOT IN (SELECT id FROM entries)")
    for number in sorted({row[0] for row in found}):
        yield Fault(f"Keys of entry {number} are there, but the entry is missing.", number)


def _totals(database: sqlite3.Connection) -> Iterator[Fault]:
    kept = database.execute(f"SELECT {_COUNTED} FROM state").fetchall()
    counted = database.execute(_TOTALS).fetchone()
    if kept != [counted]:
        yield Fault(f"The store's totals say {kept}; the count is {counted}.")
