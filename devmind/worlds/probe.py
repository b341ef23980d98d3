"""Watch sensors for some seconds: their rate, jitter, missing share, and the skew between two of them.

Skew is measured as with a clapperboard: events that are seen and heard at once (a clap, a flash with a click) are
found in both sensors, and their times are compared.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from devmind.errors import StaleReading, without_secrets
from devmind.worlds.reading import read_latest, read_window

POLL_S = 0.005
WINDOW_S = 0.1
LAG_S = 0.3
"""Windows are read this much later, as the probe measures whether they are complete, not how soon they come."""
FIRST_S = 5.0
RISE_S = 0.005
APART_S = 0.3
TOGETHER_S = 0.5


@dataclass
class Probed:
    """The readings of one sensor.

    Attributes:
        times: when its frames were captured, time.monotonic() seconds.
        changes: mean change of the picture from the frame before, 0..1, one for each time.
        windows: (start, samples float32 [C, S]) of complete windows.
        asked: readings that were due; of series, windows.
        frame: the newest frame.
        fault: why nothing came, or the sensor's last fault; '' if there is none.
    """

    name: str
    sense: str
    times: list[float] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)
    windows: list[tuple[float, np.ndarray]] = field(default_factory=list)
    asked: int = 0
    frame: np.ndarray | None = None
    drops: int = 0
    drift_ppm: float = float("nan")
    fault: str = ""

    @property
    def works(self) -> bool:
        """Whether anything came."""
        return bool(self.times or self.windows)

    @property
    def capture_hz(self) -> float:
        """Frames a second; nan for series and before the second frame."""
        return (len(self.times) - 1) / (self.times[-1] - self.times[0]) if len(self.times) > 1 else float("nan")

    @property
    def jitter_s(self) -> float:
        """The 90th percentile of the distance of pauses between frames from their median, seconds."""
        pauses = np.diff(self.times)
        return float(np.quantile(np.abs(pauses - np.median(pauses)), 0.9)) if len(pauses) > 1 else float("nan")

    @property
    def missing(self) -> float:
        """The share of incomplete windows; nan for frames."""
        return 1 - len(self.windows) / self.asked if self.asked else float("nan")

    @property
    def level_dbfs(self) -> float:
        """The loudness of all windows: root mean square, 0 dB for a full-scale square wave; -inf for silence."""
        if not self.windows:
            return float("nan")
        power = float(np.mean([np.mean(samples**2) for _, samples in self.windows]))
        return 10 * float(np.log10(power)) if power > 0 else float("-inf")


def probe(sensors: Mapping[str, Any], seconds: float) -> dict[str, Probed]:
    """Watch open sensors for `seconds`, once each has given its first reading (at most FIRST_S later).

    Raises:
        SensorError: a sensor failed, or gave another array than it promises.
    """
    found = {name: Probed(name, sensor.sense) for name, sensor in sensors.items()}
    _wait_for_first(sensors)
    begun = time.monotonic()
    before = {name: sensor.drops for name, sensor in sensors.items()}
    shown: dict[str, np.ndarray] = {}
    over = False
    while not over:
        now = time.monotonic()
        over = now >= begun + seconds + LAG_S
        for name, sensor in sensors.items():
            if hasattr(sensor, "read_latest") and now < begun + seconds:
                _look(sensor, found[name], shown)
            if hasattr(sensor, "read_window"):
                _listen(sensor, found[name], begun, min(now - LAG_S, begun + seconds))
        time.sleep(POLL_S)
    for name, sensor in sensors.items():
        found[name].drops = sensor.drops - before[name]
        found[name].drift_ppm = float(getattr(sensor, "drift_ppm", float("nan")))
        found[name].fault = without_secrets(getattr(getattr(sensor, "health", None), "fault", "") or found[name].fault)
    return found


def _wait_for_first(sensors: Mapping[str, Any]) -> None:
    waiting, until = dict(sensors), time.monotonic() + FIRST_S
    while waiting and time.monotonic() < until:
        for name, sensor in list(waiting.items()):
            now = time.monotonic()
            try:
                if hasattr(sensor, "read_latest"):
                    read_latest(sensor, FIRST_S)
                else:
                    read_window(sensor, now - LAG_S - WINDOW_S, now - LAG_S)
                del waiting[name]
            except StaleReading:
                pass
        time.sleep(POLL_S)


def _look(sensor: Any, found: Probed, shown: dict[str, np.ndarray]) -> None:
    try:
        frame, at_s = read_latest(sensor, 1.0)
    except StaleReading as error:
        found.fault = found.fault or str(error)
        return
    if found.times and at_s <= found.times[-1]:
        return
    small = np.atleast_3d(frame)[::8, ::8].mean(2) / 255
    last = shown.get(found.name)
    found.times.append(at_s)
    found.changes.append(float(np.abs(small - last).mean()) if last is not None and last.shape == small.shape else 0.0)
    found.frame, found.fault, shown[found.name] = frame, "", small


def _listen(sensor: Any, found: Probed, begun: float, until_s: float) -> None:
    while (start_s := begun + found.asked * WINDOW_S) + WINDOW_S <= until_s + 1e-6:
        found.asked += 1
        try:
            found.windows.append((start_s, read_window(sensor, start_s, start_s + WINDOW_S)))
        except StaleReading as error:
            found.fault = str(error)


def skew_s(camera: Probed, microphone: Probed, rate_hz: float) -> tuple[float, int] | None:
    """How much later events are heard than seen, seconds (median), and the number of events; None without any.

    Args:
        camera: readings of a sensor of frames.
        microphone: readings of a sensor of series, `rate_hz` samples a second.
    """
    seen = _onsets(np.array(camera.times), np.array(camera.changes), least=0.02)
    heard = _onsets(*_rises(microphone, rate_hz), least=0.02)
    pairs = [
        at_s - nearest
        for at_s in heard
        if len(seen) and abs(at_s - (nearest := seen[np.argmin(np.abs(seen - at_s))])) <= TOGETHER_S
    ]
    return (float(np.median(pairs)), len(pairs)) if pairs else None


def _rises(found: Probed, rate_hz: float) -> tuple[np.ndarray, np.ndarray]:
    """(times, rises): how far the loudness of 5 ms exceeds that of the loudest of the 5 before."""
    size = round(RISE_S * rate_hz)
    times: list[np.ndarray] = [np.zeros(0)]
    rises: list[np.ndarray] = [np.zeros(0)]
    for start_s, samples in found.windows:
        parts = samples[:, : samples.shape[1] // size * size].reshape(samples.shape[0], -1, size)
        times.append(start_s + np.arange(parts.shape[1]) * RISE_S)
        rises.append(np.sqrt((parts**2).mean((0, 2))))
    loud = np.concatenate(rises)
    floor = np.max([np.concatenate([np.full(k, np.inf), loud[:-k]])[: len(loud)] for k in range(1, 6)], axis=0)
    return np.concatenate(times), np.maximum(loud - floor, 0)


def _onsets(times: np.ndarray, strength: np.ndarray, least: float) -> np.ndarray:
    """Times of onsets above half of the strongest, if that one is above 8 medians; of close ones the first."""
    if not len(times) or strength.max() < max(least, 8 * np.median(strength)):
        return np.zeros(0)
    clear = times[strength > 0.5 * strength.max()]
    return clear[np.diff(clear, prepend=-np.inf) > APART_S]
