"""One MCAP file being written: chunks ended by hand, metadata with a checksum, and sentences for disk errors.

The open file is locked, so that nobody rewrites it meanwhile (`turning.py`).

Schemas and channels are in the chunk that first needs them. So that the chunks after a damaged one can still be read,
the table of channels is repeated in the metadata whenever it has grown.
"""

from __future__ import annotations

import errno
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from mcap.writer import CompressionType, Writer

from devmind.checkpointing.files import sync_folder
from devmind.errors import SessionError, without_secrets
from devmind.sessions.extras import JSON_SCHEMAS
from devmind.sessions.schemas import schema_bytes
from devmind.sessions.turning import hold, still_written

METADATA_NAME = "session"
CHANNELS_KEY, SUM_KEY = "channels", "crc32"


class WriteError(SessionError):
    """The disk refused; `reason` is its OSError, for callers that know the file by another name."""

    def __init__(self, sentence: str, reason: OSError) -> None:
        super().__init__(sentence)
        self.reason = reason


class McapFile:
    """Messages on topics, in chunks.

    Args:
        about: the session's metadata, text by name; credentials are removed from it.
        overwrite: replace an existing file instead of refusing.
        mode: of the new file, as for chmod, from its first byte on.

    Attributes:
        pending_bytes: of messages in the open chunk.
        failure: why nothing more is written, a sentence; '' when all is well.

    Raises:
        SessionError: by every method: the file exists, its folder cannot be written, the disk is full.
    """

    def __init__(self, path: Path, about: Mapping[str, str], overwrite: bool, mode: int | None = None) -> None:
        self.path, self.pending_bytes, self.failure = path, 0, ""
        self._about, self._safe_ticks, self._noted_channels = without_secrets(about), 0, -1
        self._schemas: dict[str, int] = {}
        self._channels: dict[tuple[str, str], int] = {}
        with self._guarded():
            self._file = create(path, overwrite, mode)
            # The writer's own limit cannot be reached: chunks are ended between ticks.
            self._writer = Writer(self._file, chunk_size=2**62, compression=CompressionType.ZSTD)
            try:
                self._writer.start(profile="devmind")
                self._add_metadata()
                self._writer.flush()
            except OSError:
                if not overwrite:  # the next try would find a file without a byte, and be refused
                    path.unlink(missing_ok=True)
                raise

    @property
    def closed(self) -> bool:
        """True after `close` or a failure."""
        return self._file.closed

    def check(self) -> None:
        """Raise SessionError if the disk has refused before."""
        with self._guarded():
            pass

    def add(self, topic: str, schema: str, at_ns: int, data: bytes, sequence: int) -> None:
        """Add a message to the chunk in memory."""
        self._writer.add_message(self._channel(topic, schema), at_ns, data, at_ns, sequence=sequence % 2**32)
        self.pending_bytes += len(data)

    def end_chunk(self, ticks: int) -> None:
        """Write the chunk; the file then holds `ticks` whole ticks."""
        with self._guarded():
            if self._noted_channels < len(self._channels):
                self._add_metadata()
            self._writer.flush()
            self.pending_bytes, self._safe_ticks = 0, ticks

    def sync(self) -> None:
        """Flush to the disk itself (fsync)."""
        with self._guarded():
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Finish the file with its index."""
        with self._guarded():
            if self._noted_channels < len(self._channels):
                self._add_metadata()
            self._writer.finish()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def _add_metadata(self) -> None:
        channels = {number: key for key, number in self._channels.items()}
        about = {**self._about, CHANNELS_KEY: json.dumps(channels)}
        self._writer.add_metadata(METADATA_NAME, {**about, SUM_KEY: metadata_sum(about)})
        self._noted_channels = len(self._channels)

    def _channel(self, topic: str, schema: str) -> int:
        """A channel has one schema, so a sense that changes its schema (sound that is not 16-bit) gets a second one."""
        if (topic, schema) not in self._channels:
            encoding = "json" if schema in JSON_SCHEMAS else "protobuf"
            if schema not in self._schemas:
                known = JSON_SCHEMAS.get(schema) or schema_bytes(schema)
                described = "jsonschema" if schema in JSON_SCHEMAS else "protobuf"
                self._schemas[schema] = self._writer.register_schema(schema, described, known)
            self._channels[topic, schema] = self._writer.register_channel(topic, encoding, self._schemas[schema])
        return self._channels[topic, schema]

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Turn a disk error into one sentence, and write nothing more after it."""
        if self.failure:
            raise SessionError(self.failure)
        try:
            yield
        except OSError as error:
            self.failure = why_not_written(self.path, error)
            if hasattr(self, "_file"):
                with suppress(OSError):  # closing flushes once more, and fails in the same way
                    self._file.close()
                if self.path.exists():
                    self.failure += f" The recording's first {self._safe_ticks} ticks are safe and can be read."
            raise WriteError(self.failure, error) from error


def metadata_sum(about: Mapping[str, str]) -> str:
    """The checksum of a session's metadata: MCAP has one for chunks only."""
    text = json.dumps({name: value for name, value in about.items() if name != SUM_KEY}, sort_keys=True)
    return f"{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def why_not_written(path: Path, error: OSError) -> str:
    """One sentence for an OSError of writing `path`."""
    if isinstance(error, FileExistsError):
        return f"'{path}' exists already and is not replaced; choose another name, or move it away."
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"'{path}' cannot be written any further: the disk (or your share of it) is full; free some "
            "space, then start again."
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (
            f"'{path}' cannot be written: its folder is read-only for you; choose another place or change its rights."
        )
    return f"'{path}' cannot be written: {error.strerror or error}; choose another place."


def create(path: Path, overwrite: bool, mode: int | None = None) -> IO[bytes]:
    """The new file, locked, its folder made if missing; nobody outside `mode` can open it at any time.

    Raises:
        OSError: it exists and may not be overwritten, or the disk refuses.
        SessionError: another recording is being written to it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, f"'{path.parent}' is a file, not a folder") from None
    flags = os.O_WRONLY | os.O_CREAT | (0 if overwrite else os.O_EXCL) | getattr(os, "O_BINARY", 0)
    file = os.fdopen(os.open(path, flags, 0o666 if mode is None else mode & 0o600), "wb")
    try:
        if hold(file) is False:
            raise still_written(path)
        file.truncate()
        if mode is not None:
            with suppress(OSError):  # a file system without rights
                path.chmod(mode)
        sync_folder(path.parent)  # a power cut loses a file on the disk without a name there
    except BaseException:
        file.close()
        raise
    return file
