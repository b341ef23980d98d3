"""The transfer format of vectors to and from PostgreSQL: real[] in its binary form, little-endian float32 on this side.

Source: PostgreSQL's array_send and array_recv (src/backend/utils/adt/arrayfuncs.c): a head of five big-endian int32
(dimensions, has nulls, type of elements, length, lower bound), then each element preceded by its length in bytes.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import psycopg
from psycopg.adapt import Buffer, Dumper, Loader
from psycopg.pq import Format

_HEAD = struct.Struct(">iiIii")
_NO_ELEMENTS = struct.Struct(">iiI")
_ELEMENT = np.dtype([("bytes", ">i4"), ("value", ">f4")])
_REAL, _REALS = 700, 1021
"""The numbers of the types real and real[] in every PostgreSQL (pg_type.dat)."""


class Reals(bytes):
    """A vector as little-endian float32, to be kept as real[]."""


class RealsDumper(Dumper):
    """Reals -> real[]."""

    format = Format.BINARY
    oid = _REALS

    def dump(self, obj: Any) -> Buffer:
        values = np.frombuffer(obj, "<f4")
        if not len(values):
            return _NO_ELEMENTS.pack(0, 0, _REAL)
        elements = np.empty(len(values), _ELEMENT)
        elements["bytes"], elements["value"] = 4, values
        return _HEAD.pack(1, 0, _REAL, len(values), 1) + elements.tobytes()


class RealsLoader(Loader):
    """real[] of one dimension without nulls -> bytes, little-endian float32."""

    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        head = bytes(data[: _HEAD.size])
        if len(head) < _HEAD.size:
            return b""
        dimensions, nulls, _, length, _ = _HEAD.unpack(head)
        if dimensions != 1 or nulls:
            raise psycopg.DataError(f"a vector of {dimensions} dimensions, nulls: {nulls}")
        elements = np.frombuffer(data, _ELEMENT, length, _HEAD.size)
        return elements["value"].astype("<f4").tobytes()


def register(connection: psycopg.Connection[Any]) -> None:
    """Register both directions on one connection."""
    connection.adapters.register_dumper(Reals, RealsDumper)
    connection.adapters.register_loader(_REALS, RealsLoader)
