"""RotatingRecorder: a recorder that begins a new file every ten minutes, so that an accident never costs a day."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from devmind.errors import SessionError
from devmind.moment import TICK_HZ, Action, Moment
from devmind.sessions.parts import CONTINUES, PART, RECORDING, part_path, refuse_leftovers
from devmind.sessions.recorder import Recorder
from devmind.sessions.turning import asked

ROTATE_S = 600.0
CARRIED = ("weights", "age", "directed")
"""Notes that hold until the next of their kind: each part begins with them, so that it can be read alone."""


class RotatingRecorder:
    """The methods of a `Recorder`, over several files: `path`, `path`-0002 and so on.

    Args:
        rotate_s: seconds of Moments in a part.
        path, source, tick_hz, details, names, overwrite, clock, mode: as `Recorder` takes them.

    Attributes:
        paths: the files so far.

    Raises:
        SessionError: as `Recorder`; also when a file with the name of a later part exists and may not be overwritten.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        source: str,
        tick_hz: float = TICK_HZ,
        details: Mapping[str, object] | None = None,
        overwrite: bool = False,
        rotate_s: float = ROTATE_S,
        clock: Callable[[], float] = time.monotonic,
        names: Mapping[str, Sequence[str]] | None = None,
        mode: int | None = None,
    ) -> None:
        if not rotate_s * tick_hz >= 1:
            raise SessionError(f"A part must hold one tick at least ({1 / tick_hz:g} s); got rotate_s={rotate_s:g}.")
        self.path, self.rotate_s, self.paths = Path(path), rotate_s, list[Path]()
        self._about = {**(details or {}), RECORDING: uuid.uuid4().hex}
        self._options: dict[str, Any] = {
            "source": source, "tick_hz": tick_hz, "overwrite": overwrite, "clock": clock, "names": names,
            "mode": mode,
        }  # fmt: skip
        self._carried: dict[str, Any] = {}
        self._ticks_before = 0
        if not overwrite:
            refuse_leftovers(self.path)
        self._recorder = self._begin(None)

    @property
    def ticks(self) -> int:
        """Ticks written, over all parts."""
        return self._ticks_before + self._recorder.ticks

    @property
    def place(self) -> tuple[Path, str, int]:
        """For the tick written last: its part's file and identity (as `pointed.identity`), and its number there."""
        return self._recorder.path, f"{self._about[RECORDING]}/{len(self.paths)}", self._recorder.number

    def write(self, moment: Moment, action: Action | None = None) -> None:
        """As `Recorder.write`."""
        self.turn_if_asked()
        self._turn()
        self._recorder.write(moment, action)

    def note(self, kind: str, data: Any) -> None:
        """As `Recorder.note`."""
        self._turn()
        self._recorder.note(kind, data)
        if kind in CARRIED:
            self._carried[kind] = data

    def frame(self, frame: bytes | np.ndarray, captured_s: float) -> None:
        """As `Recorder.frame`."""
        self._turn()
        self._recorder.frame(frame, captured_s)

    def health(self, data: Mapping[str, Any]) -> None:
        """As `Recorder.health`."""
        self._turn()
        self._recorder.health(data)

    def flush(self) -> None:
        """As `Recorder.flush`."""
        self._recorder.flush()

    def close(self) -> None:
        """As `Recorder.close`."""
        self._recorder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._recorder.__exit__(kind, error, at)

    def turn_if_asked(self) -> None:
        """Begin the next part when another process wants to rewrite this one (`turning.py`)."""
        turn = asked(self._recorder.path)
        if turn.exists():
            self._next()
            turn.unlink(missing_ok=True)

    def _turn(self) -> None:
        """Begin the next part when this one is full; half a tick less, because clocks round."""
        if self._recorder.span_s >= self.rotate_s - 0.5 / self._options["tick_hz"]:
            self._next()

    def _next(self) -> None:
        full = self._recorder
        full.close()
        self._recorder = self._begin(full)
        self._ticks_before += full.ticks
        for kind, data in self._carried.items():
            self._recorder.note(kind, data)

    def _begin(self, full: Recorder | None) -> Recorder:
        number = len(self.paths) + 1
        about = {**self._about, PART: number} | ({CONTINUES: full.path.name} if full else {})
        options = dict(self._options)
        if full:  # a reader refused by the part before is refused by this one too, from its first byte on
            with suppress(OSError):
                options["mode"] = full.path.stat().st_mode & 0o777
        recorder = Recorder(part_path(self.path, number), **options, details=about, follows=full)
        self.paths.append(recorder.path)
        return recorder
