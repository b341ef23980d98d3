"""Shared parts of sensors: the newest frame, the ring of samples with its own clock, the thread behind a device."""

from __future__ import annotations

import itertools
import threading
import time
from typing import ClassVar

import numpy as np
import pytest

from devmind.errors import StaleReading
from sensors import device
from sensors.frames import Health, NewestFrame
from sensors.series import TimedRing

RATE_HZ = 16_000
BLOCK = 320
T0 = 1000.0


@pytest.fixture
def ring() -> TimedRing:
    return TimedRing("ear", Health(), RATE_HZ)


def fill(ring, seconds, drift_ppm=0.0, start=0, from_s=T0, late=lambda index: 0.0):
    """Append blocks whose samples are their own indices, with a drifting clock; return the next index."""
    for index in range(start, start + int(seconds * RATE_HZ), BLOCK):
        block = np.arange(index, index + BLOCK, dtype=np.float32)[None]
        end_s = from_s + (index + BLOCK - start) / (RATE_HZ * (1 + drift_ppm * 1e-6))
        ring.append(block, end_s + late(index))
    return start + int(seconds * RATE_HZ)


def test_a_window_holds_exactly_its_samples(ring):
    fill(ring, 2)
    window = ring.read_window(T0 + 1.0, T0 + 1.1)
    assert window.dtype == np.float32
    assert window.tolist() == [list(range(16_000, 17_600))]


def test_consecutive_windows_lose_and_repeat_nothing(ring):
    """Writing and reading alternate and the ring wraps around; 100 ppm of drift cost one sample in 10,000."""
    index, ends = 0, []
    for tick in range(300):
        index = fill(ring, 0.1, drift_ppm=100, start=index, from_s=T0 + index / (RATE_HZ * 1.0001))
        if tick >= 2:
            window = ring.read_window(T0 + (tick - 1) / 10, T0 + tick / 10)[0]
            assert np.array_equal(np.diff(window), np.ones(1599)), "samples inside a window are consecutive"
            ends.append((window[0], window[-1]))
    jumps = [after[0] - before[1] - 1 for before, after in itertools.pairwise(ends)]
    assert sum(jumps) == pytest.approx(0.16 * len(jumps), abs=8)
    assert max(map(abs, jumps)) <= 8  # half a millisecond, while the first fits settle
    assert ring.drift_ppm == pytest.approx(100, abs=20)


def test_drift_is_reported_only_once_it_can_be_known(ring):
    assert np.isnan(ring.drift_ppm)
    index = fill(ring, 10, drift_ppm=100)
    assert np.isnan(ring.drift_ppm)
    fill(ring, 20, drift_ppm=100, start=index, from_s=T0 + 10 / 1.0001)
    assert ring.drift_ppm == pytest.approx(100, abs=20)


def test_late_callbacks_shift_samples_by_at_most_5_ms(ring):
    rng = np.random.default_rng(0)
    fill(ring, 8, drift_ppm=100, late=lambda index: rng.choice([0, 0.3], p=[0.9, 0.1]) + abs(rng.normal(0, 0.002)))
    at_s = 6.0
    truth = at_s * RATE_HZ * 1.0001
    assert abs(ring.read_window(T0 + at_s, T0 + at_s + 0.1)[0, 0] - truth) < 0.005 * RATE_HZ


def test_a_window_reads_the_same_after_the_clock_is_refitted(ring):
    rng = np.random.default_rng(1)
    index = fill(ring, 1, late=lambda i: rng.uniform(0, 0.02))
    first = ring.read_window(T0 + 0.7, T0 + 0.8)
    fill(ring, 3, start=index, from_s=T0 + 1, late=lambda i: rng.uniform(0, 0.02))
    assert np.array_equal(ring.read_window(T0 + 0.7, T0 + 0.8), first)


def test_lost_samples_are_detected_by_the_clock_and_make_a_window_stale(ring):
    """Sound servers lose samples without setting a flag: 0.4 s are missing after the first two seconds."""
    index = fill(ring, 2)
    fill(ring, 0.3, start=index, from_s=T0 + 2.4)
    with pytest.raises(StaleReading, match="so late that some"):
        ring.read_window(T0 + 1.95, T0 + 2.05)
    fill(ring, 1.7, start=index + 4800, from_s=T0 + 2.7)
    assert ring.health.drops == pytest.approx(0.4 * RATE_HZ, abs=10)
    for window in ((1.95, 2.05), (2.1, 2.2), (2.35, 2.45)):
        with pytest.raises(StaleReading, match="lost"):
            ring.read_window(T0 + window[0], T0 + window[1])
    assert ring.read_window(T0 + 1.8, T0 + 1.9)[0, 0] == 1.8 * RATE_HZ
    assert ring.read_window(T0 + 3.0, T0 + 3.1)[0, 0] == pytest.approx(index + 0.6 * RATE_HZ, abs=2)


def test_a_reported_gap_counts_at_once(ring):
    index = fill(ring, 1)
    ring.append(np.zeros((1, BLOCK), np.float32), T0 + 1.02, gap=True)
    with pytest.raises(StaleReading, match="lost"):
        ring.read_window(T0 + 0.95, T0 + 1.01)
    fill(ring, 0.5, start=index + BLOCK, from_s=T0 + 1.02)
    ring.read_window(T0 + 1.1, T0 + 1.2)


@pytest.mark.parametrize(
    ("window", "said"),
    [((20, 20.1), "still to come"), ((-5, -4.9), "before the sensor was opened"), ((0.5, 0.6), "older than the 10 s")],
)
def test_unavailable_windows_are_stale(ring, window, said):
    fill(ring, 12)
    with pytest.raises(StaleReading, match=said):
        ring.read_window(T0 + window[0], T0 + window[1])


def test_an_empty_or_cleared_ring_says_that_nothing_came(ring):
    with pytest.raises(StaleReading, match="nothing came yet"):
        ring.read_window(T0, T0 + 0.1)
    fill(ring, 1)
    ring.clear()
    with pytest.raises(StaleReading, match="nothing came yet"):
        ring.read_window(T0 + 0.5, T0 + 0.6)


def test_a_newer_frame_replaces_the_older_and_an_older_one_is_dropped():
    slot = NewestFrame("eye", Health())
    now = time.monotonic()
    slot.put(np.full((2, 2, 3), 1, np.uint8), now - 0.2)
    slot.put(np.full((2, 2, 3), 2, np.uint8), now)
    slot.put(np.full((2, 2, 3), 3, np.uint8), now - 0.1)
    frame, at_s = slot.read_latest(5)
    assert (frame[0, 0, 0], at_s, slot.sequence, slot.health.drops) == (2, now, 2, 1)
    with pytest.raises(ValueError, match="read-only"):
        frame[:] = 0


def test_a_stale_frame_says_its_age():
    slot = NewestFrame("eye", Health())
    slot.put(np.zeros((1, 1, 3), np.uint8), time.monotonic() - 3)
    with pytest.raises(StaleReading, match=r"3\.\d+ s old, and at most 0.5 s is allowed"):
        slot.read_latest(0.5)


def test_health_measures_rate_and_jitter():
    health = Health()
    assert np.isnan(health.capture_hz)
    for k in range(100):
        health.captured(k / 30 + (0.005 if k % 2 else 0))
    assert health.capture_hz == pytest.approx(30, rel=0.01)
    assert health.jitter_s == pytest.approx(0.01, abs=0.002)


class Lamp(device.Device):
    """A device that fails after three captures, `faults` times; with `hangs`, its read blocks until that event."""

    def __init__(self, faults=0, hangs=None):
        super().__init__("lamp")
        self.faults, self.hangs, self.opened, self.closed, self.kept = faults, hangs, 0, 0, 0
        self.done = threading.Event()

    def _open(self):
        self.opened += 1
        return iter(range(3 if self.opened <= self.faults else 10**9))

    def _read(self, handle, stop):
        if self.hangs:
            self.hangs.wait(30)
        value = next(handle, None)
        if value is None:
            raise OSError("The lamp went out.")
        time.sleep(0.001)
        return value

    def _keep(self, capture):
        self.kept += 1
        self.health.captured(time.monotonic())
        if self.opened > self.faults:
            self.done.set()

    def _close(self, handle):
        self.closed += 1

    def _forget(self):
        pass


def test_a_failed_device_is_reopened(monkeypatch):
    monkeypatch.setattr(device, "FIRST_PAUSE_S", 0.01)
    with Lamp(faults=2) as lamp:
        assert lamp.done.wait(10)
    assert (lamp.opened, lamp.closed, lamp.health.reconnects) == (3, 3, 2)


def test_pauses_grow_while_a_device_is_absent_and_begin_anew_after_a_capture():
    class Seldom(Lamp):
        def _open(self):
            self.opened += 1
            if self.opened != 8:
                raise OSError("There is no lamp.")
            return iter(range(1))

    class Stop(threading.Event):
        """Notes the pauses, and ends the tenth."""

        pauses: ClassVar[list[float]] = []

        def wait(self, timeout=None):
            self.pauses.append(timeout)
            return len(self.pauses) == 10

    lamp = Seldom()
    lamp._run(Stop())
    assert Stop.pauses == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 0.2, 0.4, 0.8])
    assert (lamp.opened, lamp.kept, lamp.closed) == (10, 1, 1)
    assert lamp.health.fault == "There is no lamp."


def test_closing_does_not_wait_for_a_hanging_device(monkeypatch):
    monkeypatch.setattr(device, "RELEASE_S", 0.05)
    lamp = Lamp(hangs=threading.Event())
    with lamp:
        until = time.monotonic() + 30
        while not lamp.opened and time.monotonic() < until:
            time.sleep(0.01)
    assert "did not release" in lamp.health.fault
    assert lamp.closed == 0
    lamp.hangs.set()
    for _ in range(500):
        if lamp.closed:
            break
        time.sleep(0.01)
    assert lamp.closed == 1
    assert lamp.kept == 0, "what a hanging device gives after closing is nobody's"
