"""The run's journal: an append-only file of events, where the curriculum's position lives."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from devmind.errors import CheckpointError, without_secrets


class Journal:
    """`journal.jsonl`: one event a line, flushed and fsynced, never rewritten.

    A line cut off by a crash is the last one and is ignored; the next event starts on a line of its own.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, event: str, **fields: Any) -> None:
        """Append one event, without credentials; returns when it is on the disk."""
        line = json.dumps({"time": round(time.time(), 3), "event": event, **without_secrets(fields)})
        try:
            with self.path.open("ab") as file:
                if file.tell() and not self._ends_whole():
                    file.write(b"\n")
                file.write(line.encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
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
            yield from (e for e in _parsed(self.path.read_bytes()) if not kinds or e.get("event") in kinds)

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


def _parsed(lines: bytes) -> Iterator[dict[str, Any]]:
    """What is an event; a line that a crash cut off is none."""
    for line in lines.split(b"\n"):
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(event, dict):
            yield event
