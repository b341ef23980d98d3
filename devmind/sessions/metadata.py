"""The metadata of a session: its words, and what the reader, the recorder and repair read from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from devmind import bounds
from devmind.errors import SessionError

FORMAT = "devmind.session/2"
OLDER = ("devmind.session/1",)
"""Older formats that are still read. In /1 log times count from the first tick, and numbers are bytes only."""
STARTED, CREATED, NAMES = "started_ns", "created", "names"
"""The wall clock at the session's first tick, the same for people, and the names of numbers as JSON."""
PART, CONTINUES, RECORDING = "part", "continues", "recording"
"""Of a part: its number, the name of the file before it, and the identity that all parts of a recording share."""


def part_path(path: Path, part: int) -> Path:
    """The file of one part, counted from 1; `path` is the first."""
    return path if part == 1 else path.with_name(f"{path.stem}-{part:04d}{path.suffix}")


def started_ns(about: Mapping[str, str]) -> int:
    """The log time of a session's first tick."""
    return int(about.get(STARTED, 0))


def names_in(about: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    """Names of the numbers of a sense or effector."""
    with suppress(SessionError):
        found = bounds.parse_json(about.get(NAMES, "{}"), SessionError, "The names of numbers are no JSON ({}).")
        return found if isinstance(found, dict) else {}
    return {}
