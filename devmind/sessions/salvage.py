"""Finds whole chunks in a recording that is damaged anywhere: chunks have their length and a checksum.

Only the checksum is trusted. Behind damage, the next chunk is searched for by its shape (opcode, consistent lengths),
and a candidate counts only if its checksum is right.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mcap.opcode import Opcode
from mcap.records import Message

from devmind.bounds import damage, parse_json
from devmind.errors import SessionError
from devmind.sessions import chunks
from devmind.sessions.assembly import Assembler, Item, Tick
from devmind.sessions.mcap_file import CHANNELS_KEY, METADATA_NAME, SUM_KEY
from devmind.sessions.metadata import started_ns

_CHUNK_HEAD = struct.Struct("<BQQQQII")
"""Opcode, length, first and last time, size and checksum of the content, length of the compression's name."""
_CHUNK = re.compile(rb"\x06.{5}\0\0\0", re.DOTALL)
_NAME = struct.pack("<I", len(METADATA_NAME)) + METADATA_NAME.encode()
_WALL_CLOCK_NS = 10**17
"""Older recordings count from their first tick, and none is three years long."""
_BETWEEN = {Opcode.HEADER, Opcode.MESSAGE_INDEX, Opcode.METADATA, Opcode.ATTACHMENT, Opcode.DATA_END}


@dataclass(frozen=True)
class Gap:
    """Bytes in which nothing could be read."""

    start: int
    end: int


@dataclass(frozen=True)
class Whole:
    """The records of one undamaged chunk."""

    records: list[Any]


def about(path: Path) -> tuple[dict[str, str], dict[int, tuple[str, str]]]:
    """The session's metadata and its channels (number to topic and schema), from any whole copy in the file.

    Both are empty when there is none.
    """
    metadata: dict[str, str] = {}
    channels: dict[int, tuple[str, str]] = {}
    with path.open("rb") as file, _mapped(file) as data:
        name_at = 0
        while (name_at := data.find(_NAME, name_at) + 1) > 0:
            start = name_at - 1 - 9  # opcode and length precede the name
            if start < 0 or data[start] != Opcode.METADATA:
                continue
            try:
                found = chunks.read_metadata(file, start)
                with damage(SessionError, "The metadata are not those of a session ({})."):
                    started_ns(found.metadata)
                    table = parse_json(found.metadata.get(CHANNELS_KEY, "{}"), SessionError, "They are not JSON ({}).")
                    named = {int(number): (str(topic), str(schema)) for number, (topic, schema) in table.items()}
            except SessionError:
                continue
            if found.name == METADATA_NAME and (SUM_KEY in found.metadata or not metadata):
                metadata = {name: text for name, text in found.metadata.items() if name not in (CHANNELS_KEY, SUM_KEY)}
                channels |= named if SUM_KEY in found.metadata else {}
    return metadata, channels


def start_ns(path: Path, metadata: dict[str, str]) -> int:
    """The log time of the first tick: from the metadata, or if they are lost, from the first whole message."""
    if "format" in metadata:
        return started_ns(metadata)
    records = (record for piece in pieces(path) if isinstance(piece, Whole) for record in piece.records)
    first = next((record.log_time for record in records if isinstance(record, Message)), 0)
    return first if first > _WALL_CLOCK_NS else 0


def items(path: Path, channels: dict[int, tuple[str, str]], begun: int) -> Iterator[Item | Gap]:
    """Everything whole in the file, in order, and a Gap where something is missing.

    A tick with a missing message is left out, which the next one's `sequence` shows. `begun` is the result of
    `start_ns`.
    """
    assembler = Assembler(channels, begun)
    for piece in pieces(path):
        if isinstance(piece, Gap):
            assembler.forget_open_tick()
            yield piece
            continue
        for record in piece.records:
            try:
                item = assembler.feed(record)
                if isinstance(item, Tick):
                    item.step()
            except SessionError:
                continue
            if item is not None:
                yield item


def pieces(path: Path) -> Iterator[Whole | Gap]:
    """The whole chunks of the file, and the gaps between them; nothing more after they unfold to more than such a file
    may.
    """
    unfolded = 0
    with path.open("rb") as file, _mapped(file) as data:
        at = len(chunks.MCAP0_MAGIC) if chunks.has_magic(file) else 0
        if not at and data:
            yield Gap(0, min(len(chunks.MCAP0_MAGIC), len(data)))
        begin = at
        while (start := _next_candidate(data, at)) is not None:
            try:
                records = chunks.read_chunk(file, start)
            except SessionError:
                at = start + 1
                continue
            unfolded += chunks.unfolded_bytes(records)
            if chunks.is_too_much(unfolded, len(data)):
                break
            yield from _gaps(file, begin, start, len(data))
            yield Whole(records)
            begin = at = start + _record_size(data, start)
        yield from _gaps(file, begin, None, len(data))


def _next_candidate(data: Any, at: int) -> int | None:
    """The next place, from `at` on, where a chunk could begin: its lengths agree, and it ends before the file does."""
    while (match := _CHUNK.search(data, at)) is not None:
        start = match.start()
        if start + _CHUNK_HEAD.size + 8 > len(data):
            return None
        _, length, *_, name_length = _CHUNK_HEAD.unpack_from(data, start)
        end, sizes_at = start + 9 + length, start + _CHUNK_HEAD.size + name_length
        if end <= len(data) and sizes_at + 8 <= end:
            (inside,) = struct.unpack_from("<Q", data, sizes_at)
            if sizes_at + 8 + inside == end:
                return start
        at = start + 1
    return None


def _record_size(data: Any, at: int) -> int:
    return 9 + int(struct.unpack_from("<Q", data, at + 1)[0])


def _gaps(file: IO[bytes], start: int, stop: int | None, size: int) -> Iterator[Gap]:
    """The bytes up to `stop` (None: the file's end) as a gap, unless valid records fill them."""
    at = start
    for record in chunks.walk(file, start, size if stop is None else stop):
        if record.opcode == Opcode.FOOTER or (stop is None and record.opcode == Opcode.DATA_END):
            return  # behind it is only an index
        if record.opcode not in _BETWEEN:
            break
        at = record.end
    end = size if stop is None else stop
    if at < end:
        yield Gap(at, end)


def _mapped(file: IO[bytes]) -> Any:
    file.seek(0, 2)  # an empty file cannot be mapped
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file.tell() else nullcontext(b"")
