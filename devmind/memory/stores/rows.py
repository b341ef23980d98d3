"""What every database of memories shares: rows as entries and columns, filters as SQL, and checksums (CRC-32 of zlib).

Checksums cover the values, not a database's bytes, and are compared on reading: damage on a disk is reported and never
believed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from devmind.errors import StoreError
from devmind.memory.entry import Entry, Filters, Key, Pointer, searchable
from devmind.memory.payload import unpack
from devmind.memory.tables import Facts, KeyRows

KEPT_DELETIONS = 100_000

VECTOR = np.dtype("<f4")
_NUMBERS = struct.Struct("<dd")


def facts_checksum(number: int, time_s: float, importance: float, name: str | None, pointer: Pointer | None) -> int:
    """Of an entry without its keys, its payload and the counts of its recalls; 0..2^32-1."""
    where: list[str | None] = [None] * 3 if pointer is None else [pointer.session, str(pointer.tick), pointer.identity]
    where += [str(pointer.span)] if pointer is not None and pointer.span else []  # older entries have none
    texts = [str(number), name, *where]
    head = b"\0".join(b"\1" if text is None else text.encode("utf-8", "surrogatepass") for text in texts)
    return zlib.crc32(head, zlib.crc32(_NUMBERS.pack(time_s, importance)))


def payload_checksum(facts_sum: int, payload: bytes) -> int:
    """Of a payload, bound to its entry by the entry's checksum."""
    return zlib.crc32(payload, facts_sum)


def search_checksum(text: bytes, number: int) -> int:
    """Of the name or text by which entry `number` is found, in UTF-8; 0..2^32-1."""
    return zlib.crc32(text, number & 0xFFFFFFFF)


def key_checksum(number: int, sense: str, encoder: str, vector: bytes) -> int:
    """Of the key of entry `number` (little-endian float32); 0..2^32-1."""
    return zlib.crc32(vector, zlib.crc32(f"{number}\0{sense}\0{encoder}".encode()))


def features_checksum(key_sum: int, features: bytes | None) -> int:
    """Of features, bound to their key by the key's checksum."""
    return zlib.crc32(features or b"", key_sum)


def key_parts(number: int, sense: str, key: Key) -> tuple[bytes, int, bytes | None, int]:
    """A key as a store keeps it: vector, its checksum, features or None, their checksum."""
    vector = key.vector.astype(VECTOR).tobytes()
    features = None if key.features is None else key.features.astype(VECTOR).tobytes()
    own = key_checksum(number, sense, key.encoder, vector)
    return vector, own, features, features_checksum(own, features)


def as_pointer(session: str | None, tick: int | None, identity: str | None, span: int = 0) -> Pointer | None:
    """A pointer from its columns."""
    return None if session is None or tick is None else Pointer(session, tick, identity or "", span)


def array(blob: bytes) -> np.ndarray:
    """A vector kept as little-endian float32."""
    return np.frombuffer(blob, VECTOR).astype(np.float32)


MENDED_BY = "'devmind memory check --mend' deletes it and keeps the rest"


def keys_of(keys: dict[int, dict[str, Key]], number: int) -> dict[str, Key]:
    """The keys of an entry, to add to; StoreError when there is no such entry."""
    if number not in keys:
        raise StoreError(
            f"The memory is damaged: a key of entry {number} is there, but the entry is missing. {MENDED_BY}."
        )
    return keys[number]


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


def mixed_keys_error(what: str) -> StoreError:
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
        raise damaged_entry_error(number, f"its key of '{sense}'")
    if features_checksum(checksum, features) != features_sum:
        raise damaged_entry_error(number, f"its features of '{sense}'")
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
        raise damaged_entry_error(number, "its payload")
    senses = {} if payload is None else unpack(payload)
    return Entry(time_s, importance, name, keys, senses, number, None, pointer, recalled, recalled_s)


def _compare(number: Any, time_s: Any, importance: Any, name: Any, pointer: Pointer | None, checksum: Any) -> None:
    try:
        whole = facts_checksum(number, time_s, importance, name, pointer) == checksum
    except (TypeError, AttributeError, struct.error):  # a number in place of a text
        whole = False
    if not whole:
        raise damaged_entry_error(number, "when it was written, its importance, its name or its pointer")


def compare_count(what: str, found: int, wanted: int) -> None:
    """StoreError unless the number found equals the store's total."""
    if found != wanted:
        raise StoreError(
            f"The memory is damaged: {found} {what} are found, and {wanted} were written. "
            "'devmind memory check --mend' keeps those that are found."
        )


def damaged_entry_error(number: object, what: str) -> StoreError:
    """A sentence on an entry that differs from what was written."""
    return StoreError(f"Entry {number} of the memory is damaged: {what} is not as it was written. {MENDED_BY}.")


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
            raise damaged_entry_error(number, f"its key of '{sense}'")
        if key_checksum(number, sense, encoder, vector) != checksum:
            raise damaged_entry_error(number, f"its key of '{sense}'")
        ids.append(number)
        vectors.append(vector)
        sums.append(checksum)
    found = {}
    for sense, (ids, vectors, sums, encoder) in columns.items():
        matrix = np.frombuffer(b"".join(vectors), VECTOR).astype(np.float32).reshape(-1, 64)
        found[sense] = KeyRows(np.array(ids, np.int64), matrix, np.array(sums, np.int64), encoder)
    return found


@dataclass(frozen=True)
class Fault:
    """A fault, as a sentence; with the entry that must be deleted, if there is one."""

    sentence: str
    entry: int | None = None


EVERYTHING = "TRUE"
"""The condition of filters that pass everything."""


def condition(filters: Filters, mark: str, find: str) -> tuple[str, list[object]]:
    """The condition and its values.

    Args:
        mark: the placeholder for a value.
        find: a function of a text and the wanted text, above 0 where it is found.
    """
    conditions = {
        f"name = {mark}": filters.name,
        f"time_s >= {mark}": filters.since_s,
        f"time_s < {mark}": filters.until_s,
        f"{find}(text, {mark}) > 0": None if filters.words is None else searchable(filters.words),
        f"session_identity = {mark}": filters.session,
    }
    used = {text: value for text, value in conditions.items() if value is not None}
    texts = [*used, *([] if filters.named is None else [f"name IS {'NOT ' if filters.named else ''}NULL"])]
    texts += [] if filters.says is None else [f"text {'<>' if filters.says else '='} ''"]
    return " AND ".join(texts) or EVERYTHING, list(used.values())
