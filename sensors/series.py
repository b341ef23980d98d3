"""A ring of samples in which every sample has a host time: a microphone writes it, and `read_window` reads it.

The device counts samples, and readers ask by host time; ClockFit relates the two. Samples once read stay the same: a
newer fit holds only for times after the latest that were read. So a window reads the same twice, and consecutive
windows leave nothing out but the drift itself (one sample in 10,000 at 100 ppm).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from devmind.errors import StaleReading
from devmind.worlds.clock import ClockFit
from sensors.frames import Health

GAP_S = 0.1
"""If all samples come later than this for GAP_PATIENCE_S, they are not late: earlier ones were lost."""
GAP_PATIENCE_S = 0.5
REFIT_S = 1.0
DRIFT_S = 20.0
PIECES = 64
"""More than the ring's seconds hold, one for every fit."""


def as_pcm(samples: np.ndarray) -> np.ndarray:
    """Sound float32 [...] on the 16-bit grid: recordings and memory then keep it as plain PCM without loss.

    It is clipped at full scale, which resampling overshoots at the edges of loud sound.
    """
    steps = np.clip(np.rint(samples * 32768), -32768, 32767).astype(np.int16)
    return steps.astype(np.float32) / np.float32(32768)


@dataclass(frozen=True)
class _Piece:
    """From host time `from_s` on, sample `index` + (t - from_s) * `rate_hz` was made at t.

    No sample is missing from `unbroken` on.
    """

    from_s: float
    index: float
    rate_hz: float
    unbroken: int


class TimedRing:
    """The last `seconds` of a series, float32 [C, S], preallocated. One thread appends, any thread reads.

    Args:
        name: the sensor's name in sentences.
        health: counts received blocks and lost samples.
        rate_hz: samples a second, nominal; windows have this rate.
    """

    def __init__(self, name: str, health: Health, rate_hz: int, channels: int = 1, seconds: float = 10.0) -> None:
        self.name, self.health, self.rate_hz = name, health, rate_hz
        self._data = np.zeros((channels, int(seconds * rate_hz)), np.float32)
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Drop everything, as after opening."""
        with self._lock:
            self.clock = ClockFit(self.rate_hz)
            self._written = self._next_fit = 0
            self._read_until_s = -np.inf
            self._pieces: deque[_Piece] = deque(maxlen=PIECES)
            self._late: list[tuple[int, float]] = []

    @property
    def written(self) -> int:
        """Samples appended since it was cleared."""
        return self._written

    @property
    def drift_ppm(self) -> float:
        """How much faster than nominal the device counts; nan in the first DRIFT_S, when it cannot be known."""
        with self._lock:
            return self.clock.drift_ppm if self.clock.span_s >= DRIFT_S else float("nan")

    def append(self, block: np.ndarray, made_s: float, made: float | None = None, gap: bool = False) -> None:
        """Add a block float32 [C, n]; the device had made `made` samples by host time `made_s`.

        Args:
            made: counted from the first appended sample; by default the samples in the ring including this block. It
                differs if a resampler still holds samples back.
            gap: an unknown number of samples was lost before this block.
        """
        with self._lock:
            start, size = self._written, self._data.shape[1]
            if block.shape[1] > size:
                raise ValueError(f"A block of {block.shape[1]} samples does not fit into a ring of {size}.")
            at = (start + np.arange(block.shape[1])) % size
            self._data[:, at] = block
            self._written += block.shape[1]
            self.health.captured(made_s)
            self._keep_time(start, self._written if made is None else made, made_s, gap)

    def _keep_time(self, start: int, made: float, made_s: float, gap: bool) -> None:
        if not self._pieces or gap:
            self._begin(start, [(made, made_s)])
            return
        late_s = made_s - self._host_s(made)
        if late_s <= GAP_S:
            self._late.clear()
            self.clock.observe(made, made_s)
        else:
            self._late.append((start, made_s - (made - start) / self.rate_hz))
            if self._late[-1][1] - self._late[0][1] >= GAP_PATIENCE_S:
                self.health.dropped(round(late_s * self.rate_hz), f"'{self.name}' lost {late_s:.2f} s of samples.")
                self._begin(self._late[0][0], self._late.copy())
        if self._written >= self._next_fit:
            self._next_fit = self._written + int(REFIT_S * self.rate_hz)
            from_s = max(self._pieces[-1].from_s, self._read_until_s)
            self._add_piece(from_s, self.clock.index_at(from_s), self._pieces[-1].unbroken)

    def _begin(self, start: int, observed: Sequence[tuple[float, float]]) -> None:
        """Sample `start` is the first of an unbroken stretch."""
        self.clock.restart()
        for index, host_s in observed:
            self.clock.observe(index, host_s)
        self._late.clear()
        self._next_fit = self._written + int(REFIT_S * self.rate_hz / 4)
        self._add_piece(self.clock.host_s(start), start, start)

    def _add_piece(self, from_s: float, index: float, unbroken: int) -> None:
        if self._pieces and self._pieces[-1].from_s == from_s:
            self._pieces.pop()  # nobody has read by that one: the newer fit replaces it
        rate_hz = self.rate_hz * (1 + self.clock.drift_ppm * 1e-6)
        self._pieces.append(_Piece(from_s, index, rate_hz, unbroken))

    def _host_s(self, index: float) -> float:
        piece = self._pieces[-1]
        return piece.from_s + (index - piece.index) / piece.rate_hz

    def read_window(self, start_s: float, end_s: float) -> np.ndarray:
        """The samples of [start_s, end_s), float32 [C, round((end_s - start_s) * rate_hz)].

        Raises:
            StaleReading: some are not there yet, no longer there, or were lost.
        """
        count = round((end_s - start_s) * self.rate_hz)
        with self._lock:
            first = self._first_index(start_s, count)
            self._read_until_s = max(self._read_until_s, end_s)
            return self._data[:, (first + np.arange(count)) % self._data.shape[1]]

    def _first_index(self, start_s: float, count: int) -> int:
        what = f"'{self.name}' has no samples of this window"
        position = next((k for k in range(len(self._pieces) - 1, -1, -1) if self._pieces[k].from_s <= start_s), None)
        if position is None or count < 1:
            why = "it begins before the sensor was opened" if self._pieces else self.health.fault or "nothing came yet"
            raise StaleReading(f"{what}: {why}.".replace("..", "."))
        piece = self._pieces[position]
        first = round(piece.index + (start_s - piece.from_s) * piece.rate_hz)
        if first < piece.unbroken or any(first + count > p.unbroken > piece.unbroken for p in self._pieces):
            raise StaleReading(f"{what}: some of them were lost.")
        if self._late and first + count > self._late[0][0]:
            raise StaleReading(f"{what}: they came so late that some before them may be lost.")
        if first + count > self._written:
            raise StaleReading(
                f"{what}: {first + count - self._written} are still to come. {self.health.fault}".rstrip()
            )
        if first < self._written - self._data.shape[1]:
            raise StaleReading(f"{what}: it is older than the {self._data.shape[1] / self.rate_hz:g} s that are kept.")
        return first
