"""Rows of the SQLite store as entries and columns; checksums are compared on reading."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from devmind.errors import StoreError
from devmind.memory.entry import Entry, Key, Pointer
from devmind.memory.payload import unpack
from devmind.memory.stores.checksums import VECTOR, facts_checksum, features_checksum, key_checksum, payload_checksum
from devmind.memory.stores.sql import array, as_pointer
from devmind.memory.stores.sqlite_search import put_text
from devmind.memory.tables import Facts, KeyRows

COLUMNS = (
    "id, time_s, importance, name, session, tick, session_identity, span, recalled, recalled_s, checksum, "
    "payload_checksum"
)
ALL = "WHERE TRUE"
MENDED_BY = "'devmind memory check --mend' deletes it and keeps the rest"


def read_entries(database: sqlite3.Connection, condition: str, values: Sequence[object], payloads: bool) -> list[Entry]:
    """Entries that pass a condition (a WHERE clause), the oldest number first.

    Raises:
        StoreError: one is damaged.
    """
    statement = f"SELECT {COLUMNS}, {'payload' if payloads else 'NULL'} FROM entries {condition} ORDER BY id"
    rows = database.execute(statement, values).fetchall()
    if condition == ALL:
        count_all(database, "entries", len(rows))
    keys: dict[int, dict[str, Key]] = {row[0]: {} for row in rows}
    for row in database.execute(
        "SELECT entry, sense, encoder, vector, checksum, features, features_checksum FROM keys WHERE entry IN "
        f"(SELECT id FROM entries {condition})",
        values,
    ):
        keys_of(keys, row[0])[row[1]] = read_key(row)
    if condition == ALL:
        count_all(database, "keys", sum(map(len, keys.values())))
    return [as_entry(row, keys[row[0]]) for row in rows]


def keys_of(keys: dict[int, dict[str, Key]], number: int) -> dict[str, Key]:
    """The keys of an entry, to add to; StoreError when there is no such entry."""
    if number not in keys:
        raise StoreError(
            f"The memory is damaged: a key of entry {number} is there, but the entry is missing. {MENDED_BY}."
        )
    return keys[number]


def add_entry(database: sqlite3.Connection, entry: Entry, payload: bytes, change: int) -> int:
    """Write an entry without its keys as part of a change; returns its number. Inside a transaction."""
    entry = plain(entry)
    pointer = entry.pointer
    cursor = database.execute(
        "INSERT INTO entries (time_s, importance, name, payload, session, tick, session_identity, span, "
        "recalled, recalled_s, changed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            entry.time_s, entry.importance, entry.name, payload, pointer and pointer.session,
            pointer and pointer.tick, pointer and pointer.identity, pointer.span if pointer else 0, entry.recalled,
            entry.recalled_s, change,
        ),
    )  # fmt: skip
    number = int(cursor.lastrowid or 0)
    own = facts_checksum(number, entry.time_s, entry.importance, entry.name, pointer)
    sums = own, payload_checksum(own, payload), number
    database.execute("UPDATE entries SET checksum = ?, payload_checksum = ? WHERE id = ?", sums)
    put_text(database, number, entry)
    return number


def plain(entry: Entry) -> Entry:
    """With Python's number types: databases keep numpy's as bytes, or not at all."""
    at = entry.pointer
    return replace(
        entry,
        time_s=float(entry.time_s),
        importance=float(entry.importance),
        pointer=at and replace(at, tick=int(at.tick), span=int(at.span)),
        recalled=int(entry.recalled),
        recalled_s=None if entry.recalled_s is None else float(entry.recalled_s),
    )


def mixed(what: str) -> StoreError:
    """A sentence on keys of two encoders, with what to do."""
    return StoreError(
        f"Keys of {what} from two encoders cannot be compared. Import what is to come into an empty folder ('devmind "
        "memory import FILE --memory NEW'), make its keys anew by this memory's agent ('devmind memory check --keys-of "
        "AGENT --memory NEW'), export that and import it here."
    )


def read_key(row: Sequence[Any]) -> Key:
    """A key of (entry, sense, encoder, vector, checksum, features, features_checksum); StoreError when damaged."""
    number, sense, encoder, vector, checksum, features, features_sum = row
    whole = isinstance(vector, bytes) and isinstance(features, bytes | None) and isinstance(encoder, str)
    if not whole or key_checksum(number, sense, encoder, vector) != checksum:
        raise damaged(number, f"its key of '{sense}'")
    if features_checksum(checksum, features) != features_sum:
        raise damaged(number, f"its features of '{sense}'")
    return Key(array(vector), encoder, None if features is None else array(features))


def as_entry(row: Sequence[Any], keys: dict[str, Key]) -> Entry:
    """An entry of COLUMNS and payload (None: not asked for), with its keys; StoreError when damaged."""
    number, time_s, importance, name, session, tick, identity, span, recalled, recalled_s, checksum, payload_sum = row[
        :12
    ]
    payload = row[12]
    pointer = as_pointer(session, tick, identity, span)
    _compare(number, time_s, importance, name, pointer, checksum)
    if payload is not None and payload_checksum(checksum, payload) != payload_sum:
        raise damaged(number, "its payload")
    senses = {} if payload is None else unpack(payload)
    return Entry(time_s, importance, name, keys, senses, number, None, pointer, recalled, recalled_s)


def _compare(number: Any, time_s: Any, importance: Any, name: Any, pointer: Pointer | None, checksum: Any) -> None:
    try:
        whole = facts_checksum(number, time_s, importance, name, pointer) == checksum
    except (TypeError, AttributeError, struct.error):  # a number in place of a text
        whole = False
    if not whole:
        raise damaged(number, "when it was written, its importance, its name or its pointer")


def count_all(database: sqlite3.Connection, what: str, found: int) -> None:
    """StoreError unless so many 'entries' or 'keys' were written: a damaged page may hide others."""
    compare_count(what, found, database.execute(f"SELECT {what} FROM state").fetchone()[0])


def compare_count(what: str, found: int, wanted: int) -> None:
    """StoreError unless the number found equals the store's total."""
    if found != wanted:
        raise StoreError(
            f"The memory is damaged: {found} {what} are found, and {wanted} were written. "
            "'devmind memory check --mend' keeps those that are found."
        )


def damaged(number: object, what: str) -> StoreError:
    """A sentence on an entry that differs from what was written."""
    return StoreError(f"Entry {number} of the memory is damaged: {what} is not as it was written. {MENDED_BY}.")


def read_facts(database: sqlite3.Connection, condition: str, values: Sequence[object]) -> Facts:
    """Facts of the entries that pass a condition; StoreError when one is damaged."""
    rows = database.execute(
        "SELECT id, time_s, importance, name, recalled, recalled_s, length(payload), changed, session, tick, "
        f"session_identity, span, checksum FROM entries {condition} ORDER BY id",
        values,
    ).fetchall()
    if condition == ALL:
        count_all(database, "entries", len(rows))
    return as_facts(rows)


def as_facts(rows: Sequence[tuple[Any, ...]]) -> Facts:
    """Facts of rows (id, time_s, importance, name, recalled, recalled_s, length of the payload, changed, session, tick,
    session_identity, span, checksum); StoreError when one is damaged.
    """
    for number, time_s, importance, name, *_, session, tick, identity, span, checksum in rows:
        _compare(number, time_s, importance, name, as_pointer(session, tick, identity, span), checksum)
    columns = list(zip(*rows, strict=True)) or [()] * 13
    ids, time_s, importance, names, recalled, recalled_s, size, changed, *_ = columns
    return Facts(
        np.array(ids, np.int64),
        np.array(time_s, np.float64),
        np.array(importance, np.float64),
        list(names),
        np.array(recalled, np.int64),
        np.array(recalled_s, np.float64),  # None becomes NaN
        np.array(size, np.int64),
        np.array(changed, np.int64),
    )


def read_keys(rows: Iterable[tuple[int, str, str, bytes, int]]) -> dict[str, KeyRows]:
    """Keys by sense of rows (entry, sense, encoder, vector, checksum) in ascending order of entries.

    Raises:
        StoreError: one is damaged.
    """
    columns: dict[str, tuple[list[int], list[bytes], list[int], str]] = {}
    for number, sense, encoder, vector, checksum in rows:
        ids, vectors, sums, one = columns.setdefault(sense, ([], [], [], encoder))
        if encoder != one or len(vector) != 64 * VECTOR.itemsize:
            raise damaged(number, f"its key of '{sense}'")
        if key_checksum(number, sense, encoder, vector) != checksum:
            raise damaged(number, f"its key of '{sense}'")
        ids.append(number)
        vectors.append(vector)
        sums.append(checksum)
    found = {}
    for sense, (ids, vectors, sums, encoder) in columns.items():
        matrix = np.frombuffer(b"".join(vectors), VECTOR).astype(np.float32).reshape(-1, 64)
        found[sense] = KeyRows(np.array(ids, np.int64), matrix, np.array(sums, np.int64), encoder)
    return found
