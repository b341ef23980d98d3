"""The spool: an append-only log on disk of what producers have sent, readable while it grows.

A folder of segments, each named by the position of its first byte in the whole log, so a cursor is one number. A frame
is a header with a checksum, and one batch (`devmind.feed.schema.encode`). A segment begins with a frame that holds the
last sequence number of every producer, so opening reads the last segment only. The file `durable` holds the position up
to which everything is synced; readers go no further, and so never learn from what a power cut may take back.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from devmind.bounds import LONGEST_NAME, is_name, parse_json
from devmind.checkpointing.files import explain_os_errors, take_place
from devmind.errors import FeedError

HEADER = struct.Struct("<4sIIIQQ64s")
"""Magic, CRC-32 of all behind it, bytes of the body, rows, sequence, the producer's process and name."""
MAGIC = b"dmf1"
NAME_BYTES, DURABLE, SUFFIX, READERS = 64, "durable", ".feed", "readers"
SEGMENT_BYTES = 64 << 20
BLOCK, BUFFER_BYTES = 4096, 4 << 20
LARGEST_BYTES = 64 << 20
"""The largest body of a frame."""
_sync = getattr(os, "fdatasync", os.fsync)


class Frame(NamedTuple):
    """One batch of a producer; `body` is bytes or a buffer, `owner` the number of the process that sent it."""

    producer: str
    sequence: int
    rows: int
    body: Any
    owner: int = 0


@dataclass
class Line:
    """What is stored of one producer."""

    sequence: int = 0
    rows: int = 0
    bytes: int = 0
    owner: int = 0


def check_producer(name: object) -> str:
    """Raise FeedError unless this is a producer's name: one printable line of at most 64 bytes."""
    if not is_name(name, NAME_BYTES):
        raise FeedError(f"A producer's name is one printable line of 1 to {NAME_BYTES} bytes; got {str(name)[:80]!r}.")
    return str(name)


class Spool:
    """The one writer of a spool.

    Args:
        folder: made if it is missing.
        segment_bytes: a new segment begins when one is larger.

    Raises:
        FeedError: another process writes to it, or acknowledged frames are damaged.
    """

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder, self.segment_bytes = Path(folder), segment_bytes
        with explain_os_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            (self.folder / READERS).mkdir(exist_ok=True, mode=0o700)
        self._lock = _only_writer(self.folder)
        self.lines: dict[str, Line] = {}
        self._file = -1
        self.start, self.end = 0, 0
        # What is not yet written of the open segment, from its last whole block on; a mapping begins on a page.
        self._buffer = memoryview(mmap.mmap(-1, BUFFER_BYTES))
        self._filled, self._written = 0, 0
        try:
            self._recover()
        except BaseException:
            self.close()
            raise

    def _recover(self) -> None:
        """Read the last segment; what comes now begins another one."""
        durable = durable_end(self.folder)
        if found := segments(self.folder):
            path, self.end = segment_path(self.folder, found[-1]), found[-1]
            for after, frame in _frames(path, self.end, None):
                self._count(frame)
                self.end = after
            if self.end < durable or self.end == found[-1]:
                raise FeedError(
                    f"'{path}' is damaged at byte {self.end - found[-1]:,}, where acknowledged experience stands. "
                    "What stands before can be read; receive into another folder."
                )
            with explain_os_errors(path), open(path, "r+b") as file:
                file.truncate(self.end - found[-1])  # what a kill left half written was never acknowledged
                os.fsync(file.fileno())
        elif durable:
            raise FeedError(f"'{self.folder}' has lost all its segments; receive into another folder.")
        self._mark()

    def _count(self, frame: Frame) -> None:
        if not frame.producer:
            known = parse_json(bytes(frame.body), FeedError, "the first frame of a segment")
            self.lines = {name: Line(*numbers) for name, numbers in known.items()}
            return
        line = self.lines.setdefault(frame.producer, Line())
        line.sequence, line.owner, line.rows = frame.sequence, frame.owner, line.rows + frame.rows
        line.bytes += len(frame.body)

    def append(self, frames: Sequence[Frame]) -> None:
        """Write frames and return when they are on the disk: one sync for all.

        Raises:
            CheckpointError: the disk refuses; none of these frames is stored.
        """
        if self._file < 0 or self.end - self.start >= self.segment_bytes:
            self._next_segment()
        before = self._written, bytes(self._buffer[: self._filled])
        with explain_os_errors(segment_path(self.folder, self.start)):
            try:
                for frame in frames:
                    self._put(_header(frame))
                    self._put(frame.body)
                self._write()
                _sync(self._file)
            except OSError:
                self._written, self._filled = before[0], len(before[1])
                self._buffer[: self._filled] = before[1]
                os.ftruncate(self._file, self.end - self.start)
                raise
        for frame in frames:
            self._count(frame)
            self.end += HEADER.size + len(frame.body)
        self._mark()

    def _put(self, part: Any) -> None:
        """Take bytes into the buffer, and write it whenever it is full."""
        left = memoryview(part).cast("B")
        while left:
            room = self._buffer[self._filled :][: len(left)]
            room[:] = left[: len(room)]
            self._filled, left = self._filled + len(room), left[len(room) :]
            if self._filled == len(self._buffer):
                self._write()

    def _write(self) -> None:
        """Write the buffer past the system's cache, in whole blocks; the last one stays, to be written again when more
        has come. Zeros behind the end are no frame."""
        size = -(-self._filled // BLOCK) * BLOCK
        self._buffer[self._filled : size] = bytes(size - self._filled)
        view, at = self._buffer[:size], self._written
        while view:  # a disk that fills may take less than all
            done = os.pwrite(self._file, view, at)
            view, at = view[done:], at + done
        whole = self._filled // BLOCK * BLOCK
        self._filled, self._written = self._filled - whole, self._written + whole
        self._buffer[: self._filled] = self._buffer[whole:][: self._filled]

    def _next_segment(self) -> None:
        known = {name: astuple(line) for name, line in self.lines.items()}
        first = Frame("", 0, 0, json.dumps(known).encode())
        path = segment_path(self.folder, self.end)
        partial = path.with_suffix(".partial")
        self._close_segment()
        with explain_os_errors(path):
            self._file = _open_past_cache(partial)
            try:
                self._put(frame_bytes(first))
                self._write()
                os.fsync(self._file)
                take_place(partial, path)
            except OSError:
                self._close_segment()
                raise
        self.start = self.end
        self.end += HEADER.size + len(first.body)

    def _close_segment(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file, self._filled, self._written = -1, 0, 0

    def _mark(self) -> None:
        """Tell readers how far they may read. A power cut may leave it too low, until the spool is opened again."""
        _put_number(self.folder / DURABLE, self.end)

    @property
    def rows(self) -> int:
        """All rows that are stored."""
        return sum(line.rows for line in self.lines.values())

    def slowest_reader(self) -> int | None:
        """The position of the reader that is furthest behind; None if nobody has read."""
        positions = reader_positions(self.folder)
        return min(positions.values()) if positions else None

    def close(self) -> None:
        """Let another process write."""
        if self._file >= 0:
            os.ftruncate(self._file, self.end - self.start)  # zeros that fill the last block
        self._close_segment()
        self._lock.close()


def _only_writer(folder: Path) -> Any:
    file = open(folder / "lock", "w")  # noqa: SIM115 - held as long as the spool
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise FeedError(
            f"Another process receives into '{folder}'; stop it, or name another folder with --out."
        ) from error
    return file


def _open_past_cache(path: Path) -> int:
    """A new file. Writing past the system's cache, where that is possible, took a tenth of the processor's time and
    half of the disk's."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    with suppress(OSError):
        fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | getattr(os, "O_DIRECT", 0))
    return file


def _header(frame: Frame) -> bytes:
    rest = HEADER.pack(MAGIC, 0, len(frame.body), frame.rows, frame.sequence, frame.owner, frame.producer.encode())[8:]
    return MAGIC + zlib.crc32(frame.body, zlib.crc32(rest)).to_bytes(4, "little") + rest


def frame_bytes(frame: Frame) -> bytes:
    """A frame as it stands in a segment."""
    return _header(frame) + bytes(frame.body)


def _put_number(path: Path, number: int) -> None:
    """Replace eight bytes in one write; it is not synced, as a number that is too low only makes others wait."""
    with explain_os_errors(path):
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(file, number.to_bytes(8, "little"), 0)
        finally:
            os.close(file)


def segment_path(folder: Path, start: int) -> Path:
    """The segment that begins at this position."""
    return folder / f"{start:020d}{SUFFIX}"


def segments(folder: Path) -> list[int]:
    """The positions at which segments begin, in order."""
    return sorted(int(path.stem) for path in folder.glob(f"*{SUFFIX}") if path.stem.isdecimal())


def durable_end(folder: Path) -> int:
    """The position up to which all is synced; 0 in a new spool."""
    try:
        return int.from_bytes((folder / DURABLE).read_bytes()[:8], "little")
    except FileNotFoundError:
        return 0


def frame_of(content: memoryview) -> tuple[Frame, int] | None:
    """The frame at the beginning of these bytes and its size; None if they hold no whole one."""
    if len(content) < HEADER.size:
        return None
    magic, crc, size, rows, sequence, owner, name = HEADER.unpack(content[: HEADER.size])
    whole = HEADER.size + size
    if magic != MAGIC or size > LARGEST_BYTES or whole > len(content) or zlib.crc32(content[8:whole]) != crc:
        return None
    producer = name.rstrip(b"\0").decode("utf-8", "replace")
    return Frame(producer, sequence, rows, bytes(content[HEADER.size : whole]), owner), whole


def _frames(path: Path, position: int, until: int | None) -> Iterator[tuple[int, Frame]]:
    """The whole frames of a segment from `position` on, each with the position behind it; ends at the first that is
    not whole."""
    start = int(path.stem)
    with open(path, "rb") as file:
        file.seek(position - start)
        while until is None or position < until:
            head = file.read(HEADER.size)
            size = HEADER.unpack(head)[2] if len(head) == HEADER.size else 0
            if size > LARGEST_BYTES:
                return
            found = frame_of(memoryview(head + file.read(size)))
            if found is None:
                return
            position += found[1]
            yield position, found[0]


def read(folder: Path, position: int = 0) -> Iterator[tuple[int, Frame]]:
    """The synced frames of producers from a position on, each with the position behind it. It ends where the spool now
    ends; call it again for what has come since.

    Raises:
        FeedError: there is no spool, the position is not in it, or a frame is damaged.
    """
    end, starts = durable_end(folder), segments(folder)
    if not (folder / DURABLE).is_file():
        raise FeedError(f"There is no spool in '{folder}'. 'devmind feed serve --out {folder}' makes one.")
    if position > end:
        raise FeedError(f"The spool '{folder}' ends at {end:,}, before the cursor {position:,}: it is another spool.")
    while position < end:
        at = max((start for start in starts if start <= position), default=None)
        if at is None:
            raise FeedError(f"The spool '{folder}' has no segment for position {position:,}.")
        following = min((start for start in starts if start > position), default=end)
        for after, frame in _frames(segment_path(folder, at), position, min(following, end)):
            position = after
            if frame.producer:
                yield position, frame
        if position < min(following, end):
            raise FeedError(
                f"'{segment_path(folder, at)}' is damaged at byte {position - at:,}; what stands before can be read."
            )


def report_position(folder: Path, reader: str, position: int) -> None:
    """Say how far `reader` has read, so that producers can be made to wait for it."""
    _put_number(folder / READERS / f"{reader}.position", position)


def reader_positions(folder: Path) -> Mapping[str, int]:
    """How far each reader has read."""
    found = {}
    for path in sorted((folder / READERS).glob("*.position"))[:LONGEST_NAME]:
        found[path.stem] = int.from_bytes(path.read_bytes()[:8], "little")
    return found
