"""The run's journal: an append-only file of events, which stores the curriculum's position.

Every line ends with a checksum over itself and the checksum before it. So the next reader notices a flipped bit, a
changed number, and a removed or added line. This protects against accidents and edits, not against somebody who
computes all checksums anew. A line that a crash cut off has none; the next checksum covers it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from devmind.bounds import parse_json
from devmind.errors import CheckpointError, without_secrets

_SUM = re.compile(rb', "sum": "([0-9a-f]{16})"\}$')


class Journal:
    """`journal.jsonl`: one event a line, flushed and fsynced, never rewritten.

    A line that a crash cut off is ignored; the next event starts on a new line. One process writes at a time
    (`devmind.checkpointing.lock`).

    Raises:
        CheckpointError: by everything but `after`: a line was changed, removed or added.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written, self._chain = -1, b""
        """Bytes of the file as this object left it, and the sum of its last line."""

    def write(self, event: str, **fields: Any) -> None:
        """Append one event, without credentials; returns after it is on the disk."""
        text = json.dumps({"time": round(time.time(), 3), "event": event, **without_secrets(fields)})[:-1]
        try:
            with self.path.open("ab") as file:
                if file.tell() != self._written:
                    self._chain = _verified(self.path, self.path.read_bytes())[1]
                if file.tell() and not self._ends_whole():
                    file.write(b"\n")
                self._written, self._chain = -1, _sum(self._chain, text.encode())
                file.write(b'%s, "sum": "%s"}\n' % (text.encode(), self._chain))
                file.flush()
                os.fsync(file.fileno())
                self._written = file.tell()
        except OSError as error:
            raise CheckpointError(
                f"The journal {self.path} cannot be written: {error.strerror}. Free space or choose another --out."
            ) from error

    def _ends_whole(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def events(self, *kinds: str) -> Iterator[dict[str, Any]]:
        """All events in order, or those of the given kinds."""
        if self.path.is_file():
            every, _ = _verified(self.path, self.path.read_bytes())
            yield from (e for e in every if not kinds or e.get("event") in kinds)

    def after(self, offset: int) -> tuple[list[dict[str, Any]], int]:
        """The events of complete lines from byte `offset` on, and the next offset: to follow a run in progress.

        A file that has become shorter is a new one and is read from its start.
        """
        if not self.path.is_file():
            return [], 0
        with self.path.open("rb") as file:
            file.seek(offset if offset <= file.seek(0, os.SEEK_END) else 0)
            begun = file.tell()
            whole = file.read().rpartition(b"\n")[0]
        return list(_parsed(whole)), begun + len(whole) + bool(whole)

    def last(self, *kinds: str) -> dict[str, Any] | None:
        """The newest event of the given kinds."""
        newest = None
        for newest in self.events(*kinds):  # noqa: B007
            pass
        return newest


def _sum(before: bytes, line: bytes) -> bytes:
    return hashlib.sha256(before + b"\n" + line).hexdigest()[:16].encode()


def _verified(path: Path, content: bytes) -> tuple[list[dict[str, Any]], bytes]:
    """The events of a whole journal, and the checksum from which its next line continues.

    Raises:
        CheckpointError: a line was changed, removed or added.
    """
    events: list[dict[str, Any]] = []
    chain, loose = b"", 0
    *whole, tail = content.split(b"\n")
    for number, line in enumerate(whole, 1):
        if match := _SUM.search(line):
            if _sum(chain, line[: match.start()]) != match[1]:
                raise _damaged(path, loose or number)
            chain, loose = match[1], 0
        else:  # cut off by a crash: the next checksum covers it
            chain, loose = _sum(chain, line), loose or number
        events += _parsed(line)
    if loose:
        raise _damaged(path, loose)
    if tail:
        match = _SUM.search(tail)
        is_whole = match is not None and _sum(chain, tail[: match.start()]) == match[1]
        # A crash leaves the beginning of a line. A tail with more than a complete line, or another ending, is an edit.
        beyond = _SUM.search(tail[:-1]) is not None or (match is None and any(_parsed(tail)))
        if (match and not is_whole) or beyond:
            raise _damaged(path, len(whole) + 1)
        chain = match[1] if match else _sum(chain, tail)
        events += _parsed(tail)
    return events, chain


def _damaged(path: Path, line: int) -> CheckpointError:
    return CheckpointError(
        f"The journal {path} is damaged or was edited, in line {line} or just behind it: its checksum is another. Put "
        "back a copy of it, or begin anew with another --out."
    )


def _parsed(lines: bytes) -> Iterator[dict[str, Any]]:
    """The lines that are events, without their sums; a line that a crash cut off is none."""
    for line in lines.split(b"\n"):
        try:
            event = parse_json(line, CheckpointError, "This line is no event ({}).")
        except CheckpointError:
            continue
        if isinstance(event, dict):
            event.pop("sum", None)
            yield event
