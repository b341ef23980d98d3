"""The search of the SQLite store: a small table of names and texts, checked before use.

One flipped bit in a text or in an index would silently hide an entry. So a search by name or by words reads all names
or texts of this table, which has no payloads, and no index. They are kept as bytes (UTF-8): checksums cover these, and
SQLite compares bytes as they are.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace

from devmind.errors import StoreError
from devmind.memory.entry import Entry, Filters, searchable
from devmind.memory.stores.checksums import search_checksum
from devmind.memory.stores.filtering import condition
from devmind.memory.stores.migrations import SEARCHED

_GIVEN = "json_each(?)"
"""A list of numbers as one value, however many they are."""
_SUM = """
    UPDATE searched SET name_checksum = CASE WHEN name IS NULL THEN 0 ELSE devmind_search_checksum(name, entry) END,
        text_checksum = devmind_search_checksum(text, entry)
"""


def where(database: sqlite3.Connection, filters: Filters) -> tuple[str, list[object]]:
    """Filters as a WHERE clause of `entries` and its values; inside a transaction.

    Raises:
        StoreError: the search needs names or texts, and their table is damaged.
    """
    others, more = condition(replace(filters, name=None, named=None, words=None, says=None), "?", "instr")
    names, texts, values = _searched(filters)
    if not names + texts:
        return f"WHERE {others}", more
    for column, used in (("name", names), ("text", texts)):
        if used:
            _compare(database, column)
    found = database.execute(f"SELECT entry FROM searched WHERE {' AND '.join(names + texts)}", values).fetchall()
    ids = json.dumps([number for (number,) in found])
    lost = f"SELECT value FROM {_GIVEN} LEFT JOIN entries ON entries.id = value WHERE entries.id IS NULL LIMIT 1"
    if row := database.execute(lost, (ids,)).fetchone():
        raise _damaged(f"entry {row[0]} is not there any more")
    return f"WHERE id IN (SELECT value FROM {_GIVEN}) AND {others}", [ids, *more]


def put_text(database: sqlite3.Connection, number: int, entry: Entry) -> None:
    """Keep the name and text by which an entry is found."""
    name, text = None if entry.name is None else entry.name.encode(), entry.text.encode()
    sums = 0 if name is None else search_checksum(name, number), search_checksum(text, number)
    database.execute("INSERT INTO searched VALUES (?, ?, ?, ?, ?)", (number, name, text, *sums))


def empty(database: sqlite3.Connection) -> None:
    """Empty the table, whatever was in it: `fill` derives it."""
    database.execute("DROP TABLE searched")
    for statement in SEARCHED:
        database.execute(statement)


def fill(database: sqlite3.Connection) -> None:
    """Derive the empty table from the entries; the store's totals are not updated."""
    database.execute(
        "INSERT INTO searched SELECT id, CAST(name AS BLOB), CAST(devmind_text(name, payload) AS BLOB), 0, 0 "
        "FROM entries"
    )
    database.execute(_SUM)


def unfound(database: sqlite3.Connection) -> list[int]:
    """Numbers of entries that are not found by their content, or found and missing."""
    statement = """
        SELECT entry FROM searched WHERE entry NOT IN (SELECT id FROM entries)
            OR name IS NOT NULL AND devmind_search_checksum(name, entry) IS NOT name_checksum
            OR devmind_search_checksum(text, entry) IS NOT text_checksum
        UNION SELECT id FROM entries LEFT JOIN searched ON entry = id
            WHERE searched.name IS NOT CAST(entries.name AS BLOB)
            OR searched.text IS NOT CAST(devmind_text(entries.name, payload) AS BLOB)
        ORDER BY 1
    """
    return [number for (number,) in database.execute(statement).fetchall()]


def _searched(filters: Filters) -> tuple[list[str], list[str], list[object]]:
    """Conditions on names and on texts, and the values of both."""
    names, texts, values = list[str](), list[str](), list[object]()
    if filters.name is not None:
        names.append("name = ?")
        values.append(filters.name.encode())
    if filters.named is not None:
        names.append(f"name IS {'NOT ' if filters.named else ''}NULL")
    if filters.words is not None:
        texts.append("instr(text, ?) > 0")
        values.append(searchable(filters.words).encode())
    if filters.says is not None:
        texts.append(f"length(text) {'>' if filters.says else '='} 0")
    return names, texts, values


def _compare(database: sqlite3.Connection, column: str) -> None:
    """StoreError unless all names or texts are there and as they were written."""
    statement = f"""
        SELECT (SELECT count(*) FROM searched), coalesce(sum({column}_checksum), 0),
            max(CASE WHEN devmind_search_checksum({column}, entry) IS NOT {column}_checksum THEN entry END)
        FROM searched WHERE {column} IS NOT NULL
    """
    try:
        count, total, wrong = database.execute(statement).fetchone()
    except sqlite3.OperationalError as error:
        if "user-defined function" not in str(error):
            raise
        raise _damaged(f"a {column} that entries are found by is no longer valid") from error
    if wrong is not None:
        raise _damaged(f"the {column} that entry {wrong} is found by has changed")
    wanted = database.execute(f"SELECT entries, {column}s_sum FROM state").fetchone()
    if (count, total) != wanted:
        raise _damaged(f"the {column}s that entries are found by are incomplete")


def _damaged(what: str) -> StoreError:
    return StoreError(
        f"The memory is damaged: {what}, so a search could miss entries. 'devmind memory check --mend' rebuilds it."
    )
