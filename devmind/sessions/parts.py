"""A long recording is several whole files, FILE.mcap, FILE-0002.mcap and so on: finds them, and reads all as one."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mcap.opcode import Opcode

from devmind.errors import SessionError
from devmind.sessions import chunks
from devmind.sessions.mcap_file import METADATA_NAME
from devmind.sessions.metadata import RECORDING
from devmind.sessions.reader import Session
from devmind.sessions.salvage import Gap, pieces
from devmind.sessions.steps import Step


def parts(path: str | Path, empty: bool = False) -> list[Path]:
    """All files of the recording whose first part is `path`, in order; for any other recording, `path` alone.

    A file with a part's name belongs to it when its metadata say so, or when one of the two is too damaged to tell. An
    empty last part is left out, unless `empty` is set: a power cut leaves the newest file without a byte.
    """
    path = Path(path)
    first = _recording(path)
    if first == "":
        return [path]
    found = [(number, other, _recording(other)) for number, other in sorted(_numbered(path))]
    mine = [
        (other, theirs) for _, other, theirs in found if theirs != "" and (theirs is None or first in (theirs, None))
    ]
    while mine and mine[-1][1] is None and not empty and _is_empty(mine[-1][0]):
        mine.pop()
    return [path, *(other for other, _ in mine)]


def open_parts(path: str | Path) -> list[Session]:
    """Every part of a recording, opened.

    Raises:
        SessionError: one of them cannot be read.
    """
    return [Session(part) for part in parts(path)]


def replay(path: str | Path) -> Iterator[Step]:
    """The (Moment, Action or None) pairs of a recording with all its parts, in order, without pauses."""
    for part in parts(path):
        yield from Session(part)


def describe(path: str | Path) -> dict[str, Any]:
    """The output of `devmind session show`: counts, shapes, rate, notes, whether it was cut; all parts as one."""
    sessions = open_parts(path)
    infos = [session.info() for session in sessions]
    whole = dict(infos[0])
    for name in ("bytes", "ticks", "episodes"):
        whole[name] = sum(info[name] for info in infos)
    whole["truncated"] = any(session.truncated for session in sessions)
    whole["duration_s"] = _duration_s(sessions)
    for kind in ("senses", "effectors"):
        whole[kind] = _merged([info[kind] for info in infos])
    whole["frames"] = {name: sum(info["frames"][name] for info in infos) for name in ("count", "bytes")}
    whole["notes"] = dict(sum((Counter(info["notes"]) for info in infos), Counter()))
    whole["parts"] = [str(session.path) for session in sessions]
    whole["empty_parts"] = [str(part) for part in empty_parts(path)]
    whole["missing_parts"] = missing_parts([session.path for session in sessions])
    return whole


def empty_parts(path: str | Path) -> list[Path]:
    """The files that `parts` leaves out."""
    return parts(path, empty=True)[len(parts(path)) :]


def missing_parts(found: Sequence[Path]) -> list[int]:
    """The missing numbers between the first and the last part."""
    numbers = {number for number, other in _numbered(found[0]) if other in found}
    return sorted(set(range(2, max(numbers, default=1))) - numbers)


def refuse_leftovers(path: Path) -> None:
    """Refuse to start a recording if files with the names of its later parts exist.

    Raises:
        SessionError: there is one.
    """
    for _, other in sorted(_numbered(path)):
        raise SessionError(
            f"'{other}' exists already and would be a later part of '{path.name}'; choose another name, or allow "
            f"overwriting."
        )


def _numbered(path: Path) -> Iterator[tuple[int, Path]]:
    wanted = re.compile(re.escape(path.stem) + r"-(\d{4,})" + re.escape(path.suffix))
    for other in path.parent.glob(f"{glob.escape(path.stem)}-*"):
        match = wanted.fullmatch(other.name)
        if match and int(match[1]) > 1:
            yield int(match[1]), other


def about_part(path: Path) -> dict[str, str] | None:
    """The metadata at a recording's head; None without any, or if it is too damaged to tell."""
    with suppress(OSError, SessionError), chunks.open_file(path) as file:
        if not chunks.has_magic(file):
            return None
        for record in chunks.walk(file, len(chunks.MCAP0_MAGIC), os.fstat(file.fileno()).st_size):
            if record.opcode == Opcode.METADATA:
                metadata = chunks.read_metadata(file, record.start)
                if metadata.name == METADATA_NAME:
                    return dict(metadata.metadata)
    return None


def _recording(path: Path) -> str | None:
    """The identity that the parts of a recording share; '' when the file has no parts, None when it is too damaged to
    tell.
    """
    about = about_part(path)
    return None if about is None else about.get(RECORDING, "")


def _is_empty(path: Path) -> bool:
    """Whether a part without a head has no whole chunk either."""
    try:
        return all(isinstance(piece, Gap) for piece in pieces(path))
    except (OSError, ValueError):
        return False


def _duration_s(sessions: Sequence[Session]) -> float:
    """From the first tick's start to the last one's end; parts that share no clock are added up."""
    filled = [session for session in sessions if len(session)]
    if not filled:
        return 0.0
    if filled[0].metadata.get(RECORDING):
        return filled[-1].elapsed_s(-1) - filled[0].elapsed_s(0) + 1 / filled[-1].tick_hz
    return sum(session.duration_s for session in filled)


def _merged(kinds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for name, what in ((name, what) for kind in kinds for name, what in kind.items()):
        whole = merged.setdefault(name, {"count": 0, "dtypes": [], "shapes": []})
        whole["count"] += what["count"]
        for key in ("dtypes", "shapes"):
            whole[key] = sorted([*whole[key], *(value for value in what[key] if value not in whole[key])])
    return dict(sorted(merged.items()))
