"""The senses of an entry as bytes and back, compressed, without pickle and without loss.

Layout: one zstandard frame with a checksum, of a JSON header's length (4 bytes), the header, and the arrays' bytes.
Sound with samples that are 16-bit numbers divided by 32,768 is stored as these numbers: half the bytes before
compression.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping

import numpy as np
import zstandard

from devmind.bounds import is_numeric, parse_json
from devmind.errors import StoreError
from devmind.moment import Sense

_HEAD = struct.Struct("<I")
_FULL_SCALE = np.float32(32768)
_MAX_BYTES = 64 << 20
"""A payload may unfold to this size plus ten times its own: a picture, some seconds of sound, some views."""


def pack(senses: Mapping[str, Sense]) -> bytes:
    """Senses as bytes.

    Raises:
        StoreError: a value is neither str nor a numeric array.
    """
    header, parts = [], []
    for name, value in senses.items():
        kind, shape, data = _as_bytes(name, value)
        header.append([name, kind, shape, len(data)])
        parts.append(data)
    text = json.dumps(header).encode()
    return zstandard.ZstdCompressor(level=3, write_checksum=True).compress(
        b"".join((_HEAD.pack(len(text)), text, *parts))
    )


def unpack(data: bytes) -> dict[str, Sense]:
    """The senses given to `pack`: the same bits, dtypes and shapes, in arrays of their own.

    Raises:
        StoreError: the bytes are damaged.
    """
    try:
        raw = decompress(data, _MAX_BYTES + 10 * len(data))
        start = _HEAD.size + _HEAD.unpack_from(raw)[0]
        senses: dict[str, Sense] = {}
        for name, kind, shape, size in parse_json(raw[_HEAD.size : start], StoreError, "its table is not JSON ({})"):
            if not (type(size) is int and 0 <= size <= len(raw) - start):
                raise ValueError("a part's size does not fit")
            senses[name] = _from_bytes(kind, shape, raw[start : start + size])
            start += size
    except Exception as error:  # the exception depends on the place of the damage
        raise StoreError(f"A remembered payload is damaged ({type(error).__name__}: {error}).") from error
    return senses


def decompress(data: bytes, largest: int) -> bytes:
    """A zstandard frame decompressed; ValueError when it has, or declares, more than `largest` bytes."""
    declared = zstandard.frame_content_size(data)
    if declared > largest:
        raise ValueError(f"it would unfold to {declared:,} bytes, more than the limit of {largest:,}")
    return zstandard.ZstdDecompressor().decompress(data, max_output_size=largest)


def _as_bytes(name: str, value: Sense) -> tuple[str, list[int], bytes]:
    if isinstance(value, str):
        return "str", [], value.encode("utf-8", "surrogatepass")
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "buif":
        kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        raise StoreError(f"Sense '{name}' must be a str or a numeric array to be remembered; got {kind}.")
    if name == "sound" and value.dtype == np.float32 and np.abs(value).max(initial=0) <= 1:
        samples = np.minimum(value * _FULL_SCALE, 32767).astype("<i2")
        if (samples.astype(np.float32) / _FULL_SCALE).tobytes() == value.tobytes():
            return "s16", list(value.shape), samples.tobytes()
    return value.dtype.str, list(value.shape), value.tobytes()


def _from_bytes(kind: str, shape: list[int], data: bytes) -> Sense:
    if kind == "str":
        return data.decode("utf-8", "surrogatepass")
    if kind == "s16":
        return (np.frombuffer(data, "<i2").astype(np.float32) / _FULL_SCALE).reshape(shape)
    if not is_numeric(kind):
        raise ValueError(f"{kind!r:.40} is no kind of numbers")
    return np.frombuffer(data, np.dtype(kind)).reshape(shape).copy()
