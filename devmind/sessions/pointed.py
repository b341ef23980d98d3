"""What memory points to inside recordings: read it, and blank it when it is forgotten."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from devmind.erasing import overwrite, unlink_overwritten, where_traces_stay
from devmind.errors import SessionError
from devmind.moment import Sense
from devmind.sessions import salvage
from devmind.sessions.assembly import Item, Tick
from devmind.sessions.extras import Frame, Health, Note
from devmind.sessions.parts import PART, RECORDING
from devmind.sessions.reader import Session
from devmind.sessions.recorder import Recorder

IDENTITY, FORGOTTEN = "identity", "forgotten"
"""A copy keeps the identity of what it was copied from; a note before each tick that was blanked."""
QUIET_S = 10.0
"""A recording without an end that was written to so recently is taken for one that is still being written."""
_OPEN = 4


class Place(Protocol):
    """One tick of a recording; `devmind.memory.Pointer` is one."""

    @property
    def session(self) -> str: ...
    @property
    def tick(self) -> int: ...
    @property
    def identity(self) -> str: ...


def identity(session: Session) -> str:
    """Which recording a file is, whatever its name; copies made by `blank` and mended ones keep it.

    A mended copy whose ticks an older devmind numbered anew is another one: a pointer would mean another tick in it.
    """
    about = session.metadata
    known = about.get(IDENTITY) or (about.get(RECORDING, "") and f"{about[RECORDING]}/{about.get(PART, '1')}")
    known = known or f"{about.get('created', '')}/{about.get('source', '')}"
    return f"{known} numbered anew" if session.is_renumbered else known


class Pointed:
    """Reads and blanks what is pointed to.

    Args:
        folder: what relative pointers are relative to, the memory's.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder or Path()
        self._sessions: dict[Path, tuple[Session, float]] = {}

    def fetch(self, place: Place) -> dict[str, Sense] | None:
        """The senses of one tick; None when the recording is not there, is another one, or has no such tick."""
        try:
            session = self._session(self.folder / place.session)
            if identity(session) != place.identity:
                return None
            tick = session.tick_of(place.tick)
            return None if tick is None else dict(session[tick][0].senses)
        except (SessionError, IndexError):
            return None

    def forget(self, places: Iterable[Place]) -> list[str]:
        """Blank what is pointed to; a sentence for each recording where that cannot be, [] when all is gone.

        Raises:
            SessionError: a recording cannot be rewritten; nothing of it is changed then.
        """
        told: list[str] = []
        by_file: dict[str, list[Place]] = {}
        for place in places:
            by_file.setdefault(place.session, []).append(place)
        for name, wanted in by_file.items():
            path = self.folder / name
            if not path.is_file():
                told.append(f"The recording '{path}' is not there; if it was moved, what it holds was not forgotten.")
                continue
            session = Session(path)
            found = [session.tick_of(place.tick) for place in wanted if place.identity == identity(session)]
            mine = [tick for tick in found if tick is not None]
            if len(found) < len(wanted):
                told.append(f"'{path}' is another recording now; the one that was pointed to was not touched.")
            if len(mine) < len(found):
                told.append(
                    f"'{path}' is a mended copy without {len(found) - len(mine)} of the ticks that were pointed to; "
                    "where the original still is, it holds them."
                )
            self._sessions.pop(path, None)
            if mine:
                has_copy = path.stat().st_nlink > 1
                blank(path, mine)
                if has_copy:
                    told.append(
                        f"'{path}' has a second name (a hard link, as backups make them), which keeps the recording as "
                        "it was; delete that one by hand."
                    )
                told += filter(None, [where_traces_stay(path)])
        return told

    def _session(self, path: Path) -> Session:
        changed_s = path.stat().st_mtime if path.exists() else 0.0
        known = self._sessions.get(path)
        if known is None or known[1] != changed_s:
            known = Session(path), changed_s
            self._sessions = {**dict(list(self._sessions.items())[1 - _OPEN :]), path: known}
        return known[0]


def blank(path: Path, ticks: Sequence[int]) -> None:
    """Rewrite a recording so that these ticks have no senses, and no camera's frame was taken within one of them.

    All else stays as it was: times, actions, notes, other ticks. A note says that it was done. The new file takes the
    old one's place in one step, and the old bytes are overwritten, unless they have another name (a hard link): what
    that one leads to is somebody's copy. A symbolic link stays one.

    Raises:
        SessionError: it is damaged, is still being written, or the disk refuses.
    """
    path = path.resolve()
    session = Session(path)
    gone = {tick for tick in ticks if 0 <= tick < len(session)}
    if session.truncated and time.time() - path.stat().st_mtime < QUIET_S:
        raise SessionError(f"'{path}' is still being written; end the recording, then forget again.")
    about, channels = salvage.about(path)
    copied = {**about, IDENTITY: identity(session)}
    begun = salvage.begun_ns(path, about)
    source, tick_hz = copied.pop("source"), float(copied.pop("tick_hz"))
    part = path.with_name(path.name + ".part")
    try:
        with Recorder(part, source=source, tick_hz=tick_hz, copied=copied, overwrite=True) as recorder:
            _copy(
                salvage.items(path, channels, begun),
                recorder,
                gone,
                [session.elapsed_s(tick) for tick in gone],
                1.01 / tick_hz,
            )
        part.chmod(path.stat().st_mode & 0o777)
        with path.open("r+b") as old:
            has_copy = os.fstat(old.fileno()).st_nlink > 1
            os.replace(part, path)
            if not has_copy:
                overwrite(old.fileno())
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    except OSError as error:
        raise SessionError(f"'{path}' cannot be rewritten: {error.strerror}; nothing of it was changed.") from error
    finally:
        with suppress(OSError):
            unlink_overwritten(part)  # of a rewriting that failed: it holds what stays, which may be forgotten later


def _copy(
    found: Iterable[Item | salvage.Gap], to: Recorder, gone: set[int], times_s: Sequence[float], tick_s: float
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
            if not any(abs(item.time_s - time_s) <= tick_s for time_s in times_s):
                to.frame_at(item.jpeg, round(item.time_s * 1e9))
        elif isinstance(item, Note):
            to.note(item.kind, item.data)
        elif isinstance(item, Health):
            to.health(item.data)
