"""Session: reads a recording back as the (Moment, Action) pairs that were written, bit by bit.

It reads finished files, files whose writer was killed, and files that are still being written.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

from mcap.opcode import Opcode

from devmind.bounds import damage
from devmind.errors import SessionError, without_secrets
from devmind.moment import Sense
from devmind.sessions import chunks
from devmind.sessions.assembly import Assembler, Tick
from devmind.sessions.extras import Frame, Health, Note
from devmind.sessions.mcap_file import CHANNELS_KEY, METADATA_NAME, SUM_KEY
from devmind.sessions.metadata import FORMAT, NAMES, OLDER, names_in, started_ns
from devmind.sessions.steps import Step

__all__ = ["Frame", "Health", "Note", "Recorded", "Session", "Step", "open_session"]

LOST, REPAIRED = "lost", "repaired"
"""Kinds of notes: ticks are missing here; this is a repaired copy."""


@dataclass
class Recorded:
    """Statistics of one recorded sense or effector.

    Attributes:
        count: number of ticks with it.
        kinds: its dtypes and shapes; text is ("str", ()).
        letters, longest: of text, the characters that occur, and the length of the longest.
    """

    count: int = 0
    kinds: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)
    letters: set[str] = field(default_factory=set)
    longest: int = 0

    def add(self, value: Sense) -> None:
        """Count one more."""
        self.count += 1
        if isinstance(value, str):
            self.kinds.add(("str", ()))
            self.letters.update(value)
            self.longest = max(self.longest, len(value))
        else:
            self.kinds.add((str(value.dtype), value.shape))

    def as_dict(self) -> dict[str, Any]:
        """Plain data for reports."""
        kinds = sorted(self.kinds)
        return {"count": self.count, "dtypes": sorted({k for k, _ in kinds}), "shapes": [list(s) for _, s in kinds]}


class Session:
    """A recording, indexed when opened: every checksum is verified then, so a lesson does not meet damage midway.

    Iterating gives (Moment, Action or None); `session[i]` and `session.window(start, count)` read from anywhere. Arrays
    are fresh copies. It holds an index of some bytes a tick and no file handle, so it can be pickled to workers.

    Attributes:
        metadata: text by name: source, tick_hz, format, versions, the source's details.
        notes: the notes, in order.
        truncated: the file has no end: it is still being written, or its writer was killed.
        senses, effectors: the recorded ones, by name.
        health: states of the devices, in order.
        frame_count, frame_bytes: the camera's frames, which `frames` gives.

    Raises:
        SessionError: missing, empty, no session, of another format, or damaged.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.metadata: dict[str, str] = {}
        self.notes: list[Note] = []
        self.truncated = True
        self.senses: dict[str, Recorded] = {}
        self.effectors: dict[str, Recorded] = {}
        self.episode_starts: list[int] = []
        self.health: list[Health] = []
        self.frame_count = self.frame_bytes = 0
        self._assembler = Assembler()
        self._end = self._unfolded = 0
        self._chunk_starts: list[int] = []
        self._ticks_before_chunk: list[int] = []
        self._first_chunk_of_tick = array("L")
        self._chunk_of_open_tick: int | None = None
        self._chunks_with_frames: list[int] = []
        self._times_ns, self._numbers = array("Q"), array("Q")
        self._last_is_end = self._is_lost_before = False
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
                    with damage(SessionError, "Its contents are not those of a recording ({})."):
                        self._index(file, record)
                    self._end = record.end
                if self.truncated and chunks.ends_as_finished(file, size):
                    raise SessionError(f"The record at byte {self._end} is damaged.")
            except SessionError as error:
                # A power cut can leave a last chunk of the right length with unwritten pages in it.
                is_tail = record is not None and next(chunks.walk(file, record.end, size), None) is None
                if not is_tail or chunks.ends_as_finished(file, size):
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
        """Ticks per second, as given by the source."""
        return float(self.metadata["tick_hz"])

    @property
    def duration_s(self) -> float:
        """From the first tick's start to the last one's end."""
        return (self._times_ns[-1] - self._times_ns[0]) / 1e9 + 1 / self.tick_hz if len(self) else 0.0

    def elapsed_s(self, tick: int) -> float:
        """Seconds of a tick since the session's first; it continues if the source's clock restarts, and over parts."""
        return self._times_ns[tick] / 1e9

    def number(self, tick: int) -> int:
        """The number of the tick at place `tick`, the same in this recording and in all copies of it.

        It is the place at which the tick was recorded: where ticks were lost and the rest was repaired, later ticks
        keep their numbers.
        """
        return self._numbers[tick]

    def tick_of(self, number: int) -> int | None:
        """The place of the tick with this number; None when it is not here (any more)."""
        place = bisect_left(self._numbers, number)
        return place if number >= 0 and place < len(self) and self._numbers[place] == number else None

    def frames(self) -> Iterator[Frame]:
        """The camera's frames as they were kept, in the order in which they were written."""
        assembler = self._assembler.again()
        with self._open() as file:
            for at in self._chunks_with_frames:
                for record in chunks.read_chunk(file, at):
                    item = assembler.feed(record)
                    if isinstance(item, Frame):
                        yield item

    def names(self) -> dict[str, list[str]]:
        """Names of the numbers of a sense or effector, if the source gave them."""
        all_names = [names_in(self.metadata), *(note.data for note in self.notes if note.kind == NAMES)]
        known = [one for one in all_names if isinstance(one, Mapping)]
        return {
            name: [str(one) for one in names] for every in known for name, names in every.items()
            if isinstance(names, list | tuple)
        }  # fmt: skip

    def episodes(self) -> list[range]:
        """The ticks of each episode, cut also where ticks were lost; a window for a lesson should stay inside one."""
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
            "frames": {"count": self.frame_count, "bytes": self.frame_bytes},
            "notes": dict(Counter(note.kind for note in self.notes)),
            "metadata": dict(self.metadata),
        }

    def _open(self) -> IO[bytes]:
        try:
            return chunks.open_file(self.path)
        except FileNotFoundError:
            raise SessionError(f"There is no recording '{self.path}'; check the path.") from None
        except IsADirectoryError:
            raise SessionError(f"'{self.path}' is a folder; give the recording inside it.") from None
        except OSError as error:
            raise SessionError(f"'{self.path}' cannot be read: {error.strerror}; check its rights.") from error

    def _check_format(self) -> None:
        with damage(SessionError, f"'{self.path}' does not say how it was recorded ({{}}); it is damaged."):
            if not 0 < float(self.metadata.get("tick_hz", "10")) < 1e6:
                raise SessionError(f"'{self.path}' has {self.metadata['tick_hz']!r:.40} ticks a second; it is damaged.")
        found = self.metadata.get("format", "")
        if found.partition("/")[0] != FORMAT.partition("/")[0]:
            raise SessionError(
                f"'{self.path}' is an MCAP file without a devmind session in it; give one devmind recorded."
            )
        if found not in (FORMAT, *OLDER):
            raise SessionError(f"'{self.path}' is of format {found}, this devmind reads {FORMAT}; update devmind.")

    def _index(self, file: IO[bytes], record: chunks.Found) -> None:
        if record.opcode == Opcode.METADATA:
            metadata = chunks.read_metadata(file, record.start)
            if metadata.name == METADATA_NAME:
                known = metadata.metadata.items()
                # Older recordings hold addresses as typed, including passwords.
                self.metadata = {n: without_secrets(text) for n, text in known if n not in (CHANNELS_KEY, SUM_KEY)}
                self._assembler.started_ns = started_ns(self.metadata)
        elif record.opcode == Opcode.CHUNK:
            records = chunks.read_chunk(file, record.start)
            self._unfolded += chunks.unfolded_bytes(records)
            chunks.check_total(self._unfolded, record.end)
            self._chunk_starts.append(record.start)
            self._ticks_before_chunk.append(len(self))
            for found in records:
                self._index_record(found)
        elif record.opcode == Opcode.STATISTICS:
            chunks.check_count(file, record.start, len(self._chunk_starts))
        elif record.opcode == Opcode.FOOTER:
            self.truncated = False

    def _index_record(self, record: Any) -> None:
        item, here = self._assembler.feed(record), len(self._chunk_starts) - 1
        if isinstance(item, Tick):
            self._index_tick(item)
        elif isinstance(item, Note):
            self.notes.append(item)
            self._last_is_end |= item.kind == LOST
            self._is_lost_before |= item.kind == LOST
        elif isinstance(item, Health):
            self.health.append(item)
        elif isinstance(item, Frame):
            self.frame_count, self.frame_bytes = self.frame_count + 1, self.frame_bytes + len(item.jpeg)
            if self._chunks_with_frames[-1:] != [self._chunk_starts[here]]:
                self._chunks_with_frames.append(self._chunk_starts[here])
        elif self._assembler.has_open_tick and self._chunk_of_open_tick is None:
            self._chunk_of_open_tick = here

    def _index_tick(self, tick: Tick) -> None:
        expected = self._numbers[-1] + 1 if self._numbers else 0
        if tick.sequence > expected and self._is_lost_before:
            expected = tick.sequence
        if tick.sequence not in (0, expected):  # other tools may not number
            raise SessionError(f"Tick {expected} is missing, {tick.sequence} comes instead.")
        moment, action = tick.step()
        for known, values in ((self.senses, moment.senses), (self.effectors, action.effectors if action else {})):
            for name, value in values.items():
                known.setdefault(name, Recorded()).add(value)
        if moment.first or self._last_is_end or not len(self):
            self.episode_starts.append(len(self))
        self._last_is_end = moment.last
        self._times_ns.append(tick.at_ns)
        self._numbers.append(expected)
        self._is_lost_before = False
        here = len(self._chunk_starts) - 1
        self._first_chunk_of_tick.append(here if self._chunk_of_open_tick is None else self._chunk_of_open_tick)
        self._chunk_of_open_tick = None

    def _read(self, start: int, stop: int) -> Iterator[Step]:
        if start >= stop:
            return
        chunk = self._first_chunk_of_tick[start]
        tick, assembler = self._ticks_before_chunk[chunk], self._assembler.again()
        with self._open() as file:
            for at in self._chunk_starts[chunk:]:
                for record in chunks.read_chunk(file, at):
                    item = assembler.feed(record)
                    if not isinstance(item, Tick):
                        continue
                    if tick >= start:
                        yield item.step()
                    tick += 1
                    if tick == stop:
                        return


def open_session(path: str | Path) -> Session:
    """The recording at `path`, ready to iterate; see `Session`."""
    return Session(path)
