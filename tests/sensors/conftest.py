"""Shared fixtures: a network camera on a loopback socket, and a sound server of the tests' own."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SETTINGS = """load-module module-null-sink sink_name=air rate=48000 channels=1
load-module module-native-protocol-unix auth-anonymous=1 socket={socket}
set-default-sink air
set-default-source air.monitor
"""
QUIETLY = ("--exit-idle-time=-1", "--use-pid-file=no", "--disable-shm=yes", "--realtime=no", "--high-priority=no")


class MjpegCamera(ThreadingHTTPServer):
    """Sends frames whose upper left grey value is their number, as MJPEG like many network cameras.

    Attributes:
        mood: `well`, `slow` (a frame every 0.4 s), `noise` (parts that are no JPEG), `cut` (connections are closed, and
            new ones get an empty answer).
        sent: numbers of the frames sent, with the time of each.
        paths: the requested paths.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Camera)
        self.mood = "well"
        self.sent: dict[int, float] = {}
        self.paths: list[str] = []
        self._flash_until_s = 0.0

    def flash(self) -> None:
        """Make the lower part of frames white for a tenth of a second."""
        self._flash_until_s = time.monotonic() + 0.1

    @property
    def flashing(self) -> bool:
        """Whether the next frame shows the flash."""
        return time.monotonic() < self._flash_until_s

    @property
    def url(self) -> str:
        """The camera's address, with a password that no message may show."""
        return f"http://user:s3cret@127.0.0.1:{self.server_address[1]}/x.mjpg"


class _Camera(BaseHTTPRequestHandler):
    server: MjpegCamera

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
        self.end_headers()
        number = 0
        while self.server.mood != "cut":
            self._send(number)
            number += 1
            time.sleep(0.4 if self.server.mood == "slow" else 0.03)

    def _send(self, number: int) -> None:
        import cv2

        frame = np.full((120, 160, 3), 30, np.uint8)
        frame[:, :, 0] = 200  # blue, to tell RGB from BGR
        if self.server.flashing:
            frame[80:] = 255
        frame[:60, :80] = number % 250
        data = cv2.imencode(".jpg", frame)[1].tobytes()
        if self.server.mood == "noise" and number % 3:
            data = np.random.default_rng(number).integers(0, 256, 3000, dtype=np.uint8).tobytes()
        self.server.sent[number] = time.monotonic()
        head = f"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {len(data)}\r\n\r\n".encode()
        try:
            self.wfile.write(head + data + b"\r\n")
        except OSError:
            self.server.sent.pop(number)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@pytest.fixture
def camera() -> Iterator[MjpegCamera]:
    """A network camera on loopback."""
    with MjpegCamera() as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.mood = "cut"
        server.shutdown()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A sound server without a sound card: the microphone hears what is played."""
    pytest.importorskip("pyaudio", reason="needs the extra 'live' (make test-system)")
    if not (shutil.which("pulseaudio") and shutil.which("paplay")):
        pytest.skip("needs pulseaudio and paplay (make test-system)")
    base = tmp_path_factory.mktemp("pulse")
    socket, script = base / "native", base / "air.pa"
    script.write_text(SETTINGS.format(socket=socket))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("XDG_RUNTIME_DIR", base), ("HOME", base), ("PULSE_SERVER", f"unix:{socket}")):
            patch.setenv(name, str(value))
        patch.setenv("PULSE_LATENCY_MSEC", "60")
        command = ["pulseaudio", "-n", "-F", str(script), "--daemonize=no", *QUIETLY]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=dict(os.environ))
        try:
            until = time.monotonic() + 20
            while not socket.exists():
                assert process.poll() is None, "pulseaudio ended"
                assert time.monotonic() < until, "pulseaudio did not start within 20 s"
                time.sleep(0.05)
            yield base
        finally:
            process.terminate()
            process.wait(10)
