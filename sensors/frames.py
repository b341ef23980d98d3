"""The newest frame of a sensor, and the sensor's state. One thread writes both, any thread reads them."""

from __future__ import annotations

import threading
import time
from collections import deque

import numpy as np

from devmind.errors import StaleReading, without_secrets

REMEMBERED = 256
"""Captures for measuring rate and jitter."""


class Health:
    """Counters of one sensor, since it was created.

    Attributes:
        captures: frames (or blocks of samples) received.
        drops: frames (for a series: samples) that were lost, damaged or refused.
        reconnects: how often the device was opened again after it had disappeared.
        fault: why nothing comes now, a sentence without credentials; '' when all is well.
    """

    def __init__(self) -> None:
        self.captures = self.drops = self.reconnects = 0
        self.fault = ""
        self._times: deque[float] = deque(maxlen=REMEMBERED)

    def captured(self, at_s: float) -> None:
        """Count a capture, made at `at_s` (time.monotonic() seconds)."""
        self.captures += 1
        self.fault = ""
        self._times.append(at_s)

    def dropped(self, count: int = 1, why: str = "") -> None:
        """Count `count` lost captures; `why` is a sentence."""
        self.drops += count
        self.fault = why or self.fault

    @property
    def fault(self) -> str:
        """Why nothing comes now; a library's message may contain the whole address."""
        return self._fault

    @fault.setter
    def fault(self, sentence: str) -> None:
        self._fault = without_secrets(sentence)

    @property
    def capture_hz(self) -> float:
        """Measured captures a second over the last of them; nan before the second one."""
        times = list(self._times)
        return (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 and times[-1] > times[0] else float("nan")

    @property
    def jitter_s(self) -> float:
        """How far the pause between captures is from its median in nine of ten cases, seconds; nan before the third."""
        pauses = np.diff(list(self._times))
        return float(np.quantile(np.abs(pauses - np.median(pauses)), 0.9)) if len(pauses) > 1 else float("nan")


class NewestFrame:
    """Holds one frame: a newer one replaces it, so a slow reader never makes a queue.

    Args:
        name: the sensor's name in sentences.
        health: counts the frames put here, and says why nothing comes.
    """

    def __init__(self, name: str, health: Health) -> None:
        self.name, self.health = name, health
        self.sequence = 0
        self._lock = threading.Lock()
        self._held: tuple[np.ndarray, float] | None = None

    def put(self, frame: np.ndarray, captured_at_s: float) -> None:
        """Store the frame made at `captured_at_s`; it must not be changed any more. A frame older than the stored one
        is dropped.
        """
        frame.flags.writeable = False
        with self._lock:
            if self._held and captured_at_s < self._held[1]:
                self.health.dropped()
                return
            self._held = (frame, captured_at_s)
            self.sequence += 1
            self.health.captured(captured_at_s)

    def clear(self) -> None:
        """Drop the frame: there is nothing to read any more."""
        with self._lock:
            self._held = None

    def read_latest(self, max_age_s: float) -> tuple[np.ndarray, float]:
        """The newest frame (read-only) and its time.monotonic() seconds.

        Raises:
            StaleReading: there is none, or it is `max_age_s` old or older.
        """
        with self._lock:
            held = self._held
        if held is None:
            why = self.health.fault or "Is it open, and did its first frame come?"
            raise StaleReading(f"The sensor '{self.name}' has no frame. {why}")
        age_s = time.monotonic() - held[1]
        if age_s >= max_age_s:
            raise StaleReading(
                f"The newest frame of '{self.name}' is {age_s:.2f} s old, and at most {max_age_s:g} s is allowed. "
                f"{self.health.fault}".rstrip()
            )
        return held
