"""A check of the whole PostgreSQL store: what is damaged, and what can be mended."""

from __future__ import annotations

from collections.abc import Iterator

from devmind.errors import StoreError
from devmind.memory.entry import Entry
from devmind.memory.stores.postgres.link import Connection
from devmind.memory.stores.postgres.rows import read_entries, rows_of
from devmind.memory.stores.rows import Fault

_BATCH = 100
_TOTALS = """
    SELECT (SELECT count(*) FROM devmind.entries),
        (SELECT coalesce(sum(length(payload)), 0)::bigint FROM devmind.entries),
        (SELECT count(*) FROM devmind.keys),
        (SELECT coalesce(sum(4 * (cardinality(vector) + coalesce(cardinality(features), 0))), 0)::bigint
            FROM devmind.keys),
        (SELECT coalesce(sum(checksum), 0)::bigint FROM devmind.keys)
"""
_COUNTED = "entries, payload_bytes, keys, key_bytes, keys_sum"


def faults(connection: Connection) -> list[Fault]:
    """All faults; inside a transaction."""
    texts: dict[int, str] = {}
    return [*_entries(connection, texts), *_texts(connection, texts), *_totals(connection)]


def mend_entries(connection: Connection, change: int) -> list[str]:
    """Delete damaged entries and rebuild derived data, inside a transaction; a sentence for each repair."""
    texts: dict[int, str] = {}
    damaged = list(_entries(connection, texts))
    stale = list(_texts(connection, texts))
    gone = sorted({fault.entry for fault in damaged if fault.entry is not None})
    connection.execute("DELETE FROM devmind.keys WHERE entry = ANY(%s)", (gone,))
    connection.execute("DELETE FROM devmind.entries WHERE id = ANY(%s)", (gone,))
    for fault in stale:
        if fault.entry is not None:
            values = (texts[fault.entry], change, fault.entry)
            connection.execute("UPDATE devmind.entries SET text = %s, changed = %s WHERE id = %s", values)
    totals = list(_totals(connection))
    connection.execute(f"UPDATE devmind.state SET ({_COUNTED}) = ({_TOTALS})".encode())
    if gone:
        connection.execute("UPDATE devmind.state SET erase_due = true")
    return [f"{fault.sentence} It was deleted." for fault in damaged] + [
        f"{fault.sentence} It was rebuilt." for fault in (*stale, *totals)
    ]


def _entries(connection: Connection, texts: dict[int, str]) -> Iterator[Fault]:
    """Entries and keys that differ from what was written; `texts` gets the search texts of the others."""
    numbers = [number for (number,) in rows_of(connection, "SELECT id FROM devmind.entries ORDER BY id")]
    for start in range(0, len(numbers), _BATCH):
        part = numbers[start : start + _BATCH]
        try:
            texts |= {entry.id: entry.text for entry in _read(connection, part)}
        except StoreError:
            yield from _damaged(connection, part, texts)


def _damaged(connection: Connection, numbers: list[int], texts: dict[int, str]) -> Iterator[Fault]:
    for number in numbers:
        try:
            texts |= {entry.id: entry.text for entry in _read(connection, [number])}
        except StoreError as error:
            yield Fault(f"{str(error).split('. ')[0]}.", number)


def _read(connection: Connection, numbers: list[int]) -> list[Entry]:
    return read_entries(connection, "id = ANY(%s)", [numbers], payloads=True)


def _texts(connection: Connection, texts: dict[int, str]) -> Iterator[Fault]:
    for number, text in rows_of(connection, "SELECT id, text FROM devmind.entries ORDER BY id"):
        if texts.get(number, text) != text:
            yield Fault(f"What entry {number} is found by in a search by words differs from its content.", number)


def _totals(connection: Connection) -> Iterator[Fault]:
    (kept,) = rows_of(connection, f"SELECT {_COUNTED} FROM devmind.state")
    (counted,) = rows_of(connection, _TOTALS)
    if kept != counted:
        yield Fault(f"The store's totals say {kept}; the count is {counted}.")
