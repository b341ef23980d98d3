"""The camera and the microphone of a page: mailboxes that the page's server fills.

There is no server here, and nothing waits: `accept(kind, data, device_time_s)` is called from any thread for every
message, and returns whether the message was of its kind. Kinds are `image/jpeg`, `image/png`, `image/webp` (one encoded
frame) and `audio/s16;rate=48000` (little-endian 16-bit samples of one channel; any rate).

The page has another clock: its time stamps are fitted to the times of arrival. The network's usual delay remains in
them.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Self

import numpy as np

from devmind.moment import SOUND_RATE_HZ
from devmind.worlds.clock import ClockFit
from sensors.frames import Health, NewestFrame
from sensors.series import TimedRing, as_pcm

LARGEST_BYTES = 4_000_000
"""A larger message is refused: no camera frame or block of sound is that large."""
JUMP_S = 1.0
"""Page time that runs back, or is this far from our clock, belongs to a reloaded page."""
HOLE_S = 0.02
RATES_HZ = (8_000, 384_000)
IMAGES = ("image/jpeg", "image/png", "image/webp")


class _Mailbox:
    """Open during its `with` block; it accepts data only then."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.health = Health()
        self._lock = threading.Lock()
        self._open = False

    @property
    def drops(self) -> int:
        """Frames (of the microphone: samples) that were lost, damaged or refused."""
        return self.health.drops

    def __enter__(self) -> Self:
        self._open = True
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._open = False
            self._forget()

    def _forget(self) -> None:
        raise NotImplementedError

    def _refused(self, data: bytes) -> bool:
        if not self._open:
            return True
        if len(data) > LARGEST_BYTES:
            self.health.dropped(why=f"The page sent {len(data):,} bytes at once; {LARGEST_BYTES:,} are allowed.")
        return len(data) > LARGEST_BYTES


class BrowserCamera(_Mailbox):
    """`sight` uint8 [H, W, 3] from a page's camera."""

    sense = "sight"

    def __init__(self) -> None:
        super().__init__("browser_camera")
        self._newest = NewestFrame(self.name, self.health)
        self._clock = ClockFit(1.0)
        self._last_device_s = -np.inf

    def accept(self, kind: str, data: bytes, device_time_s: float) -> bool:
        """Take one encoded frame, captured at `device_time_s` of the page's own clock; False for other kinds."""
        if kind not in IMAGES:
            return False
        arrived_s = time.monotonic()
        with self._lock:
            if self._refused(data):
                return True
            frame = _decoded(data)
            if frame is None:
                self.health.dropped(why="The page sent a picture that cannot be decoded.")
                return True
            self._newest.put(frame, self._captured_s(device_time_s, arrived_s))
        return True

    def _captured_s(self, device_time_s: float, arrived_s: float) -> float:
        other_page = device_time_s <= self._last_device_s
        if len(self._clock) and not other_page:
            other_page = abs(self._clock.host_s(device_time_s) - arrived_s) > JUMP_S
        if other_page:
            self._clock = ClockFit(1.0)
        self._last_device_s = device_time_s
        self._clock.observe(device_time_s, arrived_s)
        return min(self._clock.host_s(device_time_s), arrived_s)

    def read_latest(self, max_age_s: float) -> tuple[np.ndarray, float]:
        """The newest frame uint8 [H, W, 3] (read-only) and its time; StaleReading when it is `max_age_s` old."""
        return self._newest.read_latest(max_age_s)

    def _forget(self) -> None:
        self._newest.clear()
        self._clock, self._last_device_s = ClockFit(1.0), -np.inf


class BrowserMicrophone(_Mailbox):
    """`sound` float32 [1, S] at 16 kHz from a page's microphone."""

    sense = "sound"
    rate_hz = SOUND_RATE_HZ

    def __init__(self) -> None:
        super().__init__("browser_microphone")
        self._ring = TimedRing(self.name, self.health, self.rate_hz)
        self._resampler: Any = None
        self._source_hz = 0
        self._heard = 0.0
        self._due_s = -np.inf

    def accept(self, kind: str, data: bytes, device_time_s: float) -> bool:
        """Take samples, the first made at `device_time_s` of the page's sound clock; False for other kinds."""
        media, _, parameter = kind.partition(";")
        if media != "audio/s16":
            return False
        arrived_s = time.monotonic()
        with self._lock:
            if self._refused(data):
                return True
            digits = parameter.strip().removeprefix("rate=")
            source_hz = int(digits) if digits.isdecimal() and len(digits) < 7 else 0
            fits = RATES_HZ[0] <= source_hz <= RATES_HZ[1] and len(data) % 2 == 0 and 0 < len(data) <= 2 * source_hz
            if not fits:
                what = f"{len(data)} bytes of '{kind[:40]}'"
                self.health.dropped(why=f"The page sent {what}; up to a second of audio/s16;rate=N is expected.")
                return True
            self._add(np.frombuffer(data, "<i2"), source_hz, device_time_s, arrived_s)
        return True

    def _add(self, samples: np.ndarray, source_hz: int, device_time_s: float, arrived_s: float) -> None:
        import soxr

        hole_s = device_time_s - self._due_s
        gap = source_hz != self._source_hz or abs(hole_s) > HOLE_S
        if gap:
            if HOLE_S < hole_s < 3600 and source_hz == self._source_hz:
                self.health.dropped(round(hole_s * self.rate_hz), f"{hole_s:.2f} s of the page's sound were lost.")
            self._resampler = soxr.ResampleStream(source_hz, self.rate_hz, 1, dtype="float32")
            self._source_hz, self._heard = source_hz, float(self._ring.written)
        self._due_s = device_time_s + len(samples) / source_hz
        self._heard += len(samples) * self.rate_hz / source_hz
        ready = self._resampler.resample_chunk((samples / 32768).astype(np.float32))
        self._ring.append(as_pcm(ready[None]), arrived_s, made=self._heard, gap=gap)

    def read_window(self, start_s: float, end_s: float) -> np.ndarray:
        """The samples of [start_s, end_s), float32 [1, S]; StaleReading unless all of them are there."""
        return self._ring.read_window(start_s, end_s)

    def _forget(self) -> None:
        self._ring.clear()
        self._source_hz, self._heard, self._due_s = 0, 0.0, -np.inf


def _decoded(data: bytes) -> np.ndarray | None:
    """RGB uint8 [H, W, 3], or None when OpenCV cannot decode it."""
    import cv2

    try:
        frame = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)
    except cv2.error:
        return None
    return frame if frame is not None and frame.size else None
