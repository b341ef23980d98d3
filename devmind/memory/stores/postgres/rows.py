"""Statements of the PostgreSQL store, and their rows as entries and columns; checksums are compared on reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from devmind.errors import StoreError
from devmind.memory.entry import Entry, Filters, Key
from devmind.memory.stores import rows as shared
from devmind.memory.stores.postgres.link import Connection
from devmind.memory.stores.postgres.wire import Reals
from devmind.memory.stores.rows import (
    as_entry,
    as_facts,
    compare_count,
    facts_checksum,
    key_parts,
    keys_of,
    payload_checksum,
    read_key,
    read_keys,
)
from devmind.memory.tables import Changes, Facts

_COLUMNS = (
    "id, time_s, importance, name, session, tick, session_identity, span, coalesce(recalled, 0), recalled_s, checksum, "
    "payload_checksum"
)
_TABLES = {
    "entries": {
        "id": "int8", "time_s": "float8", "importance": "float8", "name": "text", "payload": "bytea", "text": "text",
        "session": "text", "tick": "int8", "session_identity": "text", "span": "int8", "changed": "int8",
        "checksum": "int8", "payload_checksum": "int8",
    },
    "keys": {
        "entry": "int8", "sense": "text", "encoder": "text", "vector": "float4[]", "checksum": "int8",
        "features": "float4[]", "features_checksum": "int8",
    },
    "recalls": {"entry": "int8", "recalled": "int8", "recalled_s": "float8"},
}  # fmt: skip
"""The columns of written rows, with their types."""
ALL = shared.EVERYTHING
_ENTRIES = "devmind.entries LEFT JOIN devmind.recalls ON recalls.entry = id"


def where(filters: Filters) -> tuple[str, list[object]]:
    """Filters as a condition and its values."""
    return shared.condition(filters, "%s", "strpos")


def rows_of(connection: Connection, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """All rows of a statement, in PostgreSQL's binary form."""
    return connection.cursor(binary=True).execute(statement.encode(), values).fetchall()


def read_entries(connection: Connection, condition: str, values: Sequence[object], payloads: bool) -> list[Entry]:
    """Entries that pass a condition, the oldest number first; inside a transaction.

    Raises:
        StoreError: one is damaged.
    """
    payload = "payload" if payloads else "NULL::bytea"
    rows = rows_of(connection, f"SELECT {_COLUMNS}, {payload} FROM {_ENTRIES} WHERE {condition} ORDER BY id", values)
    keys: dict[int, dict[str, Key]] = {row[0]: {} for row in rows}
    if condition == ALL:
        _count_all(connection, "entries", len(rows))
    columns = "entry, sense, encoder, vector, checksum, features, features_checksum"
    for row in _keys_of(connection, columns, None if condition == ALL else list(keys)):
        keys_of(keys, row[0])[row[1]] = read_key(row)
    if condition == ALL:
        _count_all(connection, "keys", sum(map(len, keys.values())))
    return [as_entry(row, keys[row[0]]) for row in rows]


def read_facts(connection: Connection, condition: str, values: Sequence[object]) -> Facts:
    """Facts of the entries that pass a condition; StoreError when one is damaged."""
    rows = rows_of(
        connection,
        "SELECT id, time_s, importance, name, coalesce(recalled, 0), recalled_s, length(payload), changed, session, "
        f"tick, session_identity, span, checksum FROM {_ENTRIES} WHERE {condition} ORDER BY id",
        values,
    )
    if condition == ALL:
        _count_all(connection, "entries", len(rows))
    return as_facts(rows)


def _keys_of(connection: Connection, columns: str, entries: list[int] | None) -> list[tuple[Any, ...]]:
    """Columns of the keys of so many entries, None for all, in ascending order of entries."""
    if entries is None:
        return rows_of(connection, f"SELECT {columns} FROM devmind.keys ORDER BY entry")
    # One index look-up for each entry, whatever the planner estimates: for a table without statistics it expects
    # hundreds of keys for an entry, and would rather read all keys.
    return rows_of(
        connection,
        "SELECT found.* FROM unnest(%s::bigint[]) AS wanted (id), "
        f"LATERAL (SELECT {columns} FROM devmind.keys WHERE entry = wanted.id OFFSET 0) AS found ORDER BY entry",
        [sorted(entries)],
    )


def _count_all(connection: Connection, what: str, found: int) -> None:
    ((wanted,),) = rows_of(connection, f"SELECT {what} FROM devmind.state")
    compare_count(what, found, wanted)


def read_changes(connection: Connection, since: str | None) -> Changes:
    """See `Store.changes`; inside a transaction."""
    ((identity, changed, deletions_since, keys_total, keys_sum),) = rows_of(
        connection, "SELECT identity, changed, deletions_since, keys, keys_sum FROM devmind.state"
    )
    of, _, number = (since or "").rpartition(":")
    after = int(number) if of == identity and number.isdecimal() else None
    anew = after is None or not deletions_since <= after <= changed
    condition, values = (ALL, ()) if anew else ("changed > %s", (after,))
    if not anew:
        # Recent changes are few, which the planner does not know for a table without statistics.
        connection.execute("SET LOCAL enable_seqscan = off")
    facts = read_facts(connection, condition, values)
    rows = _keys_of(connection, "entry, sense, encoder, vector, checksum", None if anew else facts.ids.tolist())
    gone = "SELECT entry FROM devmind.deletions WHERE changed > %s ORDER BY entry"
    return Changes(
        f"{identity}:{changed}",
        anew,
        facts,
        read_keys(rows),
        np.array([] if anew else [number for (number,) in rows_of(connection, gone, values)], np.int64),
        keys_total,
        keys_sum,
    )


def put_entries(connection: Connection, entries: Sequence[tuple[Entry, bytes]], first: int, change: int) -> None:
    """Insert entries with their packed senses under numbers from `first` on, with their keys."""
    put_encoders(connection, [entry.keys for entry, _ in entries])
    rows, keys, recalls = [], [], []
    for number, (entry, payload) in enumerate(entries, first):
        at = entry.pointer
        pointer = (None, None, None, 0) if at is None else (at.session, at.tick, at.identity, at.span)
        head = (number, entry.time_s, entry.importance, entry.name, payload, entry.text)
        own = facts_checksum(number, entry.time_s, entry.importance, entry.name, at)
        rows.append((*head, *pointer, change, own, payload_checksum(own, payload)))
        keys += key_rows(number, entry.keys)
        if entry.recalled:
            recalls.append((number, entry.recalled, entry.recalled_s))
    many(connection, "entries", rows)
    many(connection, "keys", keys)
    many(connection, "recalls", recalls)


def put_encoders(connection: Connection, written: Sequence[Mapping[str, Key]]) -> None:
    """Set the encoder of a sense's keys; keys of another one then break the foreign key `one_encoder`."""
    connection.cursor().executemany(
        "INSERT INTO devmind.encoders VALUES (%s, %s) "
        "ON CONFLICT (sense) DO UPDATE SET encoder = EXCLUDED.encoder WHERE encoders.encoder <> EXCLUDED.encoder",
        sorted({(sense, key.encoder) for keys in written for sense, key in keys.items()}),
    )


def key_rows(number: int, keys: Mapping[str, Key]) -> list[tuple[object, ...]]:
    """Rows of the table keys."""
    rows: list[tuple[object, ...]] = []
    for sense, key in keys.items():
        vector, checksum, features, features_checksum = key_parts(number, sense, key)
        kept = None if features is None else Reals(features)
        rows.append((number, sense, key.encoder, Reals(vector), checksum, kept, features_checksum))
    return rows


def many(connection: Connection, table: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows in one statement of the database, so that its triggers run once."""
    if not rows:
        return
    columns = _TABLES[table]
    try:
        with connection.cursor().copy(
            f"COPY devmind.{table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)".encode()
        ) as copy:
            copy.set_types(list(columns.values()))
            for row in rows:
                copy.write_row(row)
    except UnicodeEncodeError as error:
        raise StoreError(f"A name or path that is no text cannot be kept in PostgreSQL ({error.reason}).") from error
