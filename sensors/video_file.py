"""A video file played as a camera: each frame is captured at its own time."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from devmind.errors import SensorError
from sensors.device import FrameDevice

LATE_S = 0.1
"""Frames this late are skipped undecoded and counted as drops, until the file has caught up."""


class VideoFile(FrameDevice):
    """`sight` uint8 [H, W, 3] of a file that OpenCV reads, at the file's own speed.

    A frame's time is the time of opening plus its own time in the file. After the end there is nothing to read.

    Args:
        path: the file.
        loop: start again at the end.

    Raises:
        SensorError: on opening, when there is no such file or it is no video.
    """

    def __init__(self, path: str | Path, loop: bool = False) -> None:
        super().__init__("video_file")
        self.path, self.loop = Path(path), loop

    def _prepare(self) -> None:
        if not self.path.is_file():
            raise SensorError(f"There is no video file '{self.path}'; check the path.")
        self._open_film().release()

    def _open_film(self) -> Any:
        import cv2

        film = cv2.VideoCapture(str(self.path))
        if not film.isOpened():
            raise SensorError(f"'{self.path}' cannot be played as a video; convert it to mp4 (H.264).")
        return film

    def _open(self) -> _Film:
        return _Film(self._open_film(), time.monotonic())

    def _read(self, handle: _Film, stop: threading.Event) -> tuple[np.ndarray, float] | None:
        import cv2

        if not handle.film.grab():
            if not self.loop or not handle.frames:
                raise EOFError
            handle.film.release()
            handle.film, handle.started_s, handle.frames = self._open_film(), handle.due_s + handle.pause_s, 0
            return None
        handle.advance()
        late_s = time.monotonic() - handle.due_s
        if late_s < 0:
            stop.wait(-late_s)
        elif late_s > LATE_S:
            self.health.dropped(why=f"'{self.path}' plays too slowly here: frames are skipped.")
            return None
        whole, frame = handle.film.retrieve()
        if not whole:
            self.health.dropped(why=f"A frame of '{self.path}' is damaged.")
            return None
        return cv2.cvtColor(frame, cv2.COLOR_BGR2RGB), handle.due_s

    def _close(self, handle: _Film) -> None:
        handle.film.release()


class _Film:
    """An open file and its position: `due_s` is the host time of the frame grabbed last."""

    def __init__(self, film: Any, started_s: float) -> None:
        import cv2

        self.film, self.started_s, self.frames = film, started_s, 0
        self.due_s = started_s
        self.pause_s = 1 / max(1.0, film.get(cv2.CAP_PROP_FPS))

    def advance(self) -> None:
        """Count a grabbed frame. Bare streams have no time stamps; there the frame rate gives the time."""
        import cv2

        stamp_s = self.film.get(cv2.CAP_PROP_POS_MSEC) / 1000
        self.due_s = self.started_s + (stamp_s if stamp_s > 0 else self.frames * self.pause_s)
        self.frames += 1
