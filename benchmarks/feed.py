"""What a feed acknowledges a second, with all of it synced to the disk, beside plain gRPC streams, in one run.

    python benchmarks/feed.py [--megabytes 150] [--rounds 7] [--folder .]

Ways take turns in random order. Each has a server in a process of its own and one client here, which sends batches of
256 rows of 1 KiB or 32 of 64 KiB on one open stream and waits when 64 MB are not acknowledged. The peers get the same
bytes, ready as one message a batch, and check nothing: `gRPC` only answers; `gRPC + fsync` appends what has arrived,
syncs once and answers, as one would write it. p99: of single batches, each sent after the answer to the one before.
"""

from __future__ import annotations

import argparse
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import grpc
import numpy as np

METHOD, WINDOW_BYTES = "/plain/push", 64 << 20
PLAIN = """
import os, queue, sys, threading
from concurrent import futures
from contextlib import suppress
import grpc
waiting, file = queue.Queue(256), None

def write():
    while True:
        group = [waiting.get()]
        while not waiting.empty():
            group.append(waiting.get())
        os.writev(file, [message for message, _ in group])
        os.fsync(file)
        for _, done in group:
            done.put(b"ok")

def push(messages, context):
    if file is None:
        for message in messages:
            yield b"ok"
        return
    done = queue.Queue()
    def read():
        with suppress(grpc.RpcError):  # the client has ended
            for message in messages:
                waiting.put((message, done))
        done.put(None)
    threading.Thread(target=read, daemon=True).start()
    while (answer := done.get()) is not None:
        yield answer

if len(sys.argv) > 1:
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    threading.Thread(target=write, daemon=True).start()
handlers = grpc.method_handlers_generic_handler("plain", {"push": grpc.stream_stream_rpc_method_handler(push)})
server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", -1)])
server.add_generic_rpc_handlers((handlers,))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(f"plain at 127.0.0.1:{port}", flush=True)
server.wait_for_termination()
"""


class Plain:
    """A stream of plain gRPC, with the face of the feed's client."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.insecure_channel(address)
        self.room, self.unanswered, self.changed = WINDOW_BYTES, list[int](), threading.Condition()
        self.sent: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        answers = self.channel.stream_stream(METHOD)(iter(self.sent.get, None))
        threading.Thread(target=self.listen, args=(answers,), daemon=True).start()

    def listen(self, answers: Iterator[bytes]) -> None:
        with suppress(grpc.RpcError):
            for _ in answers:
                with self.changed:
                    self.room += self.unanswered.pop(0)
                    self.changed.notify_all()

    def push(self, message: bytes) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.room >= len(message))
            self.room -= len(message)
            self.unanswered.append(len(message))
        self.sent.put(message)

    def flush(self) -> None:
        with self.changed:
            self.changed.wait_for(lambda: not self.unanswered)

    def close(self) -> None:
        self.sent.put(None)
        self.channel.close()


def batch(rows: int, size: int) -> Any:
    """Rows of `size` random bytes, which do not compress."""
    from devmind.feed import Row
    from devmind.feed.schema import Layout
    from devmind.moment import Action, Moment

    layout, rng = Layout(), np.random.default_rng(0)
    made = [Row(0, Moment(0.1 * n, {"data": rng.integers(0, 256, size, np.uint8)}), Action()) for n in range(rows)]
    for row in made:
        layout.add(row)
    return layout.batch(made)


class Way:
    """One server, with a client that is open."""

    def __init__(self, name: str, folder: Path) -> None:
        disk = [str(folder / "log")] if "fsync" in name else []
        feed = ["-m", "devmind", "feed", "serve", str(folder / "spool"), "--at", "127.0.0.1:0"]
        given = feed if name == "feed" else ["-c", PLAIN, *disk]
        self.server = subprocess.Popen([sys.executable, *given], stdout=subprocess.PIPE, text=True)
        address = self.server.stdout.readline().split()[2].rstrip(",")  # type: ignore[union-attr]
        self.client: Any
        if name == "feed":
            from devmind.feed import Client

            self.client = Client(address, "bench", token=folder / "spool/token", unstored_bytes=WINDOW_BYTES)
            self.push: Callable[[Any], None] = self.client.push_batch
        else:
            self.client = Plain(address)
            self.push = self.client.push

    def cpu_s(self) -> float:
        """CPU seconds of both processes."""
        fields = Path(f"/proc/{self.server.pid}/stat").read_text().rpartition(")")[2].split()
        return time.process_time() + sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def send(self, content: Any, n: int) -> tuple[float, float]:
        """Seconds until n batches are acknowledged, and CPU seconds of both sides."""
        began, cpu_s = time.perf_counter(), self.cpu_s()
        for _ in range(n):
            self.push(content)
        self.client.flush()
        return time.perf_counter() - began, self.cpu_s() - cpu_s


def disk(folder: Path, group: int, direct: bool) -> float:
    """MB/s of 100 MB appended to a new file and synced after each `group` bytes, as `dd` would with one process."""
    import mmap

    content, path = mmap.mmap(-1, group), folder / "disk"
    content[:] = os.urandom(group)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | (os.O_DIRECT if direct else 0))
    began, n = time.perf_counter(), -(-100_000_000 // group)
    for _ in range(n):
        os.write(file, content)
        os.fdatasync(file)
    took = time.perf_counter() - began
    os.close(file)
    path.unlink()
    return n * group / 1e6 / took


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=150.0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=Path("."))
    parser.add_argument("--tiny", action="store_true")
    asked = parser.parse_args()
    if asked.tiny:
        asked.megabytes, asked.rounds = 2.0, 1
    from devmind.feed.schema import encode

    names, sizes, rng = ["feed", "gRPC + fsync", "gRPC"], ((256, 1 << 10), (32, 1 << 16)), random.Random(0)
    speed, single, cpu = ({(size, name): list[float]() for _, size in sizes for name in names} for _ in range(3))
    disks: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        ways = {name: Way(name, Path(folder)) for name in names}
        for number in range(-1, asked.rounds):  # the first warms up
            for group, direct in ((256 << 10, False), (8 << 20, False), (8 << 20, True)):
                label = f"{group >> 10:,} KiB a sync{', past the cache' if direct else ''}"
                disks.setdefault(label, []).append(disk(Path(folder), group, direct))
            for rows, size in sizes:
                content = batch(rows, size)
                message, n = bytes(encode(content)), max(2, round(asked.megabytes * 1e6 / (rows * size)))
                for name in rng.sample(names, len(names)):
                    given = content if name == "feed" else message
                    took, spent = ways[name].send(given, n)
                    times = [ways[name].send(given, 1)[0] for _ in range(20)]
                    if number >= 0:
                        speed[size, name].append(n * rows * size / 1e6 / took)
                        cpu[size, name].append(spent / (n * rows * size / 1e8))
                        single[size, name] += times
        for way in ways.values():
            way.client.close()
            way.server.terminate()
            way.server.wait()
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{os.cpu_count()} cores, load {load}; median of {asked.rounds} rounds of {asked.megabytes:.0f} MB (best)\n")
    print("| rows | way | MB/s acknowledged | of gRPC | of gRPC + fsync | p99 ms | CPU s for 100 MB |")
    print("|---|---|---|---|---|---|---|")
    for (size, name), rates in speed.items():
        against = [median(rates) / median(speed[size, other]) for other in ("gRPC", "gRPC + fsync")]
        print(
            f"| {size >> 10} KiB | {name} | {median(rates):.0f} ({max(rates):.0f}) | {against[0]:.2f} | "
            f"{against[1]:.2f} | {1e3 * np.percentile(single[size, name], 99):.1f} | {median(cpu[size, name]):.2f} |"
        )
    print("\nThe disk: " + "; ".join(f"{median(rates):.0f} MB/s at {label}" for label, rates in disks.items()))


if __name__ == "__main__":
    main()
