"""The run's journal: an append-only file of events, where the curriculum's position lives.

Every line ends with a checksum over itself and the checksum before it, so that a flipped bit, a changed number, and a
line that was removed or added are noticed by the next reader. It guards against accidents and edits, not against
somebody who computes all checksums anew. A line that a crash cut off has none; the first checksum behind it covers it.
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

from devmind.errors import CheckpointError, without_secrets

_SUM = re.compile(rb', "sum": "([0-9a-f]{16})"\}$')


class Journal:
    """`journal.jsonl`: one event a line, flushed and fsynced, never rewritten.

    A line cut off by a crash is the last one and is ignored; the next event starts on a line of its own. One process
    writes at a time (`devmind.checkpointing.lock`).

    Raises:
        CheckpointError: by everything but `after`: a line is not what was written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written, self._chain = -1, b""
        """Bytes of the file as this object left it, and the sum of its last line."""

    def write(self, event: str, **fields: Any) -> None:
        """Append one event, without credentials; returns when it is on the disk."""
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
        """The events of whole lines from byte `offset` on, and the offset to go on from: to follow a run that goes on.

        A file that has become shorter is another one and is read from its start.
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
        found = None
        for found in self.events(*kinds):  # noqa: B007
            pass
        return found


def _sum(before: bytes, line: bytes) -> bytes:
    return hashlib.sha256(before + b"\n" + line).hexdigest()[:16].encode()


def _verified(path: Path, content: bytes) -> tuple[list[dict[str, Any]], bytes]:
    """The events of a whole journal, and the sum that its next line goes on from.

    Raises:
        CheckpointError: a line was changed, taken out or put in.
    """
    events: list[dict[str, Any]] = []
    chain, loose = b"", 0
    *whole, tail = content.split(b"\n")
    for number, line in enumerate(whole, 1):
        if found := _SUM.search(line):
            if _sum(chain, line[: found.start()]) != found[1]:
                raise _damaged(path, loose or number)
            chain, loose = found[1], 0
        else:  # cut off by a crash: the next sum covers it
            chain, loose = _sum(chain, line), loose or number
        events += _parsed(line)
    if loose:
        raise _damaged(path, loose)
    if tail:
        found = _SUM.search(tail)
        is_whole = found is not None and _sum(chain, tail[: found.start()]) == found[1]
        # What a crash leaves is the beginning of a line: one that is there whole, and more or something else, is none.
        beyond = _SUM.search(tail[:-1]) is not None or (found is None and any(_parsed(tail)))
        if (found and not is_whole) or beyond:
            raise _damaged(path, len(whole) + 1)
        chain = found[1] if found else _sum(chain, tail)
        events += _parsed(tail)
    return events, chain


def _damaged(path: Path, line: int) -> CheckpointError:
    return CheckpointError(
        f"The journal {path} is damaged or was edited, in line {line} or just behind it: its checksum is another. Put "
        "back a copy of it, or begin anew with another --out."
    )


def _parsed(lines: bytes) -> Iterator[dict[str, Any]]:
    """What is an event, without its sum; a line that a crash cut off is none."""
    for line in lines.split(b"\n"):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            event.pop("sum", None)
            yield event
