"""A camera and a microphone without devices: a flash and a click at the same known times, once every `period_s`.

Events are at whole multiples of `period_s` on the clock time.monotonic(). So a camera and a microphone opened at
different times still flash and click together, and a test knows the times without asking either.
"""

from __future__ import annotations

import math
import time
from typing import Self

import numpy as np

from devmind.errors import SensorError, StaleReading
from devmind.moment import SOUND_RATE_HZ

CLICK_S = 0.005
CLICK_HZ = 2000
HUM_HZ = 220
KEPT_S = 10.0
ROUNDING_S = 1e-6
"""Products of frame numbers and periods are not exact: a frame at an event must not count as one before it."""


def event_times(start_s: float, end_s: float, period_s: float = 1.0) -> list[float]:
    """The times of flashes and clicks in [start_s, end_s), time.monotonic() seconds."""
    first = math.ceil(start_s / period_s)
    return [k * period_s for k in range(first, math.ceil(end_s / period_s))]


class _Synthetic:
    """Opened and closed; its data are a function of the time alone."""

    drops = 0

    def __init__(self, period_s: float) -> None:
        self.period_s = float(period_s)
        if not self.period_s > 0:
            raise SensorError(f"period_s is the pause between events and must be above 0; got {period_s}.")
        self._opened_s: float | None = None

    def __enter__(self) -> Self:
        self._opened_s = time.monotonic()
        return self

    def __exit__(self, *error: object) -> None:
        self._opened_s = None


class SyntheticCamera(_Synthetic):
    """`sight` uint8 [height, width, 3]: a red square that moves over grey, all white in the 0.1 s after an event.

    Args:
        period_s: seconds between flashes.
        fps: frames a second; frame k is made at k / fps.
        flash_s: duration of a flash.
    """

    sense = "sight"

    def __init__(
        self, period_s: float = 1.0, fps: float = 30.0, width: int = 320, height: int = 240, flash_s: float = 0.1
    ) -> None:
        super().__init__(period_s)
        self.fps, self.width, self.height, self.flash_s = fps, width, height, flash_s

    def read_latest(self, max_age_s: float) -> tuple[np.ndarray, float]:
        """The last frame and its time; StaleReading before the first frame, and when it is too old."""
        now = time.monotonic()
        number = math.floor(now * self.fps)
        at_s = number / self.fps
        if self._opened_s is None or at_s < self._opened_s or now - at_s >= max_age_s:
            raise StaleReading(f"'synthetic_camera' has no frame of the last {max_age_s:g} s; is it open?")
        return self._frame(number, at_s), at_s

    def _frame(self, number: int, at_s: float) -> np.ndarray:
        if math.fmod(at_s + ROUNDING_S, self.period_s) < self.flash_s:
            return np.full((self.height, self.width, 3), 255, np.uint8)
        frame = np.full((self.height, self.width, 3), 90, np.uint8)
        side = self.height // 4
        left = number * 2 % max(1, self.width - side)
        frame[side : 2 * side, left : left + side] = (200, 40, 40)
        return frame


class SyntheticMicrophone(_Synthetic):
    """`sound` float32 [1, S] at 16 kHz: a faint hum, and a click of 5 ms from each event on."""

    sense = "sound"
    rate_hz = SOUND_RATE_HZ

    def __init__(self, period_s: float = 1.0) -> None:
        super().__init__(period_s)

    def read_window(self, start_s: float, end_s: float) -> np.ndarray:
        """The samples of [start_s, end_s), float32 [1, S]; StaleReading unless all of them are there."""
        now = time.monotonic()
        count = round((end_s - start_s) * self.rate_hz)
        if self._opened_s is None or start_s < self._opened_s or end_s > now or count < 1 or start_s < now - KEPT_S:
            raise StaleReading(f"'synthetic_microphone' has samples of its last {KEPT_S:g} s only, while it is open.")
        at_s = (round(start_s * self.rate_hz) + np.arange(count)) / self.rate_hz
        since_s = np.mod(at_s + ROUNDING_S, self.period_s)
        click = np.where(since_s < CLICK_S, 0.8 * np.cos(2 * np.pi * CLICK_HZ * since_s), 0.0)
        return (click + 0.005 * np.sin(2 * np.pi * HUM_HZ * at_s)).astype(np.float32)[None]
