"""Checksums of a store's values, so that damage on a disk is reported and never believed (CRC-32 of zlib).

They cover the values, not a database's bytes: every store computes the same ones.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

from devmind.memory.entry import Key, Pointer

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
