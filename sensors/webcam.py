"""A camera that OpenCV opens: by number, device path, file, or address (MJPEG over HTTP, RTSP).

The time of a frame is taken at `grab()`. A stream's decoder silently conceals damage where it can; a frame that it
cannot decode at all is counted as a drop.
"""

from __future__ import annotations

import sys
import threading
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np

from devmind.errors import without_secrets
from sensors.device import FrameDevice

FAILURES = 10
"""After so many failed reads in a row the camera counts as gone."""
RETRY_S = 0.01


class Webcam(FrameDevice):
    """`sight` uint8 [H, W, 3], the whole frame in RGB, in a thread of its own.

    A camera that disappears is opened again after growing pauses.

    Args:
        source: the number of a camera, its path, a file, or an address with `://`.
        width, height, fps: requested from a camera, which may give something else.
        open_timeout_s: an address without an answer for so long is gone.
        read_timeout_s: a stream without a frame for so long is gone.
    """

    def __init__(
        self,
        source: int | str = 0,
        width: int | None = 640,
        height: int | None = 480,
        fps: float | None = None,
        open_timeout_s: float = 3.0,
        read_timeout_s: float = 3.0,
    ) -> None:
        super().__init__("webcam")
        self.source = int(source) if str(source).isdecimal() else str(source)
        self.width, self.height, self.fps = width, height, fps
        self.open_timeout_s, self.read_timeout_s = open_timeout_s, read_timeout_s
        self._failures = 0

    def _open(self) -> Any:
        import cv2

        if "://" in str(self.source):
            timeouts = [
                *(cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, int(self.open_timeout_s * 1000)),
                *(cv2.CAP_PROP_READ_TIMEOUT_MSEC, int(self.read_timeout_s * 1000)),
            ]
            camera = cv2.VideoCapture(str(self.source), cv2.CAP_FFMPEG, timeouts)
        elif self._is_file():
            camera = cv2.VideoCapture(str(self.source), cv2.CAP_FFMPEG)
        else:
            camera = self._open_local()
        if not camera.isOpened():
            camera.release()
            raise OSError(self._why_closed())
        self._failures = 0
        return camera

    def _open_local(self) -> Any:
        import cv2

        linux = sys.platform.startswith("linux")
        path = Path(f"/dev/video{self.source}" if isinstance(self.source, int) else self.source)
        if linux and not path.exists():  # OpenCV would try every backend and fill stderr
            raise OSError(f"There is no camera {self._shown()} ({path} does not exist).")
        camera = cv2.VideoCapture(self.source, cv2.CAP_V4L2 if linux else cv2.CAP_ANY)
        wanted = (
            (cv2.CAP_PROP_BUFFERSIZE, 1),  # a queue in the driver would make every frame old
            (cv2.CAP_PROP_FRAME_WIDTH, self.width),
            (cv2.CAP_PROP_FRAME_HEIGHT, self.height),
            (cv2.CAP_PROP_FPS, self.fps),
        )
        for key, value in wanted:
            if value is not None:
                camera.set(key, value)
        return camera

    def _read(self, handle: Any, stop: threading.Event) -> tuple[np.ndarray, float] | None:
        import cv2

        grabbed = handle.grab()
        at_s = time.monotonic()
        try:
            whole, frame = handle.retrieve() if grabbed else (False, None)
        except cv2.error:  # some backends raise on a damaged frame
            whole, frame = False, None
        if whole and frame is not None:
            # Failed reads before a frame were damaged frames; those at the end of a stream are only its end.
            self.health.dropped(self._failures)
            self._failures = 0
            self._pace(handle, stop)
            return cv2.cvtColor(frame, cv2.COLOR_BGR2RGB), at_s
        self._failures += 1
        if self._failures >= FAILURES:
            raise OSError(f"The camera {self._shown()} gives no more frames.")
        stop.wait(RETRY_S)
        return None

    def _pace(self, handle: Any, stop: threading.Event) -> None:
        """Wait for a file, which could be read too fast; cameras and streams have their own pace."""
        import cv2

        if self._is_file():
            stop.wait(1 / max(1.0, handle.get(cv2.CAP_PROP_FPS)))

    def _is_file(self) -> bool:
        return isinstance(self.source, str) and Path(self.source).is_file()

    def _close(self, handle: Any) -> None:
        handle.release()

    def _why_closed(self) -> str:
        if "://" in str(self.source):
            return f"The camera {self._shown()} gives no video: {_answer(str(self.source), self.open_timeout_s)}."
        if self._is_file():
            return f"The file {self._shown()} is not a readable video."
        return f"The camera {self._shown()} cannot be opened: is it connected, free, and allowed to be used?"

    def _shown(self) -> str:
        return f"'{without_secrets(str(self.source))}'"


def _answer(address: str, timeout_s: float) -> str:
    """The fault of an address, as far as plain HTTP shows it; a part of a sentence."""
    if not address.startswith(("http://", "https://")) or without_secrets(address) != address:
        return "nothing answers there, or the answer is no video stream"
    try:
        with urllib.request.urlopen(address, timeout=timeout_s) as answer:
            return f"what answers there is {answer.headers.get_content_type()}"
    except urllib.error.HTTPError as error:
        return f"the answer there is {error.code} {error.reason}"
    except (OSError, ValueError, HTTPException) as error:
        return f"nothing answers there ({getattr(error, 'reason', error)})"
