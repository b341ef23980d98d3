"""Recorder: writes a session, an MCAP file of (Moment, Action), so that a killed process loses at most a second.

Every sense is a message on `/moment/<sense>`, every effector one on `/action/<effector>`; a small `/tick` message comes
last and commits them: what has no tick mark never happened. Chunks end between ticks and are flushed and fsynced every
half second.
"""

from __future__ import annotations

import errno
import math
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from mcap.writer import CompressionType, Writer

from devmind.errors import SessionError
from devmind.moment import TICK_HZ, Action, Moment
from devmind.sessions.messages import TICK, schema_bytes
from devmind.sessions.steps import NOTE_JSON_SCHEMA, NOTE_SCHEMA, NOTE_TOPIC, TICK_TOPIC, Note, encode_note, encode_step

FORMAT = "devmind.session/1"
FLUSH_S = 0.5
CHUNK_BYTES = 256 * 1024


class WriteError(SessionError):
    """The disk refused; `reason` is its OSError, for callers that know the file by another name."""

    def __init__(self, sentence: str, reason: OSError) -> None:
        super().__init__(sentence)
        self.reason = reason


class Recorder:
    """Writes one session; a context manager.

    Args:
        path: the new file; its folder is made if missing.
        source: what gives the Moments, for example "nursery", "room" or "media".
        tick_hz: ticks per second of the source.
        details: more about the source (world, level, device names, seed), kept as text.
        overwrite: replace an existing file instead of refusing.
        clock: seconds, never falling; decides when half a second has passed.

    Raises:
        SessionError: the file exists, the folder cannot be written, the disk is full; what was flushed before stays
            readable, and the message says how many ticks that is.

    The flush happens inside `write`, on no thread: a loop that pauses calls `flush` first.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        source: str,
        tick_hz: float = TICK_HZ,
        details: Mapping[str, object] | None = None,
        overwrite: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = Path(path)
        self.ticks = 0
        self._safe_ticks = 0
        self._tick_ns = round(1e9 / tick_hz)
        self._origin_s: float | None = None
        self._last_ns = 0
        self._pending_bytes = 0
        self._clock = clock
        self._flushed_at_s = clock()
        self._failure = ""
        self._schemas: dict[str, int] = {}
        self._channels: dict[tuple[str, str], int] = {}
        with self._guarded():
            self._file = _create(self.path, overwrite)
            # Chunks are ended by hand, between ticks, so the writer's own limit is out of reach.
            self._writer = Writer(self._file, chunk_size=2**62, compression=CompressionType.ZSTD)
            self._writer.start(profile="devmind")
            about = {**(details or {}), **_about(source, tick_hz)}
            self._writer.add_metadata("session", {name: str(value) for name, value in about.items()})
            self._channel(TICK_TOPIC, TICK)
            self._writer.flush()

    def write(self, moment: Moment, action: Action | None = None) -> None:
        """Append one tick. All of it is encoded before any of it is written, so a refused tick leaves no trace."""
        log_time_ns = self._log_time_ns(moment)
        step = encode_step(moment, action, log_time_ns)
        with self._guarded():
            for topic, schema, data in step:
                self._add(self._channel(topic, schema), log_time_ns, data)
            self.ticks += 1
            self._last_ns = log_time_ns
            if self._clock() - self._flushed_at_s >= FLUSH_S:
                self._flush()
            elif self._pending_bytes >= CHUNK_BYTES:
                self._end_chunk()

    def note(self, kind: str, data: Any) -> None:
        """Append something that happened besides Moments (a weight hash, a name taught, what was recalled) as JSON.

        It belongs before the next tick to be written.

        Raises:
            SessionError: `data` cannot be written as JSON.
        """
        data_bytes = encode_note(Note(self.ticks, kind, data))
        with self._guarded():
            self._add(self._note_channel(), self._last_ns, data_bytes)

    def flush(self) -> None:
        """Put everything written so far on the disk itself (fsync)."""
        with self._guarded():
            self._flush()

    def close(self) -> None:
        """Finish the file with its index; called by the context manager, harmless when called again."""
        if self._file.closed:
            return
        with self._guarded():
            self._writer.finish()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._safe_ticks = self.ticks

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._failure:
            self.close()

    def _flush(self) -> None:
        self._end_chunk()
        os.fsync(self._file.fileno())
        self._flushed_at_s = self._clock()

    def _end_chunk(self) -> None:
        self._writer.flush()
        self._pending_bytes = 0
        self._safe_ticks = self.ticks

    def _add(self, channel: int, log_time_ns: int, data: bytes) -> None:
        self._writer.add_message(channel, log_time_ns, data, log_time_ns, sequence=self.ticks % 2**32)
        self._pending_bytes += len(data)

    def _channel(self, topic: str, schema: str) -> int:
        """A channel has one schema, so a sense that changes its schema (sound that is not 16-bit) gets a second one."""
        if (topic, schema) not in self._channels:
            if schema not in self._schemas:
                self._schemas[schema] = self._writer.register_schema(schema, "protobuf", schema_bytes(schema))
            self._channels[topic, schema] = self._writer.register_channel(topic, "protobuf", self._schemas[schema])
        return self._channels[topic, schema]

    def _note_channel(self) -> int:
        key = (NOTE_TOPIC, NOTE_SCHEMA)
        if key not in self._channels:
            schema = self._writer.register_schema(NOTE_SCHEMA, "jsonschema", NOTE_JSON_SCHEMA)
            self._channels[key] = self._writer.register_channel(NOTE_TOPIC, "json", schema)
        return self._channels[key]

    def _log_time_ns(self, moment: Moment) -> int:
        """Nanoseconds since the session's first tick; a source clock that starts again goes on one tick later."""
        if not math.isfinite(moment.time_s) or abs(moment.time_s) > 2**33:
            raise SessionError(f"A Moment's time_s must be a number of seconds below 2**33; got {moment.time_s}.")
        if self._origin_s is None:
            self._origin_s = moment.time_s
        elapsed_ns = round((moment.time_s - self._origin_s) * 1e9)
        if elapsed_ns < self._last_ns:
            elapsed_ns = self._last_ns + self._tick_ns
            self._origin_s = moment.time_s - elapsed_ns / 1e9
        return elapsed_ns

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Turn a failing disk into one sentence, and write nothing more after it."""
        if self._failure:
            raise SessionError(self._failure)
        try:
            yield
        except OSError as error:
            self._failure = why_not_written(self.path, error)
            if hasattr(self, "_file"):
                self._failure += f" The recording's first {self._safe_ticks} ticks are safe and can be read."
                with suppress(OSError):  # closing flushes once more, which fails as it just did
                    self._file.close()
            raise WriteError(self._failure, error) from error


def why_not_written(path: Path, error: OSError) -> str:
    """One sentence for the OSError that writing `path` met."""
    if isinstance(error, FileExistsError):
        return f"'{path}' exists already and is not replaced; choose another name, or allow overwriting."
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"'{path}' cannot be written on: the disk (or your share of it) is full; free some space, then start anew."
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (
            f"'{path}' cannot be written: its folder is read-only for you; choose another place or change its rights."
        )
    return f"'{path}' cannot be written: {error.strerror or error}; choose another place."


def _create(path: Path, overwrite: bool) -> IO[bytes]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, f"'{path.parent}' is a file, not a folder") from None
    return path.open("wb" if overwrite else "xb")


def _about(source: str, tick_hz: float) -> dict[str, object]:
    about: dict[str, object] = {
        "format": FORMAT,
        "source": source,
        "tick_hz": float(tick_hz),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
    }
    for package in ("devmind", "numpy", "mcap"):
        with suppress(PackageNotFoundError):
            about[package] = version(package)
    return about
