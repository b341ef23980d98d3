"""The page's camera and microphone: mailboxes fed as a page feeds them, in blocks with the page's own time stamps."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from devmind.errors import StaleReading
from devmind.sessions.messages import as_s16
from devmind.testing import check_sensor
from sensors.browser import LARGEST_BYTES, BrowserCamera, BrowserMicrophone

PAGE_S = 5000.0
"""What the page's clock shows when ours shows 0."""


def jpeg(grey):
    import cv2

    return cv2.imencode(".jpg", np.full((48, 64, 3), (200, grey, grey), np.uint8))[1].tobytes()


class Page:
    """Feeds a mailbox from its own thread, as a server does."""

    def __init__(self, box):
        self.box, self._stop = box, threading.Event()

    def __getattr__(self, name):
        return getattr(self.box, name)

    def __enter__(self):
        self.box.__enter__()
        self._stop.clear()
        threading.Thread(target=self._feed, daemon=True).start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        self.box.__exit__(*error)

    def _feed(self):
        tick, begun = 0, time.monotonic()
        while not self._stop.wait(max(0, begun + tick * 0.03 - time.monotonic())):
            at_s = begun + tick * 0.03 + PAGE_S
            self.box.accept("image/jpeg", jpeg(tick % 200), at_s)
            self.box.accept("audio/s16;rate=16000", np.full(480, tick, "<i2").tobytes(), at_s)
            tick += 1


def test_mailboxes_keep_the_laws_of_sensors():
    check_sensor(lambda: Page(BrowserCamera()))
    check_sensor(lambda: Page(BrowserMicrophone()))


def test_each_mailbox_accepts_only_its_own_kinds():
    with BrowserCamera() as camera, BrowserMicrophone() as microphone:
        assert camera.accept("image/jpeg", jpeg(10), 1.0)
        assert not camera.accept("audio/s16;rate=16000", bytes(64), 1.0)
        assert microphone.accept("audio/s16;rate=16000", bytes(64), 1.0)
        assert not microphone.accept("image/jpeg", jpeg(10), 1.0)
        frame, _ = camera.read_latest(5.0)
        assert frame[20, 20].astype(int) == pytest.approx([10, 10, 200], abs=6)


def test_a_closed_mailbox_accepts_nothing():
    camera = BrowserCamera()
    camera.accept("image/jpeg", jpeg(10), 1.0)
    with camera, pytest.raises(StaleReading):
        camera.read_latest(5.0)


def test_capture_times_follow_the_page_and_not_the_network(monkeypatch):
    """Frames captured every 50 ms arrive with delays of 0 to 30 ms, and a few 300 ms late."""
    rng, now = np.random.default_rng(0), [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    errors, delays = [], []
    with BrowserCamera() as camera:
        arrived = 0.0
        for k in range(200):
            made = 100 + k * 0.05
            delay = rng.uniform(0, 0.03) + (0.3 if rng.random() < 0.05 else 0)
            now[0] = arrived = max(arrived, made + delay)
            camera.accept("image/jpeg", jpeg(0), made + PAGE_S)
            delays.append(arrived - made)
            errors.append(camera.read_latest(5.0)[1] - made)
    assert max(delays[50:]) > 0.25
    assert max(errors[50:]) < 0.05, "only the usual delay stays in"
    assert min(errors) >= 0


def test_a_reloaded_page_restarts_its_clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with BrowserCamera() as camera:
        for page_s in (5000.0, 5000.1, 5000.2, 0.1, 0.2):
            now[0] += 0.1
            camera.accept("image/jpeg", jpeg(0), page_s)
            assert camera.read_latest(5.0)[1] == pytest.approx(now[0], abs=0.01)


def test_sound_is_resampled_and_a_gap_is_stale(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    tone = (8000 * np.sin(2 * np.pi * 440 * np.arange(96_000) / 48_000)).astype("<i2")
    with BrowserMicrophone() as microphone:
        for block in range(100):
            if 50 <= block < 60:
                continue  # 0.2 s never arrive
            now[0] = 100 + (block + 1) * 0.02
            part = tone[block * 960 : (block + 1) * 960]
            microphone.accept("audio/s16;rate=48000", part.tobytes(), PAGE_S + block * 0.02)
        heard = microphone.read_window(100.3, 100.8)
        assert heard.shape == (1, 8000)
        assert np.argmax(np.abs(np.fft.rfft(heard[0] * np.hanning(8000)))) * 2 == pytest.approx(440, abs=2)
        assert microphone.drops == pytest.approx(3200, abs=2)
        for window in ((100.9, 101.1), (101.05, 101.15)):
            with pytest.raises(StaleReading, match="lost"):
                microphone.read_window(*window)
        assert microphone.read_window(101.4, 101.6).std() > 0.1


def test_loud_sound_of_a_page_stays_within_full_scale(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    square = (32_767 * np.sign(np.sin(2 * np.pi * 700 * np.arange(48_000) / 48_000 + 0.1))).astype("<i2")
    with BrowserMicrophone() as microphone:
        for block in range(50):
            now[0] = 100 + (block + 1) * 0.02
            part = square[block * 960 : (block + 1) * 960]
            microphone.accept("audio/s16;rate=48000", part.tobytes(), PAGE_S + block * 0.02)
        heard = microphone.read_window(100.3, 100.8)
    assert 0.9 < np.abs(heard).max() <= 1
    assert as_s16(heard) is not None, "a recording keeps it as plain PCM"


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("image/jpeg", b"this is no picture"),
        ("image/jpeg", b""),
        ("image/png", bytes(LARGEST_BYTES + 1)),
        ("audio/s16;rate=16000", b"odd"),
        ("audio/s16;rate=16000", bytes(80_000)),
        ("audio/s16;rate=99", bytes(64)),
        ("audio/s16;rate=²³", bytes(64)),
        ("audio/s16", bytes(64)),
    ],
)
def test_invalid_data_are_dropped_and_counted(kind, data):
    with BrowserCamera() as camera, BrowserMicrophone() as microphone:
        assert camera.accept(kind, data, 1.0) or microphone.accept(kind, data, 1.0)
        assert camera.drops + microphone.drops == 1
        assert "The page sent" in camera.health.fault + microphone.health.fault
