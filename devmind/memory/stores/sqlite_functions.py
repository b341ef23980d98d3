"""What the SQLite store's statements need and SQL cannot say: texts to search, and checksums."""

from __future__ import annotations

import sqlite3
import zlib

from devmind.errors import StoreError
from devmind.memory.entry import Entry, Pointer
from devmind.memory.payload import unpack
from devmind.memory.stores.checksums import facts_checksum, features_checksum, key_checksum, payload_checksum


def add_functions(database: sqlite3.Connection) -> None:
    """Make the functions known to one connection."""
    for function in (
        devmind_text, devmind_facts_checksum, devmind_payload_checksum, devmind_key_checksum, devmind_features_checksum,
    ):  # fmt: skip
        arguments = function.__code__.co_argcount
        database.create_function(function.__name__, arguments, function, deterministic=True)
    # `search_checksum` without Python in between, which would take longer than the rest of a search.
    database.create_function("devmind_search_checksum", 2, zlib.crc32, deterministic=True)


def devmind_text(name: str | None, payload: bytes) -> str:
    """What a search by words looks through; of a damaged payload only the name."""
    try:
        senses = unpack(payload)
    except StoreError:
        senses = {}
    return Entry(0.0, 0.0, name, {}, senses).text


def devmind_facts_checksum(
    number: int,
    time_s: float,
    importance: float,
    name: str | None,
    session: str | None,
    tick: int | None,
    identity: str | None,
) -> int:
    """See `facts_checksum`."""
    return facts_checksum(number, time_s, importance, name, as_pointer(session, tick, identity))


def devmind_payload_checksum(facts_sum: int, payload: bytes) -> int:
    """See `payload_checksum`."""
    return payload_checksum(facts_sum, payload)


def devmind_key_checksum(entry: int, sense: str, encoder: str, vector: bytes) -> int:
    """See `key_checksum`."""
    return key_checksum(entry, sense, encoder, vector)


def devmind_features_checksum(key_sum: int, features: bytes | None) -> int:
    """See `features_checksum`."""
    return features_checksum(key_sum, features)


def as_pointer(session: str | None, tick: int | None, identity: str | None) -> Pointer | None:
    """A pointer of its three columns."""
    return None if session is None or tick is None else Pointer(session, tick, identity or "")
