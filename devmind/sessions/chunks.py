"""Walks the records of an MCAP file that may be cut anywhere, still be growing, or be damaged.

The stock readers need the index at the file's end and show nothing of a file without it. This one reads from the front
and stops where the last whole record ends.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, Message, Metadata, Schema, Statistics
from mcap.writer import MCAP0_MAGIC
from zstandard import ZstdError

from devmind.bounds import EXPANDED_TIMES
from devmind.errors import SessionError
from devmind.sessions.mcap_file import SUM_KEY, metadata_sum

_HEAD = struct.Struct("<BQ")
_MESSAGE = struct.Struct("<HIQQ")
"""Channel, sequence, time of logging and of publishing precede a message's data."""
_INSIDE: dict[int, Any] = {Opcode.SCHEMA: Schema, Opcode.CHANNEL: Channel, Opcode.MESSAGE: Message}
_DAMAGE = (McapError, ZstdError, ValueError, OverflowError, EOFError, struct.error, MemoryError, RuntimeError)
CHUNK_BYTES, CHUNK_TIMES = 32 << 20, 3
"""A chunk may unfold to this size plus so many times its own: ours hold half a second."""
RECORDS = 250_000
"""Largest number of records in a chunk: each costs some 300 bytes, and ours hold a hundred."""


@dataclass(frozen=True)
class Found:
    """One whole record: its kind, and its start and end in the file."""

    opcode: int
    start: int
    end: int


def open_file(path: Path) -> IO[bytes]:
    """A file for reading; a pipe or a device, where opening would wait for ever, is refused.

    Raises:
        OSError: it cannot be opened, or is no file.
    """
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        kind = os.fstat(file).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "it is a pipe or a device and no file")
        return os.fdopen(file, "rb")
    except BaseException:
        os.close(file)
        raise


def has_magic(file: IO[bytes]) -> bool:
    """True when the file starts as an MCAP file does."""
    file.seek(0)
    return file.read(len(MCAP0_MAGIC)) == MCAP0_MAGIC


def walk(file: IO[bytes], start: int, size: int) -> Iterator[Found]:
    """The whole records in bytes `start` to `size`, up to the footer or the first invalid length."""
    while start + _HEAD.size <= size:
        file.seek(start)
        opcode, length = _HEAD.unpack(file.read(_HEAD.size))
        end = start + _HEAD.size + length
        if opcode == 0 or end > size:  # a power cut can leave zeros at the end
            return
        yield Found(opcode, start, end)
        if opcode == Opcode.FOOTER:
            return
        start = end


def ends_as_finished(file: IO[bytes], size: int) -> bool:
    """True when the bytes before `size` are those that close a finished file."""
    file.seek(max(len(MCAP0_MAGIC), size - len(MCAP0_MAGIC)))  # a file just begun holds the magic once
    return file.read(len(MCAP0_MAGIC)) == MCAP0_MAGIC


def read_chunk(file: IO[bytes], start: int) -> list[Any]:
    """The schema, channel and message records of the chunk at byte `start`, its checksum verified.

    Raises:
        SessionError: the chunk is damaged.
    """
    file.seek(start + _HEAD.size)
    try:
        return _records(_unfolded(Chunk.read(ReadDataStream(file))))
    except _DAMAGE as error:
        raise SessionError(f"The chunk at byte {start} is damaged ({type(error).__name__}: {error}).") from error


def check_expansion(file: IO[bytes]) -> None:
    """Refuse a foreign file whose chunks would unfold to too much, before a stock reader unfolds them.

    Raises:
        SessionError: one of them would, or all together.
    """
    size, whole = os.fstat(file.fileno()).st_size, 0
    for record in walk(file, len(MCAP0_MAGIC), size):
        if record.opcode != Opcode.CHUNK:
            continue
        file.seek(record.start + _HEAD.size)
        try:
            whole += len(_unfolded(Chunk.read(ReadDataStream(file))))
        except _DAMAGE as error:
            raise SessionError(f"The chunk at byte {record.start} is damaged ({error}).") from error
        check_total(whole, size)


def unfolded_bytes(records: Iterable[Any]) -> int:
    """The bytes of a chunk's messages."""
    return sum(len(one.data) + _HEAD.size + _MESSAGE.size for one in records if isinstance(one, Message))


def is_too_much(whole: int, size: int) -> bool:
    """True when the chunks of a file of `size` bytes may not unfold to so many bytes together."""
    return whole > EXPANDED_TIMES * size + CHUNK_BYTES


def check_total(whole: int, size: int) -> None:
    """SessionError when the chunks unfold to too much together."""
    if is_too_much(whole, size):
        raise SessionError(
            f"It unfolds to over {EXPANDED_TIMES} times its {size:,} bytes; such a file is made to fill the memory."
        )


def _unfolded(chunk: Chunk) -> bytes:
    """The content of a chunk; its checksum is verified if it has one. ValueError when it unfolds to too much."""
    largest = CHUNK_BYTES + CHUNK_TIMES * len(chunk.data)
    declared = chunk.uncompressed_size
    if chunk.compression == "zstd":
        declared = max(declared, zstandard.frame_content_size(chunk.data))
    if declared > largest:
        raise ValueError(f"it would unfold to {declared:,} bytes, more than the limit of {largest:,}")
    if chunk.compression == "zstd":
        data = zstandard.ZstdDecompressor().decompress(chunk.data, max_output_size=largest)
    elif chunk.compression == "lz4":
        import lz4.frame

        data = lz4.frame.LZ4FrameDecompressor().decompress(chunk.data, max_length=largest + 1)
        if len(data) > largest:
            raise ValueError(f"it unfolds to more than {largest:,} bytes")
    elif chunk.compression:
        raise ValueError(f"its compression {chunk.compression!r:.20} is not known")
    else:
        data = chunk.data
    if chunk.uncompressed_crc and zlib.crc32(data) != chunk.uncompressed_crc:
        raise ValueError("its checksum differs")
    return data


def _records(data: bytes) -> list[Any]:
    """The schema, channel and message records of an unfolded chunk; ValueError when it holds anything else."""
    found: list[Any] = []
    at = 0
    while at < len(data):
        opcode, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if opcode not in _INSIDE or length > len(data) - at:
            raise ValueError(f"a record of kind {opcode} with {length:,} bytes stands in it")
        if len(found) == RECORDS:
            raise ValueError(f"it holds more than {RECORDS:,} records")
        body = data[at : at + length]
        at += length
        if opcode == Opcode.MESSAGE:
            channel, sequence, logged, published = _MESSAGE.unpack_from(body)
            found.append(Message(channel, logged, body[_MESSAGE.size :], published, sequence))
        else:
            found.append(_INSIDE[opcode].read(ReadDataStream(io.BytesIO(body))))
    return found


def read_metadata(file: IO[bytes], start: int) -> Metadata:
    """The metadata record at byte `start`; its checksum is verified if it has one.

    Raises:
        SessionError: it is damaged.
    """
    file.seek(start + _HEAD.size)
    try:
        metadata = Metadata.read(ReadDataStream(file))
        if SUM_KEY in metadata.metadata and metadata.metadata[SUM_KEY] != metadata_sum(metadata.metadata):
            raise ValueError("its checksum differs")
        return metadata
    except _DAMAGE as error:
        raise SessionError(f"The metadata at byte {start} is damaged ({type(error).__name__}: {error}).") from error


def check_count(file: IO[bytes], start: int, found: int) -> None:
    """Compare the number of chunks found with the statistics at byte `start`, near a file's end.

    Raises:
        SessionError: they differ; otherwise a chunk whose opcode was damaged would be missed.
    """
    file.seek(start + _HEAD.size)
    try:
        count = Statistics.read(ReadDataStream(file)).chunk_count
    except _DAMAGE as error:
        raise SessionError(f"The statistics at byte {start} are damaged ({type(error).__name__}: {error}).") from error
    if count != found:
        raise SessionError(f"{found} of {count} chunks were found.")
