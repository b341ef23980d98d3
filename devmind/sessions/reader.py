"""Session: reads a recording back as the (Moment, Action) pairs that were written, equal to the bit.

Works on finished files, on files whose writer was killed, and on files that are still being written.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

from mcap.opcode import Opcode
from mcap.records import Channel, Message, Schema

from devmind.errors import SessionError
from devmind.sessions import chunks
from devmind.sessions.recorded import Recorded
from devmind.sessions.recorder import FORMAT
from devmind.sessions.steps import NOTE_TOPIC, TICK_TOPIC, Note, Step, decode_note, decode_step

__all__ = ["Note", "Recorded", "Session", "Step", "describe", "open_session", "replay"]


class Session:
    """A recording, indexed when opened: every checksum is verified then, so a lesson does not meet damage midway.

    Iterating gives (Moment, Action or None); `session[i]` and `session.window(start, count)` read from anywhere.
    Arrays are fresh copies. Holds an index of some bytes a tick, no file handle, so it can be pickled to workers.

    Attributes:
        metadata: text by name: source, tick_hz, format, versions, the source's details.
        notes: what was noted besides Moments, in order.
        truncated: the file has no end: it is still being written, or its writer was killed.
        senses, effectors: what was recorded, by name.

    Raises:
        SessionError: missing, empty, no session, of another format, or damaged (`salvage=True` keeps what lies before
            the damage and says `truncated`).
    """

    def __init__(self, path: str | Path, *, salvage: bool = False) -> None:
        self.path = Path(path)
        self.metadata: dict[str, str] = {}
        self.notes: list[Note] = []
        self.truncated = True
        self.senses: dict[str, Recorded] = {}
        self.effectors: dict[str, Recorded] = {}
        self.episode_starts: list[int] = []
        self._salvage = salvage
        self._schemas: dict[int, str] = {}
        self._channels: dict[int, tuple[str, str]] = {}
        self._end = 0
        self._chunk_starts: list[int] = []
        self._ticks_before_chunk: list[int] = []
        self._first_chunk_of_tick = array("L")
        self._chunk_of_open_tick: int | None = None
        self._open_parts: dict[str, tuple[str, bytes]] = {}
        self._first_ns = self._last_ns = 0
        self._last_is_end = False
        with self._open() as file:
            if not chunks.has_magic(file):
                empty = " (it is empty)" if not self.path.stat().st_size else ""
                raise SessionError(f"'{self.path}' is not an MCAP recording{empty}; give a file that devmind recorded.")
        self._end = len(chunks.MCAP0_MAGIC)
        self.refresh()
        self._check_format()

    def refresh(self) -> int:
        """Index what was written since; returns how many ticks are new."""
        before = len(self)
        with self._open() as file:
            size = os.fstat(file.fileno()).st_size
            record = None
            try:
                for record in chunks.walk(file, self._end, size):
                    self._index(file, record)
                    self._end = record.end
                if self.truncated and chunks.ends_as_finished(file, size):
                    raise SessionError(f"The record at byte {self._end} is damaged.")
            except SessionError as error:
                # A lost power supply can leave a last chunk of the right length with unwritten pages in it.
                is_tail = record is not None and next(chunks.walk(file, record.end, size), None) is None
                if not self._salvage and (not is_tail or chunks.ends_as_finished(file, size)):
                    raise SessionError(
                        f"'{self.path}' is damaged after {len(self)} whole ticks: {error} "
                        f"Copy what can be read with 'devmind session repair'."
                    ) from error
                self._end = size  # nothing behind the damage is read, now or at the next refresh
        return len(self) - before

    def __len__(self) -> int:
        return len(self._first_chunk_of_tick)

    def __iter__(self) -> Iterator[Step]:
        return self._read(0, len(self))

    def __getitem__(self, tick: int) -> Step:
        if not -len(self) <= tick < len(self):
            raise IndexError(f"Tick {tick} is not among the {len(self)} of '{self.path}'.")
        return next(self._read(tick % len(self), tick % len(self) + 1))

    def read(self, start: int, stop: int) -> Iterator[Step]:
        """The ticks from `start` up to, not including, `stop`, read as they are taken."""
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"Ticks {start} to {stop} are not all among the {len(self)} of '{self.path}'.")
        return self._read(start, stop)

    def window(self, start: int, count: int) -> list[Step]:
        """`count` ticks from `start` on; fewer at the session's end."""
        if start < 0 or count < 0:
            raise IndexError(f"A window needs start and count of at least 0; got {start} and {count}.")
        return list(self._read(start, min(start + count, len(self))))

    @property
    def tick_hz(self) -> float:
        """Ticks per second, as the source said."""
        return float(self.metadata["tick_hz"])

    @property
    def duration_s(self) -> float:
        """From the first tick's beginning to the last one's end."""
        return (self._last_ns - self._first_ns) / 1e9 + 1 / self.tick_hz if len(self) else 0.0

    def episodes(self) -> list[range]:
        """The ticks of each episode; a window for a lesson should stay inside one."""
        bounds = [*self.episode_starts, len(self)]
        return [range(a, b) for a, b in pairwise(bounds)]

    def info(self) -> dict[str, Any]:
        """Everything a report needs, as plain data."""
        return {
            "path": str(self.path),
            "bytes": self.path.stat().st_size,
            "ticks": len(self),
            "episodes": len(self.episode_starts),
            "duration_s": self.duration_s,
            "truncated": self.truncated,
            "senses": {name: what.as_dict() for name, what in sorted(self.senses.items())},
            "effectors": {name: what.as_dict() for name, what in sorted(self.effectors.items())},
            "notes": dict(Counter(note.kind for note in self.notes)),
            "metadata": dict(self.metadata),
        }

    def _open(self) -> IO[bytes]:
        try:
            return self.path.open("rb")
        except FileNotFoundError:
            raise SessionError(f"There is no recording '{self.path}'; check the path.") from None
        except IsADirectoryError:
            raise SessionError(f"'{self.path}' is a folder; give the recording inside it.") from None
        except OSError as error:
            raise SessionError(f"'{self.path}' cannot be read: {error.strerror}; check its rights.") from error

    def _check_format(self) -> None:
        found = self.metadata.get("format", "")
        if found.partition("/")[0] != FORMAT.partition("/")[0]:
            raise SessionError(
                f"'{self.path}' is an MCAP file without a devmind session in it; give one devmind recorded."
            )
        if found != FORMAT:
            raise SessionError(f"'{self.path}' is of format {found}, this devmind reads {FORMAT}; update devmind.")

    def _index(self, file: IO[bytes], record: chunks.Found) -> None:
        if record.opcode == Opcode.METADATA:
            metadata = chunks.read_metadata(file, record.start)
            if metadata.name == "session":
                self.metadata = dict(metadata.metadata)
        elif record.opcode == Opcode.CHUNK:
            records = chunks.read_chunk(file, record.start)
            self._chunk_starts.append(record.start)
            self._ticks_before_chunk.append(len(self))
            for found in records:
                self._index_chunk_record(found)
        elif record.opcode == Opcode.FOOTER:
            self.truncated = False

    def _index_chunk_record(self, record: Any) -> None:
        if isinstance(record, Schema):
            self._schemas[record.id] = record.name
        elif isinstance(record, Channel):
            self._channels[record.id] = (record.topic, self._schemas.get(record.schema_id, ""))
        elif isinstance(record, Message):
            topic, schema = self._channels.get(record.channel_id, ("", ""))
            if topic == NOTE_TOPIC:
                self.notes.append(decode_note(record.data))
            elif topic == TICK_TOPIC:
                self._index_tick(record)
            else:
                if self._chunk_of_open_tick is None:
                    self._chunk_of_open_tick = len(self._chunk_starts) - 1
                self._open_parts[topic] = (schema, record.data)

    def _index_tick(self, record: Message) -> None:
        moment, action = decode_step(record.data, self._open_parts)
        for known, values in ((self.senses, moment.senses), (self.effectors, action.effectors if action else {})):
            for name, value in values.items():
                known.setdefault(name, Recorded()).add(value)
        if moment.first or self._last_is_end or not len(self):
            self.episode_starts.append(len(self))
        self._last_is_end = moment.last
        self._first_ns = record.log_time if not len(self) else self._first_ns
        self._last_ns = record.log_time
        here = len(self._chunk_starts) - 1
        self._first_chunk_of_tick.append(here if self._chunk_of_open_tick is None else self._chunk_of_open_tick)
        self._chunk_of_open_tick, self._open_parts = None, {}

    def _read(self, start: int, stop: int) -> Iterator[Step]:
        if start >= stop:
            return
        chunk = self._first_chunk_of_tick[start]
        tick = self._ticks_before_chunk[chunk]
        parts: dict[str, tuple[str, bytes]] = {}
        with self._open() as file:
            for at in self._chunk_starts[chunk:]:
                for record in chunks.read_chunk(file, at):
                    if not isinstance(record, Message):
                        continue
                    topic, schema = self._channels.get(record.channel_id, ("", ""))
                    if topic != TICK_TOPIC:
                        parts[topic] = (schema, record.data)
                        continue
                    if tick >= start:
                        yield decode_step(record.data, parts)
                    tick, parts = tick + 1, {}
                    if tick == stop:
                        return


def open_session(path: str | Path, *, salvage: bool = False) -> Session:
    """The recording at `path`, ready to iterate; see `Session`."""
    return Session(path, salvage=salvage)


def describe(path: str | Path) -> dict[str, Any]:
    """What `devmind session info` prints: counts, shapes, rate, notes, whether it was cut."""
    return Session(path).info()


def replay(path: str | Path) -> Iterator[Step]:
    """The (Moment, Action or None) pairs of a recording, in order, as fast as they are taken."""
    return iter(Session(path))
