"""The file, vectors and faults as SQLite sees them; and functions that its statements need and SQL lacks."""

from __future__ import annotations

import os
import sqlite3
import zlib
from pathlib import Path

import numpy as np

from devmind.errors import StoreError
from devmind.memory.entry import Entry, Pointer
from devmind.memory.payload import unpack
from devmind.memory.stores.checksums import VECTOR, facts_checksum, features_checksum, key_checksum, payload_checksum


def size_of(file: Path) -> int:
    """A file's bytes; 0 when it does not exist."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def make_private(file: Path) -> bool:
    """An empty database file with rights 0600 (SQLite gives its log the same), in a folder made with 0700.

    Returns:
        whether it was made now; False when it existed.
    """
    folder = file.parent
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
        folder.chmod(0o700)  # whatever the umask
    except FileExistsError:  # also when another process made it at the same time
        if not folder.is_dir():
            raise
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    return True


def cut_off(file: Path) -> int:
    """The number of bytes missing at a database's end according to its head; only without a log.

    https://www.sqlite.org/fileformat2.html#the_database_header
    """
    with file.open("rb") as opened:
        head = opened.read(100)
    if len(head) < 100 or head[24:28] != head[92:96]:  # the head does not have the size
        return 0
    page = int.from_bytes(head[16:18], "big")
    wanted = int.from_bytes(head[28:32], "big") * (65536 if page == 1 else page)
    return max(0, wanted - file.stat().st_size)


def array(blob: bytes) -> np.ndarray:
    """A vector kept as little-endian float32."""
    return np.frombuffer(blob, VECTOR).astype(np.float32)


def why(error: sqlite3.Error, waited_s: float) -> str:
    """SQLite's error, with what to do."""
    text = str(error)
    if "not a database" in text or "malformed" in text:
        return f"it is damaged or no database ({text}); take a copy of it from a backup, or choose another folder"
    if "locked" in text:
        return f"another process has been writing to it for {waited_s:g} s; end that one or wait"
    if "full" in text:
        return "the disk is full, and nothing was changed: free some space, then do it again"
    return text


def add_functions(database: sqlite3.Connection) -> None:
    """Register the functions on one connection."""
    for function in (
        devmind_text, devmind_facts_checksum, devmind_payload_checksum, devmind_key_checksum, devmind_features_checksum,
    ):  # fmt: skip
        arguments = function.__code__.co_argcount
        database.create_function(function.__name__, arguments, function, deterministic=True)
    # `search_checksum` without Python code, which would take longer than the rest of a search.
    database.create_function("devmind_search_checksum", 2, zlib.crc32, deterministic=True)


def devmind_text(name: str | None, payload: bytes) -> str:
    """The text for a search by words; for a damaged payload only the name."""
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


def as_pointer(session: str | None, tick: int | None, identity: str | None, span: int = 0) -> Pointer | None:
    """A pointer from its columns."""
    return None if session is None or tick is None else Pointer(session, tick, identity or "", span)
