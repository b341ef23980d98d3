"""A loudspeaker through PyAudio: an effector, the only plugin here that takes data instead of giving it.

The contract of an effector is minimal: a context manager with `effector` (the name of its actions), `drops`, and
`act(value)`, which takes the action's array and returns at once. It belongs to the group of sensors, because it is a
device of the same room, opened and closed by the same code.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

import numpy as np

from devmind.errors import SensorError
from devmind.moment import SOUND_RATE_HZ
from sensors.device import Device
from sensors.portaudio import SoundStream, open_stream, require_pyaudio

BLOCK_S = 0.02
SILENT_S = 3.0
CONTINUE = 0


class Speaker(Device):
    """Plays float32 [C, S] at 16 kHz, -1..1; louder samples are clipped, channels are mixed to one.

    Sound waits in a queue of at most `queue_s`; when more comes, the oldest is dropped and counted in `drops`
    (samples). Nothing is queued while it is closed. While its device is gone all sound is dropped: it would be late,
    and whoever waits until `pending_s` is over (`Speaking`, which is deaf so long) would wait for ever.

    Args:
        device: `default`, or a part of the name of a sound output.

    Raises:
        SensorError: on opening, when PyAudio is missing.
    """

    effector = "utter"
    rate_hz = SOUND_RATE_HZ

    def __init__(self, device: str = "default", queue_s: float = 10.0) -> None:
        super().__init__("speaker")
        self.device, self.queue_s = device, queue_s
        self._lock = threading.Lock()
        self._queue: deque[np.ndarray] = deque()
        self._queued = 0
        self._gone = False
        self._called_s = 0.0
        self._resampler: Any = None
        self._resampled = np.zeros(0, np.int16)

    @property
    def pending_s(self) -> float:
        """Seconds of sound that still wait."""
        return self._queued / self.rate_hz

    def act(self, value: np.ndarray) -> None:
        """Play `value` after the queued sound; returns at once.

        Raises:
            SensorError: it is not float32 [C, S].
        """
        if value.ndim != 2 or value.dtype != np.float32 or not value.shape[0]:
            raise SensorError(f"The speaker plays float32 [C, S]; got {value.dtype} {list(value.shape)}.")
        samples = (np.clip(np.nan_to_num(value.mean(0)), -1, 1) * 32767).astype(np.int16)
        with self._lock:
            if self._thread is None:
                return
            if self._gone:
                self.health.dropped(len(samples))
                return
            self._queue.append(samples)
            self._queued += len(samples)
            excess = self._queued - int(self.queue_s * self.rate_hz)
            if excess > 0:
                self._take(excess)
                self.health.dropped(excess)

    def _take(self, count: int) -> np.ndarray:
        """Up to `count` samples from the front of the queue."""
        parts: list[np.ndarray] = []
        while count > 0 and self._queue:
            part = self._queue.popleft()
            if len(part) > count:
                self._queue.appendleft(part[count:])
                part = part[:count]
            parts.append(part)
            count -= len(part)
            self._queued -= len(part)
        return np.concatenate(parts) if parts else np.zeros(0, np.int16)

    def _prepare(self) -> None:
        require_pyaudio()

    def _open(self) -> SoundStream:
        import soxr  # noqa: F401 - not only in the first callback, which has to be quick

        self._called_s = time.monotonic()
        self._resampler, self._resampled = None, self._resampled[:0]
        rate_hz, channels = 0, 1

        def callback(data: None, frames: int, times: dict[str, float], flags: int) -> tuple[bytes, int]:
            self._called_s = time.monotonic()
            return self._block(frames, rate_hz or self.rate_hz, channels), CONTINUE

        try:
            stream = open_stream(self.device, self.rate_hz, 1, BLOCK_S, callback, output=True)
        except Exception:
            self._lose()
            raise
        rate_hz, channels = stream.rate_hz, stream.channels
        self._gone = False
        return stream

    def _lose(self) -> None:
        """The device is gone, and with it the sound that waits."""
        with self._lock:
            self._gone = True
            self.health.dropped(self._queued)
            self._queue.clear()
            self._queued = 0

    def _block(self, frames: int, rate_hz: int, channels: int) -> bytes:
        """The next `frames` for the device, silence when the queue is empty."""
        if rate_hz == self.rate_hz:
            with self._lock:
                samples = self._take(frames)
        else:
            samples = self._at_rate(frames, rate_hz)
        self.health.captured(self._called_s)
        out = np.zeros(frames, np.int16)
        out[: len(samples)] = samples
        return np.repeat(out, channels).tobytes()

    def _at_rate(self, frames: int, rate_hz: int) -> np.ndarray:
        """Up to `frames` samples at the device's rate; the end of the queue is the end of a sound."""
        import soxr

        while len(self._resampled) < frames:
            with self._lock:
                part = self._take(round(BLOCK_S * self.rate_hz))
            if not len(part) and self._resampler is None:
                break
            if self._resampler is None:
                self._resampler = soxr.ResampleStream(self.rate_hz, rate_hz, 1, dtype="int16")
            more = self._resampler.resample_chunk(part, last=not len(part))
            self._resampler = self._resampler if len(part) else None
            self._resampled = np.concatenate((self._resampled, more))
        samples, self._resampled = self._resampled[:frames], self._resampled[frames:]
        return samples

    def _read(self, handle: SoundStream, stop: threading.Event) -> None:
        stop.wait(0.1)
        if time.monotonic() - self._called_s > SILENT_S:
            self._lose()
            raise OSError(f"The sound output '{self.device}' takes no more data.")

    def _keep(self, capture: None) -> None:
        """Record that this was played."""

    def _close(self, handle: SoundStream) -> None:
        handle.close()

    def _forget(self) -> None:
        with self._lock:
            self._queue.clear()
            self._queued = 0
