"""A sound file played as a microphone: its samples enter a ring at their own times."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from devmind.errors import SensorError
from devmind.moment import SOUND_RATE_HZ
from sensors.device import Device
from sensors.series import TimedRing, as_pcm

BLOCK_S = 0.02


@dataclass
class _Tape:
    """An open file: `given` samples at 16 kHz have been given since `started_s`."""

    file: Any
    resampler: Any
    started_s: float
    given: int = 0
    over: bool = False


class AudioFile(Device):
    """`sound` float32 [C, S] at 16 kHz of a file that libsndfile reads; more than two channels are mixed to one, and
    what is louder than full scale is clipped.

    Args:
        path: the file.
        loop: start again at the end.

    Raises:
        SensorError: on opening, when there is no such file or it is no sound. At a sample that is no finite number it
            ends with a fault.
    """

    sense = "sound"
    rate_hz = SOUND_RATE_HZ

    def __init__(self, path: str | Path, loop: bool = False) -> None:
        super().__init__("audio_file")
        self.path, self.loop = Path(path), loop
        self._ring = TimedRing(self.name, self.health, self.rate_hz)

    def read_window(self, start_s: float, end_s: float) -> np.ndarray:
        """The samples of [start_s, end_s), float32 [C, S]; StaleReading unless all of them are there."""
        return self._ring.read_window(start_s, end_s)

    def _prepare(self) -> None:
        if not self.path.is_file():
            raise SensorError(f"There is no sound file '{self.path}'; check the path.")
        with self._open_file() as file:
            channels = file.channels if file.channels < 3 else 1
        self._ring = TimedRing(self.name, self.health, self.rate_hz, channels)

    def _open_file(self) -> Any:
        import soundfile

        try:
            return soundfile.SoundFile(self.path)
        except soundfile.LibsndfileError as error:
            raise SensorError(f"'{self.path}' cannot be played ({error}); convert it to WAV or FLAC.") from None

    def _open(self) -> _Tape:
        import soxr

        file = self._open_file()
        channels = file.channels if file.channels < 3 else 1
        resampler = soxr.ResampleStream(file.samplerate, self.rate_hz, channels, dtype="float32")
        return _Tape(file, resampler, time.monotonic())

    def _read(self, handle: _Tape, stop: threading.Event) -> tuple[np.ndarray, float]:
        """The next samples [C, n], the time when they are due, and the time of the last of them."""
        block = handle.file.read(int(BLOCK_S * handle.file.samplerate), dtype="float32", always_2d=True)
        over = not len(block)
        if over and self.loop and handle.file.tell():
            handle.file.seek(0)
            return np.zeros((1, 0), np.float32), 0.0
        if over and handle.over:
            raise EOFError
        handle.over = over
        if not np.isfinite(block).all():
            raise SensorError(f"'{self.path}' has samples that are no numbers (NaN or infinite); save it anew.")
        mixed = block if block.shape[1] < 3 else block.mean(1, keepdims=True)
        samples = handle.resampler.resample_chunk(mixed, last=over)
        handle.given += len(samples)
        due_s = handle.started_s + handle.given / self.rate_hz
        stop.wait(max(0.0, due_s - time.monotonic()))
        return as_pcm(samples.T), due_s

    def _keep(self, capture: tuple[np.ndarray, float]) -> None:
        if capture[0].shape[1]:
            self._ring.append(*capture)

    def _close(self, handle: _Tape) -> None:
        handle.file.close()

    def _forget(self) -> None:
        self._ring.clear()
