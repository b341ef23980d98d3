"""Reads what memory points to inside recordings, and blanks it when it is forgotten."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from devmind.checkpointing.files import take_place
from devmind.erasing import overwrite, unlink_overwritten, where_traces_stay
from devmind.errors import SessionError
from devmind.moment import Sense
from devmind.sessions import salvage
from devmind.sessions.assembly import Item, Tick
from devmind.sessions.extras import Frame, Health, Note
from devmind.sessions.metadata import PART, RECORDING
from devmind.sessions.parts import about_part
from devmind.sessions.reader import Session
from devmind.sessions.recorder import Recorder
from devmind.sessions.turning import hold_recording

IDENTITY, FORGOTTEN = "identity", "forgotten"
"""A copy keeps the identity of its original; a note before each blanked tick."""
NEAR = 1.01
"""Frames of the camera within so many ticks of a blanked one are removed too, and those between two in a row."""
_OPEN = 4


class Place(Protocol):
    """Ticks of a recording; `devmind.memory.Pointer` is one."""

    @property
    def session(self) -> str: ...
    @property
    def tick(self) -> int: ...
    @property
    def identity(self) -> str: ...
    @property
    def span(self) -> int: ...


def identity(session: Session) -> str:
    """The identity of a recording, independent of its name; copies made by `blank` and repaired ones keep it."""
    return _identity(session.metadata)


def _identity(about: Mapping[str, str]) -> str:
    known = about.get(IDENTITY) or (about.get(RECORDING, "") and f"{about[RECORDING]}/{about.get(PART, '1')}")
    return known or f"{about.get('created', '')}/{about.get('source', '')}"


class Pointed:
    """Reads and blanks the ticks of pointers.

    Args:
        folder: base of relative pointers, the memory's.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder or Path()
        self._sessions: dict[Path, tuple[Session, float]] = {}

    def fetch(self, place: Place) -> dict[str, Sense] | None:
        """The senses of one tick; None when the recording is missing, is another one, or has no such tick."""
        try:
            session = self._session(self.folder / place.session)
            if identity(session) != place.identity:
                return None
            tick = session.tick_of(place.tick)
            return None if tick is None else dict(session[tick][0].senses)
        except (SessionError, IndexError, OSError):  # OSError: a folder that may not be looked into, too long a name
            return None

    def forget(self, places: Iterable[Place]) -> list[str]:
        """Blank the ticks; returns a sentence for each recording where that cannot be done, [] when all are blanked.

        A part that is being written is ended first, and its writer continues in a new one. Files in the same folder
        with the same identity, whatever their names, are blanked as well: repaired copies, renamed files.

        Raises:
            SessionError: a recording cannot be rewritten; nothing of it is changed then.
        """
        messages: list[str] = []
        by_file: dict[str, list[Place]] = {}
        for place in places:
            by_file.setdefault(place.session, []).append(place)
        for name, wanted in by_file.items():
            messages += _Forgetting(self.folder / name, wanted).do()
        self._sessions.clear()
        return list(dict.fromkeys(messages))

    def _session(self, path: Path) -> Session:
        changed_s = path.stat().st_mtime if path.exists() else 0.0
        known = self._sessions.get(path)
        if known is None or known[1] != changed_s:
            known = Session(path), changed_s
            self._sessions = {**dict(list(self._sessions.items())[1 - _OPEN :]), path: known}
        return known[0]


class _Forgetting:
    """Places in one file: the files that hold them, including its copies and the neighbouring parts, all to be blanked.

    Args:
        path: the named file, existing or not.
    """

    def __init__(self, path: Path, places: Sequence[Place]) -> None:
        self.path, self.messages = path, list[str]()
        self._files = _files_beside(path)
        self._gone: dict[Path, set[int]] = {}
        self._frames_at_s: dict[Path, set[float]] = {}
        wanted = {place.identity for place in places}
        files = [file for file, one in self._files.items() if one in wanted]
        if not path.is_file() and not files:
            self.messages.append(
                f"The recording '{path}' is not there; if it was moved, its contents were not forgotten."
            )
        elif path.is_file() and path not in files:
            self.messages.append(f"'{path}' is another recording now; the one that was pointed to was not touched.")
        for file in files:
            mine = [place for place in places if place.identity == self._files[file]]
            with self._reporting_copies(file):
                self._find(file, [(place.tick - max(0, place.span - 1), place.tick) for place in mine])

    def do(self) -> list[str]:
        """Blank; see `Pointed.forget`."""
        for file in sorted(self._gone.keys() | self._frames_at_s.keys(), key=lambda file: file != self.path):
            with self._reporting_copies(file):
                gone, times_s = self._gone.get(file, set()), self._frames_at_s.get(file, set())
                has_copy = file.stat().st_nlink > 1
                if blank(file, sorted(gone), sorted(times_s)) and has_copy:
                    self.messages.append(
                        f"'{file}' has a second name (a hard link, as backups make them), which keeps the recording as "
                        "it was; delete that one by hand."
                    )
                self.messages += filter(None, [where_traces_stay(file)])
        return self.messages

    @contextmanager
    def _reporting_copies(self, file: Path) -> Iterator[None]:
        """Report a copy or the next part that cannot be rewritten; raise for the file that is pointed to."""
        try:
            yield
        except SessionError as error:
            if file == self.path:
                raise
            self.messages.append(f"{error} What was forgotten may be left in there; delete that file by hand.")

    def _find(self, file: Path, ranges: Sequence[tuple[int, int]]) -> None:
        """Ticks of one file by their numbers (first, last); those below 0 are the last ones of the part before."""
        with hold_recording(file):
            session = Session(file)
        if identity(session) != self._files[file]:
            self.messages.append(f"'{file}' is another recording now; the one that was pointed to was not touched.")
            return
        numbers = {number for first, last in ranges for number in range(max(0, first), last + 1)}
        found = {tick for number in numbers if (tick := session.tick_of(number)) is not None}
        if len(found) < len(numbers):
            self.messages.append(
                f"'{file}' is a mended copy without {len(numbers) - len(found)} of the ticks that were pointed to; "
                "where the original still is, it holds them."
            )
        self._gone.setdefault(file, set()).update(found)
        times_s, near_s = {session.elapsed_s(tick) for tick in found}, NEAR / session.tick_hz
        for by, edge in ((-1, 0), (1, -1)) if found else ():
            near = {time_s for time_s in times_s if abs(time_s - session.elapsed_s(edge)) <= near_s}
            for other in self._next_with_ticks(file, by) if near else ():
                self._frames_at_s.setdefault(other, set()).update(near)
        more = max((-first for first, _ in ranges), default=0)
        before = self._beside(file, -1) if more > 0 else []
        if more > 0 and not before:
            self.messages.append(f"The part before '{file}' is not there; {more} ticks of it were not forgotten.")
        for other in before:
            with hold_recording(other):
                earlier = Session(other)
            last = earlier.number(-1) if len(earlier) else -1
            self._find(other, [(last + 1 - more, last)])

    def _next_with_ticks(self, file: Path, by: int) -> list[Path]:
        """The files of the part before (by = -1) or after (1) this one, and of further parts if that one has only
        frames.
        """
        found = list[Path]()
        while others := self._beside(file, by):
            found += others
            file = others[0]
            if len(Session(file)):
                break
        return found

    def _beside(self, file: Path, by: int) -> list[Path]:
        """The files of the part at this distance from this one."""
        recording, _, part = self._files[file].rpartition("/")
        wanted = f"{recording}/{int(part) + by}" if part.isdecimal() else ""
        self._files |= {path: one for path, one in _files_beside(self.path).items() if path not in self._files}
        return [other for other, one in self._files.items() if one == wanted]


def _files_beside(path: Path) -> dict[Path, str]:
    """The recordings in a file's folder by identity in their heads, itself first; a hard link only once."""
    found: dict[Path, str] = {}
    known: set[tuple[int, int]] = set()
    for file in [path, *sorted(path.parent.glob("*.mcap"))]:
        with suppress(OSError):
            about = file.stat()
            if stat.S_ISREG(about.st_mode) and (about.st_dev, about.st_ino) not in known:
                known.add((about.st_dev, about.st_ino))
                found[file] = _identity(about_part(file) or {})
    return found


def blank(path: Path, ticks: Sequence[int], frames_at_s: Sequence[float] = ()) -> bool:
    """Rewrite a recording so that these ticks have no senses, and without camera frames taken within one of them, or
    between two consecutive ones: a busy life skips ticks while its camera goes on.

    Everything else stays as it was: times, actions, notes, other ticks. A note says that it was done. The new file
    replaces the old one in one step, and the old bytes are overwritten, unless they have another name (a hard link),
    which is somebody's copy. A symbolic link stays one.

    Args:
        frames_at_s: times near which frames are removed as well, of ticks in the part before or after.

    Returns:
        whether there was anything to blank.

    Raises:
        SessionError: it is damaged, is still being written, or the disk refuses.
    """
    path = path.resolve()
    with hold_recording(path) as old:
        session = Session(path)
        gone = {tick for tick in ticks if 0 <= tick < len(session)}
        near_s = NEAR / session.tick_hz
        spans = [(session.elapsed_s(tick), session.elapsed_s(tick + (tick + 1 in gone))) for tick in gone]
        spans = [(begin - near_s, end + near_s) for begin, end in [*spans, *zip(frames_at_s, frames_at_s, strict=True)]]
        if not gone and not any(_is_in(frame, spans) for frame in session.frames()):
            return False
        about, channels = salvage.about(path)
        copied = {**about, IDENTITY: identity(session)}
        begun = salvage.start_ns(path, about)
        source, tick_hz = copied.pop("source"), float(copied.pop("tick_hz"))
        part = path.with_name(path.name + ".part")
        try:
            mode = path.stat().st_mode & 0o777
            with Recorder(part, source=source, tick_hz=tick_hz, copied=copied, overwrite=True, mode=mode) as recorder:
                _copy(salvage.items(path, channels, begun), recorder, gone, spans)
            has_copy = os.fstat(old.fileno()).st_nlink > 1
            take_place(part, path)
            if not has_copy:
                overwrite(old.fileno())
        except OSError as error:
            raise SessionError(f"'{path}' cannot be rewritten: {error.strerror}; nothing of it was changed.") from error
        finally:
            with suppress(OSError):
                unlink_overwritten(part)  # left by a failed rewriting: its content may be forgotten later
    return True


def _is_in(frame: Frame, spans: Sequence[tuple[float, float]]) -> bool:
    return any(begin_s <= frame.time_s <= end_s for begin_s, end_s in spans)


def _copy(
    found: Iterable[Item | salvage.Gap], to: Recorder, gone: set[int], spans: Sequence[tuple[float, float]]
) -> None:
    number = 0
    for item in found:
        if isinstance(item, Tick):
            moment, action = item.step()
            if number in gone:
                to.note(FORGOTTEN, {"tick": number})
                moment = replace(moment, senses={})
            to.write_at(moment, action, item.at_ns, item.sequence)
            number += 1
        elif isinstance(item, Frame):
            if not _is_in(item, spans):
                to.frame_at(item.jpeg, round(item.time_s * 1e9))
        elif isinstance(item, Note):
            to.note(item.kind, item.data)
        elif isinstance(item, Health):
            to.health(item.data)
