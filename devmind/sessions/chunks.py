"""Walks the records of an MCAP file that may be cut anywhere, still be growing, or be damaged.

The stock readers want the index at the file's end and show nothing of a file that lacks it; this one goes from the
front and stops where the last whole record ends.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Chunk, Metadata, Statistics
from mcap.stream_reader import breakup_chunk
from mcap.writer import MCAP0_MAGIC
from zstandard import ZstdError

from devmind.errors import SessionError
from devmind.sessions.mcap_file import SUM_KEY, metadata_sum

_HEAD = struct.Struct("<BQ")
_DAMAGE = (McapError, ZstdError, ValueError, OverflowError, EOFError, struct.error, MemoryError)


@dataclass(frozen=True)
class Found:
    """One whole record: its kind, where it starts and ends in the file."""

    opcode: int
    start: int
    end: int


def open_file(path: Path) -> IO[bytes]:
    """A file for reading; a pipe or a device is refused, where opening it would wait for ever.

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
    """The whole records in bytes `start` to `size`, up to the footer or the first broken length."""
    while start + _HEAD.size <= size:
        file.seek(start)
        opcode, length = _HEAD.unpack(file.read(_HEAD.size))
        end = start + _HEAD.size + length
        if opcode == 0 or end > size:  # a lost power supply can leave zeros at the end
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
        return list(breakup_chunk(Chunk.read(ReadDataStream(file)), validate_crc=True))
    except _DAMAGE as error:
        raise SessionError(f"The chunk at byte {start} is damaged ({type(error).__name__}: {error}).") from error


def read_metadata(file: IO[bytes], start: int) -> Metadata:
    """The metadata record at byte `start`, its checksum verified where it has one.

    Raises:
        SessionError: it is damaged.
    """
    file.seek(start + _HEAD.size)
    try:
        metadata = Metadata.read(ReadDataStream(file))
        if SUM_KEY in metadata.metadata and metadata.metadata[SUM_KEY] != metadata_sum(metadata.metadata):
            raise ValueError("its checksum is another")
        return metadata
    except _DAMAGE as error:
        raise SessionError(f"The metadata at byte {start} is damaged ({type(error).__name__}: {error}).") from error


def check_count(file: IO[bytes], start: int, found: int) -> None:
    """Compare how many chunks were found with what the statistics at byte `start`, near a file's end, say.

    Raises:
        SessionError: they do not agree; a chunk that no longer says that it is one would be missed otherwise.
    """
    file.seek(start + _HEAD.size)
    try:
        count = Statistics.read(ReadDataStream(file)).chunk_count
    except _DAMAGE as error:
        raise SessionError(f"The statistics at byte {start} are damaged ({type(error).__name__}: {error}).") from error
    if count != found:
        raise SessionError(f"{found} of {count} chunks were found.")
