"""Recording of a life: turned on and off between ticks, written by a separate thread, readable by its owner only."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from devmind.config import LiveConfig
from devmind.errors import SessionError
from devmind.live.loop import Tick
from devmind.memory import Pointer
from devmind.sessions.background import BackgroundRecorder
from devmind.worlds.room import Room, sensor_health

HEALTH_EVERY_S = 1.0
FOLDER = Path("sessions")


class Recording:
    """The recording of a life: `begin` and `end` open and close a session file each time.

    Args:
        path: the first file; None is a new one in ./sessions, named by the time.
        details: kept as the session's metadata.
        config: ticks a second, whether whole frames are kept, and when a new file begins.

    Attributes:
        recorder: the open one, else None.
        files: the files of this life, in order.
    """

    def __init__(self, path: Path | None, details: Mapping[str, object], config: LiveConfig) -> None:
        self.path, self.details, self.config = path, details, config
        self.recorder: BackgroundRecorder | None = None
        self.files: list[Path] = []
        self._stopped: deque[BackgroundRecorder] = deque()
        self._recent: deque[BackgroundRecorder] = deque(maxlen=2)
        self._next_health_s = 0.0

    def begin(
        self, weights: Mapping[str, Any], effectors: Sequence[str], names: Mapping[str, Sequence[str]] | None = None
    ) -> Path:
        """Open the next file; its first note says which weights act.

        Args:
            names: names of the room's numbers.
            effectors: those that agents of this life answer for, if they have them.

        Raises:
            SessionError: it exists already, or cannot be written.
        """
        path = self._next()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SessionError(
                f"The folder '{path.parent}' for the recording cannot be made ({error.strerror}); choose another "
                "place, or change its rights."
            ) from error
        details = {**self.details, "effectors": ",".join(effectors)}
        self.recorder = BackgroundRecorder(
            path, source="room", tick_hz=self.config.hz, details=details, rotate_s=self.config.rotate_s, names=names
        )
        self.files.append(path)
        self._recent.append(self.recorder)
        self.recorder.note("weights", dict(weights))
        self._next_health_s = 0.0
        return path

    def stop(self) -> None:
        """Write nothing more to the open file, if there is one; returns at once. `finish` closes it."""
        recorder, self.recorder = self.recorder, None
        if recorder is not None:
            self._stopped.append(recorder)

    def finish(self) -> None:
        """Close what was stopped, with everything on the disk. It waits for the disk; from any thread.

        Raises:
            SessionError: the disk refused.
        """
        while self._stopped:
            self._stopped.popleft().close()

    def end(self) -> None:
        """`stop` and `finish`."""
        self.stop()
        self.finish()

    def pointer(self, since_s: float, until_s: float) -> Pointer | None:
        """A pointer to the ticks of Moments from `since_s` to `until_s`, once they are on the disk; None if none was
        recorded.

        It waits for the disk; from any thread. If one recording ended and another began between them, the newer counts.

        Raises:
            SessionError: the disk takes too long.
        """
        for recorder in reversed(tuple(self._recent)):  # another recording may begin meanwhile
            if (place := recorder.place(since_s, until_s)) is not None:
                path, identity, number, count = place
                return Pointer(str(path.resolve()), number, identity, span=count)
        return None

    def note(self, kind: str, data: Mapping[str, Any]) -> None:
        """Write a note to the session."""
        if self.recorder is not None:
            self.recorder.note(kind, dict(data))

    def tick(self, tick: Tick, room: Room) -> None:
        """Keep a tick, the camera's frame of it, and once a second the state of the sensors."""
        if self.recorder is None:
            return
        self.recorder.write(tick.moment, tick.action)
        if self.config.frames and room.frame is not None and room.frame_s is not None:
            self.recorder.frame(room.frame, room.frame_s)
        if tick.moment.time_s >= self._next_health_s:
            self._next_health_s = tick.moment.time_s + HEALTH_EVERY_S
            self.recorder.health(sensor_health(room.sensors.values()))

    def _next(self) -> Path:
        if self.path is not None and not self.files:
            return self.path
        folder = FOLDER if self.path is None else self.path.parent
        stem = "live" if self.path is None else self.path.stem
        name = f"{stem}-{datetime.now(UTC):%Y%m%d-%H%M%S}Z"  # local time comes twice when summer ends
        taken = count(2)  # and so does any time behind a clock that was set back
        path = folder / f"{name}.mcap"
        while path.exists():
            path = folder / f"{name}-{next(taken)}.mcap"
        return path
