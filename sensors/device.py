"""A device with a thread of its own: opened, read, and opened again after growing pauses when it disappears."""

from __future__ import annotations

import os
import threading
from typing import Any, Self

import numpy as np

from devmind.errors import SensorError, without_library
from sensors.frames import Health, NewestFrame

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
RELEASE_S = 2.0
"""Closing waits so long for the thread; a driver that hangs longer is left alone and released when it returns."""


class Device:
    """The base class of sensors with a device. A subclass says how to open, read and close it.

    `_prepare` runs in the caller's thread and raises SensorError for what waiting cannot mend. The others run in the
    sensor's thread: `_open` gives a handle, `_read` one capture of it (it may wait, best by `stop.wait`), `_keep`
    stores the capture for readers, `_close` releases the handle. OSError from any of them means that the device is
    gone, EOFError that there will be no more data.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.health = Health()
        self._stop: threading.Event | None = None
        self._thread: threading.Thread | None = None

    @property
    def drops(self) -> int:
        """Captures lost so far."""
        return self.health.drops

    def __enter__(self) -> Self:
        self._prepare()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._stop,), name=self.name, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._stop and self._thread:
            self._stop.set()
            self._thread.join(RELEASE_S)
            if self._thread.is_alive():
                self.health.fault = f"'{self.name}' did not release its device within {RELEASE_S:g} s."
        self._stop = self._thread = None
        self._forget()

    def _run(self, stop: threading.Event) -> None:
        pause_s, opened = FIRST_PAUSE_S, 0
        while not stop.is_set():
            captures = self.health.captures
            try:
                handle = self._open()
                self.health.reconnects += opened > 0
                opened += 1
                try:
                    self._read_on(handle, stop)
                finally:
                    self._close(handle)
            except EOFError:
                self.health.fault = f"'{self.name}' has ended."
                return
            except SensorError as error:
                self.health.fault = str(error)
                return
            except Exception as error:  # a driver's own exception must not end the thread
                said = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}."
                self.health.fault = without_library(error) or said
            if self.health.captures > captures:
                pause_s = FIRST_PAUSE_S
            if stop.wait(pause_s):
                return
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _read_on(self, handle: Any, stop: threading.Event) -> None:
        while not stop.is_set():
            capture = self._read(handle, stop)
            if not stop.is_set():  # ignore what a hanging driver gives after closing
                self._keep(capture)

    def _prepare(self) -> None:
        """Check what can be checked before the thread starts."""

    def _open(self) -> Any:
        raise NotImplementedError

    def _read(self, handle: Any, stop: threading.Event) -> Any:
        raise NotImplementedError

    def _keep(self, capture: Any) -> None:
        raise NotImplementedError

    def _close(self, handle: Any) -> None:
        """Release the handle."""

    def _forget(self) -> None:
        """Drop the data: nothing may be read after closing."""
        raise NotImplementedError


def quiet_opencv() -> None:
    """Keep OpenCV and its FFmpeg from stderr, in the whole process: `Health.fault` has the same in one sentence.

    A user's own OPENCV_LOG_LEVEL or OPENCV_FFMPEG_LOGLEVEL is kept.
    """
    from cv2.utils import logging

    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    if "OPENCV_LOG_LEVEL" not in os.environ:
        logging.setLogLevel(logging.LOG_LEVEL_SILENT)


class FrameDevice(Device):
    """A device of frames: it holds the newest for any reader. `_read` gives (frame, captured_at_s), or None without
    one.

    `drops` counts frames that could not be read or decoded; `sequence` numbers the others.
    """

    sense = "sight"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._newest = NewestFrame(name, self.health)

    def __enter__(self) -> Self:
        quiet_opencv()
        return super().__enter__()

    def read_latest(self, max_age_s: float) -> tuple[np.ndarray, float]:
        """The newest frame uint8 [H, W, 3] (read-only) and its time; StaleReading when it is `max_age_s` old."""
        return self._newest.read_latest(max_age_s)

    @property
    def sequence(self) -> int:
        """The number of frames so far; the number of the newest."""
        return self._newest.sequence

    def _keep(self, capture: tuple[np.ndarray, float] | None) -> None:
        if capture:
            self._newest.put(*capture)

    def _forget(self) -> None:
        self._newest.clear()
