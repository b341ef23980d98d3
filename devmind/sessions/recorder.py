"""Recorder: writes a session, an MCAP file of (Moment, Action), so that a killed process loses at most a second.

Every sense is a message on `/moment/<sense>`, every effector one on `/action/<effector>`. A small `/tick` message comes
last and commits them: messages without a tick mark are ignored. Chunks end between ticks and are flushed and fsynced
every half second. Messages have wall-clock times for viewers: the start is in the metadata, and the ticks' own clock
continues from there. A long recording may be several files, so that an accident never costs a day.
"""

from __future__ import annotations

import json
import math
import platform
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

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
from devmind.sessions.mcap_file import McapFile
from devmind.sessions.metadata import (
    CONTINUES,
    CREATED,
    FORMAT,
    NAMES,
    PART,
    RECORDING,
    STARTED,
    names_in,
    part_path,
    started_ns,
)
from devmind.sessions.parts import refuse_leftovers
from devmind.sessions.pictures import as_jpeg
from devmind.sessions.schemas import CAMERA
from devmind.sessions.steps import encode_step
from devmind.sessions.turning import request_path

FLUSH_S = 0.5
CHUNK_BYTES = 256 * 1024
CARRIED = ("weights", "age", "directed")
"""Notes that hold until the next of their kind: each part begins with them, so that it can be read alone."""


class Recorder:
    """Writes one session; a context manager.

    Args:
        path: the new file; its folder is made if missing.
        source: the source of the Moments, for example "nursery", "room" or "media".
        tick_hz: ticks per second of the source.
        details: more about the source (world, level, device names, seed), kept as text without credentials.
        names: names of the numbers of a sense or effector; it may grow while recording.
        overwrite: replace an existing file instead of refusing.
        rotate_s: seconds of Moments after which the next file begins: `path`-0002 and so on; by default there is one.
        clock: seconds, never falling; decides when half a second has passed.
        copied: the metadata of the copied recording: its time and versions hold for the copy.
        mode: who may read the file, as for chmod, from its first byte on; by default the system's.

    Attributes:
        ticks: those written, over all files; paths: the files so far.

    Raises:
        SessionError: the file exists, or one with the name of a later part, the folder cannot be written, the disk is
            full; flushed data stays readable, and the message says how many ticks that is.

    The flush happens inside `write`, on no thread: a loop that pauses calls `flush` first.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        source: str,
        tick_hz: float = TICK_HZ,
        details: Mapping[str, object] | None = None,
        names: Mapping[str, Sequence[str]] | None = None,
        overwrite: bool = False,
        rotate_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        copied: Mapping[str, str] | None = None,
        mode: int | None = None,
    ) -> None:
        if rotate_s is not None and not rotate_s * tick_hz >= 1:
            raise SessionError(f"A part must hold one tick at least ({1 / tick_hz:g} s); got rotate_s={rotate_s:g}.")
        self.path, self.tick_hz, self.rotate_s, self.paths = Path(path), tick_hz, rotate_s, list[Path]()
        self.ticks = self._ticks_before = self._number = 0
        self._source, self._details, self._copied = source, dict(details or {}), dict(copied or {})
        self._names = names_in(copied) if copied else names if names is not None else {}
        self._recording, self._carried = uuid.uuid4().hex, dict[str, Any]()
        self._overwrite, self._clock = overwrite, clock
        self._tick_ns = round(1e9 / tick_hz)
        self._origin_s: float | None = None
        self._first_ns = self._last_ns = 0
        self._started_ns = _wall_ns(self._copied)
        if rotate_s is not None and not overwrite:
            refuse_leftovers(self.path)
        self._file = self._begin_part(mode)

    @property
    def number(self) -> int:
        """Number of the tick written last, in its file; -1 before the first."""
        return self._number - 1

    @property
    def place(self) -> tuple[Path, str, int]:
        """For the tick written last: its part's file and identity (as `pointed.identity`), and its number there."""
        return self.paths[-1], f"{self._recording}/{len(self.paths)}", self.number

    def write(self, moment: Moment, action: Action | None = None) -> None:
        """Append one tick. It is encoded wholly before anything is written, so a refused tick leaves no trace."""
        self.turn_if_wanted()
        self.write_at(moment, action, self._log_time_ns(moment))

    def write_at(self, moment: Moment, action: Action | None, at_ns: int, number: int | None = None) -> None:
        """Append one tick, so many nanoseconds after the session's first: for copying recordings.

        Args:
            number: of the tick in the original, so that it keeps its identity where earlier ticks are missing. A number
                not above the last one is replaced by the next.
        """
        self._turn_when_full()
        step = encode_step(moment, action, self._started_ns + at_ns, self._names)
        self._file.check()
        self._number = max(self._number, number or 0)
        for topic, schema, data in step:
            self._add(topic, schema, at_ns, data)
        self._number += 1
        if self.ticks == self._ticks_before:
            self._first_ns = at_ns
        self.ticks += 1
        self._last_ns = at_ns
        self._flush_when_due()

    def note(self, kind: str, data: Any) -> None:
        """Append an event (a weight hash, a taught name, a recall) as JSON.

        It belongs before the next tick to be written.

        Raises:
            SessionError: `data` cannot be written as JSON.
        """
        self._turn_when_full()
        note = encode_note(Note(self.ticks - self._ticks_before, kind, data))
        self._file.check()
        self._add(NOTE_TOPIC, NOTE_SCHEMA, self._last_ns, note)
        if kind in CARRIED:
            self._carried[kind] = data

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
        self._turn_when_full()
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
        self._turn_when_full()
        encoded = encode_health(data)
        self._file.check()
        self._add(HEALTH_TOPIC, HEALTH_SCHEMA, self._last_ns, encoded)

    def flush(self) -> None:
        """Flush everything written so far to the disk itself (fsync)."""
        self._file.end_chunk(self.ticks - self._ticks_before)
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

    def turn_if_wanted(self) -> None:
        """Begin the next part when another process wants to rewrite this one (`turning.py`)."""
        if self.rotate_s is not None and (turn := request_path(self.paths[-1])).exists():
            self._turn()
            turn.unlink(missing_ok=True)

    def _turn_when_full(self) -> None:
        """Begin the next part when this one is full; half a tick less, because clocks round."""
        ticks = self.ticks - self._ticks_before
        if self.rotate_s is None or not ticks:
            return
        span_s = (self._last_ns - self._first_ns + self._tick_ns) / 1e9
        if span_s >= self.rotate_s - 0.5 / self.tick_hz:
            self._turn()

    def _turn(self) -> None:
        self.close()
        mode = None
        with suppress(OSError):  # a reader refused by the part before is refused by the next too, from its first byte
            mode = self.paths[-1].stat().st_mode & 0o777
        self._file = self._begin_part(mode)
        self._number, self._ticks_before = 0, self.ticks
        for kind, data in self._carried.items():
            self.note(kind, data)

    def _begin_part(self, mode: int | None) -> McapFile:
        part: dict[str, object] = {}
        if self.rotate_s is not None:
            part = {RECORDING: self._recording, PART: len(self.paths) + 1}
        if self.paths:
            part[CONTINUES] = self.paths[-1].name
        about = {**self._details, **part, **_about(self._source, self.tick_hz)}
        if self._names:
            about[NAMES] = json.dumps({name: list(of) for name, of in self._names.items()})
        about |= {**self._copied, "format": FORMAT, STARTED: self._started_ns}
        path = part_path(self.path, len(self.paths) + 1)
        file = McapFile(path, {name: str(value) for name, value in about.items()}, self._overwrite, mode)
        self.paths.append(path)
        self._flushed_at_s = self._clock()
        return file

    def _add(self, topic: str, schema: str, at_ns: int, data: bytes) -> None:
        self._file.add(topic, schema, self._started_ns + at_ns, data, self._number)

    def _flush_when_due(self) -> None:
        if self._clock() - self._flushed_at_s >= FLUSH_S:
            self.flush()
        elif self._file.pending_bytes >= CHUNK_BYTES:
            self._file.end_chunk(self.ticks - self._ticks_before)

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


def _wall_ns(copied: Mapping[str, str]) -> int:
    """Nanoseconds since 1970 at the recording's start: from the metadata of its original, else now."""
    with suppress(KeyError, ValueError):
        return started_ns(copied) or round(datetime.fromisoformat(copied[CREATED]).timestamp() * 1e9)
    return time.time_ns()


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
