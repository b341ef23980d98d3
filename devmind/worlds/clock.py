"""ClockFit: the host time of each sample of a device with its own clock.

A device counts samples by its own crystal, and its callbacks come late, never early, so the host time of a block is
noisy. Host time is fitted as a line over the sample index by Huber's M-estimator, with iteratively reweighted least
squares (Huber 1964, "Robust estimation of a location parameter"; Holland & Welsch 1977, "Robust regression using
iteratively reweighted least-squares"), over the last `window_s` seconds. Late callbacks get small weights.

A second of late callbacks says nothing about a drift of some ppm. So the drift has a normal prior around its last
estimate, with the standard deviation DRIFT_PRIOR of crystals. The prior counts while the window is short.
"""

from __future__ import annotations

import numpy as np

from devmind.errors import WorldError

DRIFT_PRIOR = 5e-4
"""Sound cards and cameras keep their rate within some 100 ppm."""
HUBER_K = 1.345
"""95 % as efficient as least squares when the noise is normal (Holland & Welsch 1977, table 1)."""
LEAST_SCALE_S = 1e-5
"""Noise is never taken to be smaller than this, or a perfect clock would give weights of zero."""
ITERATIONS = 20


class ClockFit:
    """Observations (sample index, host time) of one device, and the line through them.

    `observe` costs a few stores and may be called from an audio callback. The fit is computed on request, if there
    are new observations. Not safe between threads: the caller locks.

    Args:
        rate_hz: nominal samples a second.
        window_s: older observations are forgotten.
        points: observations kept; more than points / window_s a second are thinned.
    """

    def __init__(self, rate_hz: float, window_s: float = 60.0, points: int = 1024) -> None:
        if not rate_hz > 0 or not window_s > 0 or points < 8:
            raise WorldError(
                f"A clock needs rate_hz > 0, window_s > 0 and at least 8 points; got {rate_hz}, {window_s}, {points}."
            )
        self.rate_hz, self.window_s = float(rate_hz), float(window_s)
        self._index = np.zeros(points)
        self._host = np.zeros(points)
        self._count = 0
        self._known_drift = 0.0
        self._line: tuple[float, float, float, float] | None = None

    def __len__(self) -> int:
        """The number of observations in the fit."""
        return min(self._count, len(self._index))

    @property
    def span_s(self) -> float:
        """Host seconds from the oldest observation kept to the newest; a drift means little below some 20 s."""
        size = len(self._index)
        if not self._count:
            return 0.0
        return float(self._host[(self._count - 1) % size] - self._host[max(0, self._count - size) % size])

    def observe(self, index: float, host_s: float) -> None:
        """The device had made `index` samples by host time `host_s` (time.monotonic() seconds); indices rise."""
        size = len(self._index)
        if self._count > 1:
            before = self._index[(self._count - 2) % size]
            if index - before < self.window_s * self.rate_hz / size:
                self._count -= 1  # the newest observation only counts until a later one is far enough from the last
        self._index[self._count % size], self._host[self._count % size] = index, host_s
        self._count += 1
        self._line = None

    def restart(self) -> None:
        """Forget the offset, as samples were lost; the drift belongs to the device and stays."""
        if self._count:
            self._known_drift = self._fit()[2]
        self._count, self._line = 0, None

    def host_s(self, index: float) -> float:
        """The host time at which sample `index` was made, seconds.

        Raises:
            WorldError: there is no observation yet.
        """
        index0, host0, drift, _ = self._fit()
        return host0 + (index - index0) / self.rate_hz * (1 + drift)

    def index_at(self, host_s: float) -> float:
        """The inverse of `host_s`: the (fractional) sample index at a host time."""
        index0, host0, drift, _ = self._fit()
        return index0 + (host_s - host0) * self.rate_hz / (1 + drift)

    @property
    def drift_ppm(self) -> float:
        """How much faster the device counts than nominally, parts per million of host time."""
        return (1 / (1 + self._fit()[2]) - 1) * 1e6

    @property
    def jitter_s(self) -> float:
        """Scatter of the observations about the line: 1.4826 times their median absolute residual, seconds."""
        return self._fit()[3]

    def _fit(self) -> tuple[float, float, float, float]:
        """(index0, host0, drift, scale): host = host0 + (index - index0) / rate * (1 + drift)."""
        if self._line is None:
            if not self._count:
                raise WorldError("This clock has observed nothing yet; call observe first.")
            recent = np.arange(max(0, self._count - len(self._index)), self._count) % len(self._index)
            index, host = self._index[recent], self._host[recent]
            kept = index >= index[-1] - self.window_s * self.rate_hz
            index, host = index[kept], host[kept]
            index0, origin = float(index[-1]), float(host[-1])
            nominal = (index - index0) / self.rate_hz
            offset, drift, scale = _huber_line(nominal, host - origin - nominal, self._known_drift)
            self._line = (index0, origin + offset, drift, scale)
        return self._line


def _huber_line(x: np.ndarray, y: np.ndarray, prior: float) -> tuple[float, float, float]:
    """(offset, slope, scale) of y = offset + slope * x by Huber's weights, the slope drawn to `prior`."""
    offset, slope, scale = float(np.median(y - prior * x)), prior, LEAST_SCALE_S
    for _ in range(ITERATIONS):
        residual = np.abs(y - offset - slope * x)
        scale = max(1.4826 * float(np.median(residual)), LEAST_SCALE_S)
        weight = np.minimum(1.0, HUBER_K * scale / np.maximum(residual, 1e-12))
        pull = (scale / DRIFT_PRIOR) ** 2
        total, mean_x, mean_y = weight.sum(), np.average(x, weights=weight), np.average(y, weights=weight)
        spread = (weight * (x - mean_x) ** 2).sum() + pull
        slope_new = float(((weight * (x - mean_x) * (y - mean_y)).sum() + pull * prior) / spread)
        offset_new = float(mean_y - slope_new * mean_x)
        settled = abs(offset_new - offset) < 1e-7 and abs(slope_new - slope) < 1e-9
        offset, slope = offset_new, slope_new
        if settled or total <= 0:
            break
    return offset, slope, scale
