"""Rows of the SQLite store as entries and columns, their checksums compared as they are read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

import numpy as np

from devmind.errors import StoreError
from devmind.memory.entry import Entry, Key
from devmind.memory.payload import unpack
from devmind.memory.stores.checksums import VECTOR, entry_checksum, features_checksum, key_checksum
from devmind.memory.stores.sql import array
from devmind.memory.stores.sqlite_functions import as_pointer
from devmind.memory.tables import Facts, KeyRows

COLUMNS = "id, time_s, importance, name, session, tick, session_identity, recalled, recalled_s, checksum"
MENDED_BY = "'devmind memory check --mend' deletes it and keeps the rest"


def read_entries(database: sqlite3.Connection, condition: str, values: Sequence[object], payloads: bool) -> list[Entry]:
    """Entries that pass a condition (a WHERE clause), the oldest number first.

    Raises:
        StoreError: one is damaged.
    """
    statement = f"SELECT {COLUMNS}, {'payload' if payloads else 'NULL'} FROM entries {condition} ORDER BY id"
    rows = database.execute(statement, values).fetchall()
    keys: dict[int, dict[str, Key]] = {row[0]: {} for row in rows}
    for row in database.execute(
        "SELECT entry, sense, encoder, vector, checksum, features, features_checksum FROM keys WHERE entry IN "
        f"(SELECT id FROM entries {condition})",
        values,
    ):
        keys[row[0]][row[1]] = read_key(row)
    return [_entry(row, keys[row[0]]) for row in rows]


def read_key(row: Sequence[object]) -> Key:
    """A key of (entry, sense, encoder, vector, checksum, features, features_checksum); StoreError when damaged."""
    number, sense, encoder, vector, checksum, features, features_sum = row
    whole = isinstance(vector, bytes) and isinstance(features, bytes | None) and isinstance(encoder, str)
    if not whole or key_checksum(number, sense, encoder, vector) != checksum:  # type: ignore[arg-type]
        raise damaged(number, f"its key of '{sense}'")
    if features_checksum(checksum, features) != features_sum:  # type: ignore[arg-type]
        raise damaged(number, f"its features of '{sense}'")
    return Key(array(vector), encoder, None if features is None else array(features))  # type: ignore[arg-type]


def _entry(row: Sequence[object], keys: dict[str, Key]) -> Entry:
    number, time_s, importance, name, session, tick, identity, recalled, recalled_s, checksum, payload = row
    try:
        pointer = as_pointer(session, tick, identity)  # type: ignore[arg-type]
        if payload is not None and entry_checksum(time_s, importance, name, pointer, payload) != checksum:  # type: ignore[arg-type]
            raise damaged(number, "it")
        senses = {} if payload is None else unpack(payload)  # type: ignore[arg-type]
        whole = time_s is not None and recalled is not None
    except (TypeError, AttributeError, ValueError):
        whole = False
    if not whole:
        raise damaged(number, "it")
    return Entry(time_s, importance, name, keys, senses, number, None, pointer, recalled, recalled_s)  # type: ignore[arg-type]


def damaged(number: object, what: str) -> StoreError:
    """A sentence on an entry that is not as it was written."""
    return StoreError(f"Entry {number} of the memory is damaged: {what} is not as it was written. {MENDED_BY}.")


def read_facts(database: sqlite3.Connection, condition: str, values: Sequence[object]) -> Facts:
    """Facts of the entries that pass a condition."""
    rows = database.execute(
        f"SELECT id, time_s, importance, name, recalled, recalled_s, length(payload), changed FROM entries {condition} "
        "ORDER BY id",
        values,
    ).fetchall()
    columns = list(zip(*rows, strict=True)) or [()] * 8
    ids, time_s, importance, names, recalled, recalled_s, size, changed = columns
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
