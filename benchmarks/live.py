"""The live loop under load: what a tick costs, skipped ticks with their reasons, and the growth of memory.

    python benchmarks/live.py --minutes 10 [--learn] [--memories 10000 --recall always] [--agent DIR]

The camera sends MJPEG, 640x480 at 30 frames a second, from another process over loopback; the microphone is synthetic,
or this machine's with `--mic default`. The page is served and watched. The measured life runs in its own process,
through the same `open_life` as `devmind live`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from devmind.raised import FOLDER

FPS, HEIGHT, WIDTH = 30, 480, 640
RECALL: dict[str, dict[str, Any]] = {
    "off": {"recalled": 0, "keep": "never"},
    "shown": {},
    "always": {"use": "always"},
}
"""What a life does with its memory; with `always` it also steps with what is recalled, whatever the agent learned."""


class _Camera(BaseHTTPRequestHandler):
    frames: ClassVar[list[bytes]] = []

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
        self.end_headers()
        begun_s, number = time.monotonic(), 0
        while True:
            data = self.frames[number % len(self.frames)]
            try:
                self.wfile.write(
                    b"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % len(data) + data
                )
            except OSError:
                return
            number += 1
            time.sleep(max(0.0, begun_s + number / FPS - time.monotonic()))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def serve_camera(port: Any) -> None:
    """Serve an endless stream of a ball that circles over noise."""
    import cv2

    rng = np.random.default_rng(0)
    noise = rng.integers(60, 120, (HEIGHT, WIDTH, 3), np.uint8)
    for k in range(3 * FPS):
        angle = 2 * np.pi * k / (3 * FPS)
        place = (int(WIDTH / 2 + 200 * np.cos(angle)), int(HEIGHT / 2 + 150 * np.sin(angle)))
        frame = cv2.circle(noise.copy(), place, 40, (30, 30, 220), -1)
        _Camera.frames.append(cv2.imencode(".jpg", frame)[1].tobytes())
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Camera)
    server.daemon_threads = True
    port.value = server.server_address[1]
    server.serve_forever()


@contextmanager
def camera() -> Iterator[str]:
    """The address of the stream."""
    spawn = multiprocessing.get_context("spawn")
    port = spawn.Value("i", 0)
    process = spawn.Process(target=serve_camera, args=(port,), daemon=True)
    process.start()
    while not port.value:
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{port.value}/x.mjpg"
    finally:
        process.kill()
        process.join()


def child(given: argparse.Namespace) -> None:
    """Live and print JSON lines: the page's address, each tick's time, and a summary."""
    from devmind.cli.devices import ear
    from devmind.config import LiveConfig, MemoryConfig
    from devmind.live.opening import open_life
    from devmind.live.options import LiveOptions
    from devmind.plugins import load

    config = LiveConfig(memory=MemoryConfig(**RECALL[given.recall]), learn=given.learn)
    if given.memories:
        remember(given.agent, given.folder / "memory", given.memories)
    sensors = {"camera": load("sensors", "webcam")(given.camera), "microphone": ear(given.mic)}
    opened = ExitStack()
    for sensor in sensors.values():
        opened.enter_context(sensor)
    options = LiveOptions(given.agent, sensors, None, given.folder / "memory", given.folder / "s.mcap", config=config)
    with opened, open_life(options) as (life, server):
        assert server is not None
        print(json.dumps({"address": server.address, "key": server.guard.key}), flush=True)
        life.loop.watchers["benchmark"] = lambda tick: print(json.dumps({"at_s": time.monotonic()}), flush=True)
        summary = life.run(60 * given.minutes)
        handed, kept = life.learner.handed_over if life.learner else 0, life.recalling.written
    end = {"ticks": summary.ticks, "skipped": summary.skipped, "late": dict(summary.late), "missing": summary.missing}
    end |= {"work_ms": _quantiles(summary.work_s), "busy_ms": _quantiles(summary.busy_s), "handed_over": handed}
    print(json.dumps(end | {"kept": kept, "recalling": life.recalling.fault}), flush=True)


def remember(agent: Path, folder: Path, count: int) -> None:
    """Fill a memory with Moments of noise, under keys of the agent's encoders, as after a long life."""
    from devmind.agent.agent import Agent
    from devmind.agent.describing import encoder_hashes
    from devmind.memory import Entry, Key, open_store

    hashes, rng = encoder_hashes(Agent.from_pretrained(agent)), np.random.default_rng(0)
    with open_store(folder) as store:
        for start in range(0, count, 500):
            entries = []
            for _ in range(min(500, count - start)):
                keys = rng.normal(size=(2, 64)).astype(np.float32)
                keys /= np.linalg.norm(keys, axis=1, keepdims=True)
                senses = {
                    "sight": rng.integers(0, 256, (64, 64, 3), dtype=np.uint8),
                    "sound": rng.normal(0, 0.1, (1, 1600)).astype(np.float32),
                }
                named = {sense: Key(keys[at], hashes[sense]) for at, sense in enumerate(("sight", "sound"))}
                entries.append(Entry(time.time() - rng.uniform(0, 1e6), 0.1, None, named, senses))
            store.add(entries)


def _quantiles(seconds: Iterable[float]) -> dict[str, float]:
    return {f"p{100 * q:g}": round(1e3 * float(np.quantile(list(seconds), q)), 1) for q in (0.5, 0.9, 0.99, 1.0)}


class Living:
    """A child process and the lines that it printed."""

    def __init__(self, given: argparse.Namespace, address: str, folder: Path) -> None:
        words = [f"--{name}={getattr(given, name)}" for name in ("mic", "agent", "minutes", "memories", "recall")]
        words += [f"--camera={address}", f"--folder={folder}", *["--learn"] * given.learn]
        self.process = subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True)
        self.said: list[dict[str, Any]] = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{") and line.endswith("}\n"):
                self.said.append(json.loads(line))

    def wait_for(self, key: str, patience_s: float = 120.0) -> Any:
        """The first value printed under `key`."""
        until_s = time.monotonic() + patience_s
        while time.monotonic() < until_s:
            for what in list(self.said):
                if key in what:
                    return what[key]
            if self.process.poll() is not None and not self.reader.is_alive():
                raise SystemExit(f"The life ended with code {self.process.returncode} before it said '{key}'.")
            time.sleep(0.05)
        raise SystemExit(f"The life did not say '{key}' within {patience_s:g} s.")

    def resident_mb(self) -> float:
        """Resident memory of the process."""
        text = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return int(text[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def watch(address: str, key: str, stop: threading.Event, seen: list[int]) -> None:
    """A viewer of the page, like a browser."""
    import http.client
    from urllib.parse import urlsplit

    from websockets.sync.client import connect

    where = urlsplit(address)
    link = http.client.HTTPConnection(where.hostname or "", where.port)
    link.request("GET", f"{where.path}?{where.query}")
    cookie = (link.getresponse().getheader("Set-Cookie") or "").partition(";")[0]
    origin = f"http://{where.netloc}"
    with connect(f"ws://{where.netloc}/ws", origin=origin, additional_headers={"Cookie": cookie}) as socket:  # type: ignore[arg-type]
        socket.send(json.dumps({"key": key}))
        while not stop.is_set():
            try:
                seen.append(len(socket.recv(timeout=1)))
            except TimeoutError:
                continue
            except Exception:
                return


def ticks(given: argparse.Namespace) -> None:
    """Print quantiles of a tick's work, skipped ticks with their reasons, and the growth of memory."""
    seconds = 60 * given.minutes
    with camera() as address, tempfile.TemporaryDirectory() as folder:
        if given.tiny:
            from devmind.testing import tiny_agent
            from stages.reflex import parts

            given.agent, agent = Path(folder, "agent"), tiny_agent()
            parts.admit(agent)
            agent.eval().save_pretrained(given.agent)
        life = Living(given, address, Path(folder))
        stop, seen = threading.Event(), list[int]()
        page = life.wait_for("address", 300.0)
        threading.Thread(target=watch, args=(page, life.wait_for("key"), stop, seen), daemon=True).start()
        first = life.wait_for("at_s")
        memory: list[tuple[float, float]] = []
        while life.process.poll() is None and not any("busy_ms" in what for what in life.said):
            memory.append((time.monotonic() - first, life.resident_mb()))
            time.sleep(1)
        end = life.wait_for("busy_ms") and life.said[-1]
        stop.set()
        life.process.wait(30)
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.mcap"))
    late = np.array([(s, mb) for s, mb in memory if s >= min(60.0, seconds / 2)])
    slope = float(np.polyfit(late[:, 0] / 60, late[:, 1], 1)[0]) if len(late) > 2 else float("nan")
    print(f"{end['ticks']} ticks in {seconds:g} s, skipped {end['skipped']} ({end['late'] or 'none'})")
    print(f"encode and step, ms: {end['work_ms']}; the whole loop's work, ms: {end['busy_ms']}")
    print(f"memory {late[0, 1]:.0f} MB after a minute, {slope:+.2f} MB/min; {len(seen)} messages to the viewer")
    print(f"{end['kept']} Moments kept; missing {end['missing']}; {end['recalling'] or 'recall without errors'}")
    print(f"recorded {size / 1e6:.1f} MB; weights handed over {end['handed_over']} times")


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", type=Path, default=FOLDER)
    parser.add_argument("--mic", default="synthetic")
    parser.add_argument("--learn", action="store_true")
    parser.add_argument("--memories", type=int, default=0, help="Moments in memory before the life starts")
    parser.add_argument("--recall", choices=RECALL, default="shown")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--camera", help="address of a camera: be the measured life")
    parser.add_argument("--folder", type=Path, default=Path(), help="of the measured life")
    parser.add_argument("--tiny", action="store_true", help="only show that everything runs: a tiny life of 3 s")
    given = parser.parse_args()
    if given.tiny:
        given.minutes = 3 / 60
    (child if given.camera else ticks)(given)


if __name__ == "__main__":
    main()
