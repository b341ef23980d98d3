"""The webcam with OpenCV's own VideoCapture on an MJPEG stream from loopback: cut, restored, slow, corrupt."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from devmind.errors import StaleReading
from devmind.testing import check_sensor
from sensors import device
from sensors.webcam import Webcam


def until(holds, seconds=10.0):
    """Wait until `holds()` is true."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"did not come true within {seconds} s"
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(device, "FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(device, "LONGEST_PAUSE_S", 0.2)


def test_the_webcam_keeps_its_laws(camera):
    check_sensor(lambda: Webcam(camera.url))


def test_frames_are_rgb_in_order_and_dated_at_capture(camera):
    with Webcam(camera.url) as webcam:
        until(lambda: webcam.sequence >= 10)
        for _ in range(5):  # a machine that waits for a core is slow once; a wrong date is wrong each time
            ages, numbers = [], []
            for _ in range(20):
                frame, at_s = webcam.read_latest(2.0)
                numbers.append(int(frame[:40, :40].mean().round()))
                ages.append(at_s - camera.sent[min(camera.sent, key=lambda k: abs(k % 250 - numbers[-1]))])
                time.sleep(0.02)
            if -0.1 < np.median(ages) < 0.3:
                break
        assert (frame.dtype, frame.shape) == (np.uint8, (120, 160, 3))
        assert frame[100, 140].astype(int) == pytest.approx([30, 30, 200], abs=6)
        assert numbers == sorted(numbers)
        assert -0.1 < np.median(ages) < 0.3
        until(lambda: 15 < webcam.health.capture_hz < 45, 60)
        assert webcam.drops == 0


def test_a_cut_camera_is_stale_until_it_comes_back(camera):
    with Webcam(camera.url) as webcam:
        for cut in range(2):
            until(lambda: webcam.sequence >= 3)
            camera.mood = "cut"
            until(lambda: webcam.health.fault)
            time.sleep(0.1)
            with pytest.raises(StaleReading, match=r"127\.0\.0\.1") as caught:
                webcam.read_latest(0.1)
            assert "s3cret" not in str(caught.value)
            before = webcam.sequence
            camera.mood = "well"
            until(lambda before=before: webcam.sequence > before)
            assert webcam.health.reconnects == cut + 1
            assert webcam.read_latest(5.0)[1] > time.monotonic() - 5.0
        assert webcam.health.fault == ""


def test_a_slow_camera_never_slows_the_reader(camera):
    with Webcam(camera.url) as webcam:
        until(lambda: webcam.sequence >= 3)
        camera.mood = "slow"
        # For a second instead of a number of reads: a fast machine reads 2,000 times within one millisecond.
        end, stale, reads = time.monotonic() + 1.0, 0, 0
        while time.monotonic() < end:
            reads += 1
            try:
                webcam.read_latest(0.001)
            except StaleReading:
                stale += 1
        assert reads > 100, "a reader that waits for a camera with 2.5 frames a second reads three times"
        assert stale > reads / 2, "nearly all the time the newest frame is older than a millisecond"
        assert webcam.read_latest(3.0)[1] < time.monotonic()


def test_corrupt_frames_are_dropped_and_counted(camera):
    with Webcam(camera.url) as webcam:
        until(lambda: webcam.sequence >= 3)
        camera.mood = "noise"
        until(lambda: webcam.drops >= 4)
        frame, _ = webcam.read_latest(3.0)
        assert frame[100, 140].astype(int) == pytest.approx([30, 30, 200], abs=6)
        camera.mood = "well"
        before = webcam.sequence
        until(lambda: webcam.sequence > before + 5)


def test_closing_does_not_wait_for_a_hanging_camera(camera, monkeypatch):
    import cv2

    hangs = threading.Event()

    class Hanging:
        def __init__(self, *words):
            pass

        def isOpened(self):  # noqa: N802
            return True

        def grab(self):
            return not hangs.wait(20)

        def retrieve(self):
            return False, None

        def release(self):
            pass

    monkeypatch.setattr(cv2, "VideoCapture", Hanging)
    monkeypatch.setattr(device, "RELEASE_S", 0.1)
    begun = time.monotonic()
    with Webcam(camera.url):
        time.sleep(0.05)
    assert time.monotonic() - begun < 5
    hangs.set()


def test_a_missing_camera_is_stale_with_the_reason():
    with Webcam(97) as webcam:
        until(lambda: webcam.health.fault)
        with pytest.raises(StaleReading, match="camera '97'"):
            webcam.read_latest(1.0)


def test_a_video_file_works_as_a_camera(tmp_path):
    import cv2

    path = tmp_path / "film.mp4"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), 50, (96, 64))
    for grey in range(20):
        writer.write(np.full((64, 96, 3), 5 * grey, np.uint8))
    writer.release()
    with Webcam(str(path)) as webcam:
        until(lambda: webcam.sequence > 5)
        assert webcam.health.capture_hz < 60


def test_an_address_without_video_says_what_it_is(tmp_path):
    class Pages(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/page" else 404)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<p>no video</p>")

        def log_message(self, format, *args):
            pass

    (tmp_path / "text.py").write_text("print()")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        for source, said in (
            (f"{address}/page", f"'{address}/page' gives no video: what answers there is text/html."),
            (f"{address}/gone", f"'{address}/gone' gives no video: the answer there is 404 Not Found."),
            (str(tmp_path / "text.py"), "is not a readable video."),
        ):
            with Webcam(source) as webcam:
                until(lambda webcam=webcam: webcam.health.fault)
                assert said in webcam.health.fault
    finally:
        server.shutdown()
        server.server_close()
