"""A recording that is still being written, with all its parts as one row of Moments."""

from __future__ import annotations

from pathlib import Path

from devmind.errors import SessionError
from devmind.moment import Moment
from devmind.sessions.parts import parts
from devmind.sessions.reader import Session


class Following:
    """Reads while others write: call `refresh` now and then; `moments` reads anywhere before `len()`. Notes and health
    are not kept: those of a day would take more than a GB.

    Attributes:
        fault: why a part cannot be read (any further); earlier Moments stay readable.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.fault = path, ""
        self._sessions: list[Session] = []
        self._inodes: list[int] = []

    def __len__(self) -> int:
        return sum(len(session) for session in self._sessions)

    def refresh(self) -> int:
        """Take in what was written since; returns the number of new Moments.

        It waits for a file whose head is not on the disk yet.
        """
        before, self.fault = len(self), ""
        try:
            self._open_again()
            for session in self._sessions:
                if session.truncated:
                    session.refresh()
            for path in parts(self.path)[len(self._sessions) :]:
                if path.is_file() and (about := path.stat()).st_size:
                    self._sessions.append(Session(path))
                    self._inodes.append(about.st_ino)
            for session in self._sessions:
                session.notes.clear()
                session.health.clear()
        except (SessionError, FileNotFoundError) as error:
            self.fault = str(error)
        return len(self) - before

    def moments(self, start: int, ticks: int) -> list[Moment]:
        """`ticks` consecutive Moments from `start` on, across parts; fewer at the end."""
        try:
            return self._moments(start, ticks)
        except SessionError:
            if not self._open_again():
                raise
            return self._moments(start, ticks)

    def _open_again(self) -> bool:
        """Open parts again that were rewritten because something in them was forgotten; their ticks are as many as
        before.
        """
        anew = [at for at, one in enumerate(self._sessions) if one.path.stat().st_ino != self._inodes[at]]
        for at in anew:
            path = self._sessions[at].path
            self._sessions[at], self._inodes[at] = Session(path), path.stat().st_ino
        return bool(anew)

    def _moments(self, start: int, ticks: int) -> list[Moment]:
        found: list[Moment] = []
        for session in self._sessions:
            if start < len(session) and len(found) < ticks:
                found += [moment for moment, _ in session.window(max(0, start), ticks - len(found))]
            start -= len(session)
        return found
