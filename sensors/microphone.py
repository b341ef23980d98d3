"""A microphone through PyAudio. The callback only copies a block into preallocated memory; a thread does the rest.

Sound servers lose samples silently (PortAudio's overflow flag stayed 0 in every run that lost some), so losses are
found by the clock of the ring as well as by the flag.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from devmind.moment import SOUND_RATE_HZ
from sensors.device import Device
from sensors.portaudio import SoundStream, open_stream, require_pyaudio
from sensors.series import TimedRing, as_pcm

BLOCK_S = 0.02
BLOCKS = 256
SILENT_S = 3.0
"""A stream without callbacks for so long is gone. The first call may take 2 s while a server wakes up."""
CONTINUE = 0
OVERFLOW = 0x2
"""PortAudio's paContinue and paInputOverflow."""


class BlockRing:
    """Preallocated blocks of int16 samples from the callback (one writer) to the thread (one reader).

    `overruns` counts blocks that found no room: the thread was too slow.
    """

    def __init__(self, blocks: int, samples: int, channels: int) -> None:
        self._data = np.zeros((blocks, samples * channels), np.int16)
        self._about: list[tuple[int, float, bool]] = [(0, 0.0, False)] * blocks
        self._channels = channels
        self._put = self._taken = 0
        self.overruns = 0
        self._lost = False
        self.came = threading.Event()

    def put(self, data: bytes, made_s: float, lost: bool) -> None:
        """Copy a block, whose last sample was made at `made_s`; `lost`: samples before it were lost."""
        if self._put - self._taken >= len(self._about):
            self.overruns += 1
            self._lost = True
            return
        slot, values = self._put % len(self._about), np.frombuffer(data, np.int16)
        count = min(len(values), self._data.shape[1])
        self._data[slot, :count] = values[:count]
        self._about[slot] = (count, made_s, lost or self._lost)
        self._lost = False
        self._put += 1  # last: from here on the reader may take it
        self.came.set()

    def take(self) -> tuple[np.ndarray, float, bool] | None:
        """The oldest block as float32 [n, C], the time of its last sample, and whether some before it were lost."""
        if self._taken == self._put:
            return None
        slot = self._taken % len(self._about)
        count, made_s, lost = self._about[slot]
        block = self._data[slot, :count].reshape(-1, self._channels).astype(np.float32) / 32768
        self._taken += 1
        return block, made_s, lost


@dataclass
class _Open:
    """An open stream and its state."""

    stream: SoundStream
    blocks: BlockRing
    resampler: Any
    made: float
    last_s: float
    first: bool = True
    overruns: int = 0


class Microphone(Device):
    """`sound` float32 [C, S] at 16 kHz; `drops` counts lost samples, `overruns` blocks that found no room.

    Args:
        device: `default`, or a part of the name of a sound input.
        channels: 1 or 2; a device with only one copies it to both.

    Raises:
        SensorError: on opening, when PyAudio is missing.
    """

    sense = "sound"
    rate_hz = SOUND_RATE_HZ

    def __init__(self, device: str = "default", channels: int = 1) -> None:
        super().__init__("microphone")
        self.device, self.channels = device, channels
        self.overruns = 0
        self._ring = TimedRing(self.name, self.health, self.rate_hz, channels)

    def read_window(self, start_s: float, end_s: float) -> np.ndarray:
        """The samples of [start_s, end_s), float32 [C, S]; StaleReading unless all of them are there."""
        return self._ring.read_window(start_s, end_s)

    @property
    def drift_ppm(self) -> float:
        """How much faster than nominal the device counts, parts per million; nan in the first 20 s."""
        return self._ring.drift_ppm

    def _prepare(self) -> None:
        require_pyaudio()

    def _open(self) -> _Open:
        import soxr

        box: list[BlockRing] = []
        latency_s = 0.0

        def callback(data: bytes, frames: int, times: dict[str, float], flags: int) -> tuple[None, int]:
            if box:
                box[0].put(
                    data, time.monotonic() - _delay_s(times, frames / rate_hz, latency_s), bool(flags & OVERFLOW)
                )
            return None, CONTINUE

        rate_hz = self.rate_hz
        stream = open_stream(self.device, self.rate_hz, self.channels, BLOCK_S, callback)
        rate_hz, latency_s = stream.rate_hz, stream.latency_s
        resampler = None
        if rate_hz != self.rate_hz:
            resampler = soxr.ResampleStream(rate_hz, self.rate_hz, stream.channels, dtype="float32")
        blocks = BlockRing(BLOCKS, round(BLOCK_S * rate_hz), stream.channels)
        box.append(blocks)
        return _Open(stream, blocks, resampler, float(self._ring.written), time.monotonic())

    def _read(self, handle: _Open, stop: threading.Event) -> tuple[np.ndarray, float, float, bool] | None:
        """The next block at 16 kHz [C, n], the time of its end, the samples made by then, and a gap."""
        if (taken := handle.blocks.take()) is None:
            handle.blocks.came.wait(0.1)
            handle.blocks.came.clear()
            if time.monotonic() - handle.last_s > SILENT_S:
                raise OSError(f"The sound input '{self.device}' gives no more data.")
            return None
        block, made_s, lost = taken
        handle.last_s = time.monotonic()
        handle.made += len(block) * self.rate_hz / handle.stream.rate_hz
        if handle.blocks.overruns > handle.overruns:
            self._overrun(handle)
        samples = as_pcm(handle.resampler.resample_chunk(block)) if handle.resampler else block
        gap, handle.first = lost or handle.first, False  # after reopening, the loss is unknown
        return samples.T, made_s, handle.made, gap

    def _overrun(self, handle: _Open) -> None:
        count = handle.blocks.overruns - handle.overruns
        handle.overruns += count
        self.overruns += count
        self.health.dropped(round(count * BLOCK_S * self.rate_hz), "This computer is too slow for the microphone.")

    def _keep(self, capture: tuple[np.ndarray, float, float, bool] | None) -> None:
        if capture is not None:
            samples, made_s, made, gap = capture
            wanted = (self.channels, samples.shape[1])
            self._ring.append(np.broadcast_to(samples[: self.channels], wanted), made_s, made=made, gap=gap)

    def _close(self, handle: _Open) -> None:
        handle.stream.close()

    def _forget(self) -> None:
        self._ring.clear()


def _delay_s(times: dict[str, float], block_s: float, latency_s: float) -> float:
    """From the making of a block's last sample to its callback: by PortAudio's time stamps where they make sense."""
    since_first_s = times.get("current_time", 0.0) - times.get("input_buffer_adc_time", 0.0)
    trusted = times.get("input_buffer_adc_time", 0.0) > 0 and block_s <= since_first_s < 1.0
    return since_first_s - block_s if trusted else max(0.0, latency_s - block_s)
