"""Recorder: writes a session, an MCAP file of (Moment, Action), so that a killed process loses at most a second.

Every sense is a message on `/moment/<sense>`, every effector one on `/action/<effector>`. A small `/tick` message comes
last and commits them: messages without a tick mark are ignored. Chunks end between ticks and are flushed and fsynced
every half second. Messages have wall-clock times for viewers: the start is in the metadata, and the ticks' own clock
continues from there.
"""

from __future__ import annotations

import json
import math
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from devmind import bounds
from devmind.errors import SessionError
from devmind.moment import TICK_HZ, Action, Moment
from devmind.sessions.extras import (
    CAMERA_TOPIC,
    HEALTH_SCHEMA,
    HEALTH_TOPIC,
    NOTE_SCHEMA,
    NOTE_TOPIC,
    Note,
    encode_frame,
    encode_health,
    encode_note,
)
from devmind.sessions.mcap_file import McapFile, WriteError, why_not_written
from devmind.sessions.pictures import as_jpeg
from devmind.sessions.schemas import CAMERA
from devmind.sessions.steps import encode_step

__all__ = ["FORMAT", "Recorder", "WriteError", "why_not_written"]

FORMAT = "devmind.session/2"
OLDER = ("devmind.session/1",)
"""Older formats that are still read. In /1 log times count from the first tick, and numbers are bytes only."""
STARTED, CREATED, NAMES = "started_ns", "created", "names"
"""Metadata: the wall clock at the session's first tick, the same for people, and the names of numbers as JSON."""
FLUSH_S = 0.5
CHUNK_BYTES = 256 * 1024


class Recorder:
    """Writes one session; a context manager.

    Args:
        path: the new file; its folder is made if missing.
        source: the source of the Moments, for example "nursery", "room" or "media".
        tick_hz: ticks per second of the source.
        details: more about the source (world, level, device names, seed), kept as text without credentials.
        names: names of the numbers of a sense or effector; it may grow while recording.
        overwrite: replace an existing file instead of refusing.
        clock: seconds, never falling; decides when half a second has passed.
        follows: the recorder of the part before this one, whose clock continues.
        copied: the metadata of the copied recording: its time and versions hold for the copy.
        mode: who may read the file, as for chmod, from its first byte on; by default the system's.

    Raises:
        SessionError: the file exists, the folder cannot be written, the disk is full; flushed data stays readable, and
            the message says how many ticks that is.

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
        follows: Recorder | None = None,
        names: Mapping[str, Sequence[str]] | None = None,
        copied: Mapping[str, str] | None = None,
        mode: int | None = None,
    ) -> None:
        self.path = Path(path)
        self.ticks = self._number = 0
        self._tick_ns = round(1e9 / tick_hz)
        self._origin_s: float | None = follows._origin_s if follows else None
        self._last_ns: int = follows._last_ns if follows else 0
        self._first_ns = self._last_ns
        self._clock = clock
        self._flushed_at_s = clock()
        self._started_ns: int = follows._started_ns if follows else _wall_ns(copied or {})
        self._names = names_in(copied) if copied else names if names is not None else {}
        about = {**(details or {}), **_about(source, tick_hz)}
        about |= {NAMES: json.dumps({name: list(of) for name, of in self._names.items()})} if self._names else {}
        about |= {**(copied or {}), "format": FORMAT, STARTED: self._started_ns}
        self._file = McapFile(self.path, {name: str(value) for name, value in about.items()}, overwrite, mode)

    @property
    def number(self) -> int:
        """Number of the tick written last; -1 before the first."""
        return self._number - 1

    @property
    def span_s(self) -> float:
        """From the first tick's start to the last one's end."""
        return (self._last_ns - self._first_ns + self._tick_ns) / 1e9 if self.ticks else 0.0

    def write(self, moment: Moment, action: Action | None = None) -> None:
        """Append one tick. It is encoded wholly before anything is written, so a refused tick leaves no trace."""
        self.write_at(moment, action, self._log_time_ns(moment))

    def write_at(self, moment: Moment, action: Action | None, at_ns: int, number: int | None = None) -> None:
        """Append one tick, so many nanoseconds after the session's first: for copying recordings.

        Args:
            number: of the tick in the original, so that it keeps its identity where earlier ticks are missing. A number
                not above the last one is replaced by the next.
        """
        step = encode_step(moment, action, self._started_ns + at_ns, self._names)
        self._file.check()
        self._number = max(self._number, number or 0)
        for topic, schema, data in step:
            self._add(topic, schema, at_ns, data)
        self._number += 1
        self._first_ns = self._first_ns if self.ticks else at_ns
        self.ticks += 1
        self._last_ns = at_ns
        self._flush_when_due()

    def note(self, kind: str, data: Any) -> None:
        """Append an event (a weight hash, a taught name, a recall) as JSON.

        It belongs before the next tick to be written.

        Raises:
            SessionError: `data` cannot be written as JSON.
        """
        note = encode_note(Note(self.ticks, kind, data))
        self._file.check()
        self._add(NOTE_TOPIC, NOTE_SCHEMA, self._last_ns, note)

    def frame(self, frame: bytes | np.ndarray, captured_s: float) -> None:
        """Append a whole frame of the camera, with loss: a JPEG unchanged, or RGB uint8 [H, W, 3] as a new JPEG.

        `captured_s` is on the clock of the Moments' `time_s`; a frame from before the first tick is given that tick's
        time.

        Raises:
            SessionError: it is neither, or the time is no number of seconds.
        """
        if not math.isfinite(captured_s) or abs(captured_s) > 2**33:
            raise SessionError(f"A frame's captured_s must be a number of seconds below 2**33; got {captured_s}.")
        since_s = 0.0 if self._origin_s is None else captured_s - self._origin_s
        self.frame_at(frame, max(0, round(since_s * 1e9)))

    def frame_at(self, frame: bytes | np.ndarray, at_ns: int) -> None:
        """Append a frame taken so many nanoseconds after the session's first tick."""
        jpeg = as_jpeg(frame) if isinstance(frame, np.ndarray) else frame
        data = encode_frame(jpeg, self._started_ns + at_ns)
        self._file.check()
        self._add(CAMERA_TOPIC, CAMERA, at_ns, data)
        self._flush_when_due()

    def health(self, data: Mapping[str, Any]) -> None:
        """Append the state of the devices, as JSON; once a second is plenty.

        Raises:
            SessionError: `data` cannot be written as JSON.
        """
        encoded = encode_health(data)
        self._file.check()
        self._add(HEALTH_TOPIC, HEALTH_SCHEMA, self._last_ns, encoded)

    def flush(self) -> None:
        """Flush everything written so far to the disk itself (fsync)."""
        self._file.end_chunk(self.ticks)
        self._file.sync()
        self._flushed_at_s = self._clock()

    def close(self) -> None:
        """Finish the file with its index; called by the context manager, harmless when called again."""
        if not self._file.closed:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._file.failure:
            self.close()

    def _add(self, topic: str, schema: str, at_ns: int, data: bytes) -> None:
        self._file.add(topic, schema, self._started_ns + at_ns, data, self._number)

    def _flush_when_due(self) -> None:
        if self._clock() - self._flushed_at_s >= FLUSH_S:
            self.flush()
        elif self._file.pending_bytes >= CHUNK_BYTES:
            self._file.end_chunk(self.ticks)

    def _log_time_ns(self, moment: Moment) -> int:
        """Nanoseconds since the session's first tick; a source clock that restarts continues one tick later."""
        if not math.isfinite(moment.time_s) or abs(moment.time_s) > 2**33:
            raise SessionError(f"A Moment's time_s must be a number of seconds below 2**33; got {moment.time_s}.")
        if self._origin_s is None:
            self._origin_s = moment.time_s
        elapsed_ns = round((moment.time_s - self._origin_s) * 1e9)
        if elapsed_ns < self._last_ns:
            elapsed_ns = self._last_ns + self._tick_ns
            self._origin_s = moment.time_s - elapsed_ns / 1e9
        return elapsed_ns


def started_ns(about: Mapping[str, str]) -> int:
    """The log time of a session's first tick, from its metadata."""
    return int(about.get(STARTED, 0))


def _wall_ns(copied: Mapping[str, str]) -> int:
    """Nanoseconds since 1970 at the recording's start: from the metadata of its original, else now."""
    with suppress(KeyError, ValueError):
        return started_ns(copied) or round(datetime.fromisoformat(copied[CREATED]).timestamp() * 1e9)
    return time.time_ns()


def names_in(about: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    """Names of the numbers of a sense or effector, from a session's metadata."""
    with suppress(SessionError):
        found = bounds.parse_json(about.get(NAMES, "{}"), SessionError, "The names of numbers are no JSON ({}).")
        return found if isinstance(found, dict) else {}
    return {}


def _about(source: str, tick_hz: float) -> dict[str, object]:
    about: dict[str, object] = {
        "format": FORMAT,
        "source": source,
        "tick_hz": float(tick_hz),
        CREATED: datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
    }
    for package in ("devmind", "numpy", "mcap"):
        with suppress(PackageNotFoundError):
            about[package] = version(package)
    return about
