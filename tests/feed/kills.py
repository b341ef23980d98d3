"""A feed under attack: producers in processes of their own, a server that is killed and started again, connections that
are cut. Nothing may be lost, doubled or out of order. Run by `make attack`, and for a few seconds by `test_kills.py`.

    python -m tests.feed.kills --producers 4 --seconds 60 --kills 5
"""

from __future__ import annotations

import argparse
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from devmind.feed import spool
from devmind.feed.schema import decode, numbers

HERE = Path(__file__).parents[2]
PRODUCER = """
import sys, time
from pathlib import Path
import numpy as np
from devmind.feed import Client, Row
from devmind.moment import Action, Moment
address, token, name, seconds = sys.argv[1], Path(sys.argv[2]), sys.argv[3], float(sys.argv[4])
until, number = time.monotonic() + seconds, 0
with Client(address, name, token=token, unstored_bytes=1 << 22) as feed:
    while time.monotonic() < until:
        body = np.full(8, number, np.float32)
        moment = Moment(number / 10, {"body": body}, first=not number)
        feed.push([Row(0, moment, Action({"push": np.int64(number % 2)}))])
        number += 1
        if number % 50 == 0:
            time.sleep(0.01)
    feed.flush(120)
    print(number, feed.stored, feed.reconnects, flush=True)
"""


class Cutter:
    """Passes connections on to the server, and cuts them at random."""

    def __init__(self, port: int, seed: int) -> None:
        self.target, self.random = port, random.Random(seed)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self.cuts = self.listener.getsockname()[1], 0
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            self.pairs.append((near, far))
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    @staticmethod
    def _pass(one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(1 << 16):
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            end.close()

    def cut(self) -> None:
        """Cut one connection in the middle of whatever it carries."""
        if self.pairs:
            pair = self.pairs.pop(self.random.randrange(len(self.pairs)))
            self.cuts += 1
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)


def serve(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """The server's process, once it listens."""
    command = [sys.executable, "-m", "devmind", "feed", "serve", str(folder), "--at", f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert b"feed at" in process.stdout.readline()
    return process


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def attack(folder: Path, producers: int, seconds: float, kills: int, seed: int = 0) -> dict[str, int]:
    """Push from several processes, kill the server and cut connections meanwhile; gives what was found.

    Raises:
        AssertionError: something that was acknowledged is lost, doubled, or out of order.
    """
    rng, port = random.Random(seed), free_port()
    server = serve(folder, port)
    cutter = Cutter(port, seed)
    names = [f"producer {number}" for number in range(producers)]
    command = [sys.executable, "-c", PRODUCER, f"127.0.0.1:{cutter.port}", str(folder / "token")]
    pushing = [
        subprocess.Popen([*command, name, str(seconds)], cwd=HERE, stdout=subprocess.PIPE, text=True) for name in names
    ]
    try:
        moments = sorted(rng.uniform(0.15, 0.95) * seconds for _ in range(kills))
        began = time.monotonic()
        for moment in [*moments, seconds]:
            while (left := began + moment - time.monotonic()) > 0:
                time.sleep(min(left, rng.uniform(0.1, seconds / 15)))
                cutter.cut()
            if moment < seconds:
                server.send_signal(signal.SIGKILL)
                server.wait()
                time.sleep(rng.uniform(0.0, 0.3))
                server = serve(folder, port)
        told = [one.communicate(timeout=180)[0].split() for one in pushing]
    finally:
        for one in (*pushing, server):
            one.kill()
            one.wait()
        cutter.listener.close()
    found: dict[str, list[float]] = {name: [] for name in names}
    for _, frame in spool.read(folder):
        found[frame.producer] += numbers(decode(frame.body), "sense.body")[:, 0].tolist()
    for name, (pushed, stored, _) in zip(names, told, strict=True):
        assert int(pushed) == int(stored) == len(found[name]), f"{name}: {pushed} pushed, {len(found[name])} on disk"
        assert np.array_equal(found[name], np.arange(int(pushed))), f"{name}: out of order"
    rows, reconnects = sum(map(len, found.values())), sum(int(one[2]) for one in told)
    return {"rows": rows, "kills": kills, "cuts": cutter.cuts, "reconnects": reconnects, "lost": 0}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for option, default in (("--producers", 4), ("--seconds", 60), ("--kills", 5), ("--seed", 0)):
        parser.add_argument(option, type=int, default=default)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        print(attack(Path(place) / "spool", given.producers, given.seconds, given.kills, given.seed))
