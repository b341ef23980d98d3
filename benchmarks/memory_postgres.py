"""A memory shared through PostgreSQL beside SQLite: writes a second, delay to another process, recall at 10^4 entries.

    OMP_NUM_THREADS=1 python benchmarks/memory_postgres.py postgresql://user@host:port/database [--entries 10000]

Give the URL of a database made for this: the entries stay there. Every entry is a Moment: a picture of 64x64 and 100 ms
of sound, with a key of each. Both stores acknowledge what is on disk (fsync), so half of what is measured is their
disk. Writers are separate processes; the notified reader is a second connection in this process.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from devmind.memory import Entry, Key, Memory, Store, open_store

WRITER = """
import sys, time
from benchmarks.memory_postgres import lived
from devmind.memory import open_store
place, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
entries = [lived(first + i) for i in range(count)]
with open_store(place) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for entry in entries:
        store.add([entry])
"""


def lived(number: int) -> Entry:
    """An entry as a life writes it."""
    rng = np.random.default_rng(number)
    picture = np.kron(rng.integers(0, 256, (8, 8, 3)), np.ones((8, 8, 1))).astype(np.uint8)
    sound = (rng.integers(-3000, 3000, (1, 1600)) / 32768).astype(np.float32)
    vectors = rng.normal(size=(2, 64)).astype(np.float32)
    keys = {
        sense: Key(vector / np.float32(np.linalg.norm(vector)), "encoder")
        for sense, vector in zip(("sight", "sound"), vectors, strict=True)
    }
    return Entry(time.time(), 0.5, None, keys, {"sight": picture, "sound": sound})


def line_of(name: str, seconds: list[float]) -> str:
    """A row of a table: median and 95th percentile in milliseconds."""
    ms = 1000 * np.array(seconds)
    return f"| {name} | {np.median(ms):.2f} | {np.percentile(ms, 95):.2f} | {len(ms)} |"


def questions(n: int) -> list[dict[str, Key]]:
    """Query keys, none of which is stored."""
    return [dict(lived(10**8 + number).keys) for number in range(n)]


def timed(act: Callable[[], object]) -> float:
    """The seconds that `act` takes."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def writes_a_second(place: str, writers: int, each: int) -> float:
    """Writes a second of several processes that write one entry after the other."""
    command = [sys.executable, "-c", WRITER, place]
    children = [
        subprocess.Popen(
            [*command, str(10**6 * (1 + number)), str(each)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for number in range(writers)
    ]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    start = time.perf_counter()
    for child in children:
        child.communicate("go\n")
    return writers * each / (time.perf_counter() - start)


def recalls(store: Store, rounds: int) -> list[tuple[str, list[float]]]:
    """Seconds of a recall of eight, and of two of its parts."""
    memory, asked = Memory(store), questions(rounds)
    memory.index.update()
    whole = [timed(lambda keys=keys: memory.recall(keys, 8)) for keys in asked]  # type: ignore[misc]
    found = [entry.id for entry in memory.recall(asked[0], 8)]
    return [
        ("recall of 8", whole),
        ("of these, reading 8 entries with their payloads", [timed(lambda: store.get(found)) for _ in asked]),
        ("of these, asking whether anything has changed", [timed(memory.index.update) for _ in asked]),
    ]


def between_processes(place: str, rounds: int) -> list[tuple[str, list[float]]]:
    """Seconds from one's acknowledged write until the other has indexed it: on notification, and on recall."""
    with open_store(place) as one, open_store(place) as other:
        memory, heard = Memory(other), threading.Event()
        memory.index.update()
        when_told, when_asked = [], []
        with other.watch(heard.set):  # type: ignore[attr-defined]
            heard.wait()
            for number in range(rounds):
                heard.clear()
                (written,) = one.add([lived(number)])
                start = time.perf_counter()
                while memory.index.table.ids[-1] != written:
                    heard.wait(5)
                    heard.clear()
                    memory.index.update()
                when_told.append(time.perf_counter() - start)
        for number in range(rounds):
            entry = lived(10**7 + number)
            (written,) = one.add([entry])
            start = time.perf_counter()
            (found,) = memory.recall(entry.keys, 1)
            when_asked.append(time.perf_counter() - start)
            assert found.id == written
    return [("told of a write, until it is in the index", when_told), ("recalled right after the write", when_asked)]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        places = {"PostgreSQL": options.url, "SQLite": str(Path(folder) / "memory")}
        for name, place in places.items():
            rates = [f"{writers} writing: {writes_a_second(place, writers, 200):.0f}/s" for writers in (1, 2)]
            print(f"{name}, one entry a write: {', '.join(rates)}", flush=True)
        for name, place in places.items():
            with open_store(place) as store:
                left = range(store.sizes().entries, options.entries)
                filling = sum(timed(lambda i=i: store.add([lived(j) for j in range(i, min(i + 100, options.entries))]))  # type: ignore[misc]
                              for i in left[::100])  # fmt: skip
                print(f"{name}, 100 entries a write: {len(left) / max(filling, 1e-9):.0f}/s", flush=True)
                opened = timed(Memory(store).index.update)
                print(f"{name}, {store.sizes().entries} entries: index made in {opened:.2f} s, "
                      f"{store.sizes().bytes / 1e6:.0f} MB")  # fmt: skip
                print("| ms | median | p95 | n |\n|---|---|---|---|")
                for row in recalls(store, options.rounds):
                    print(line_of(f"{name}: {row[0]}", row[1]), flush=True)
        with open_store(options.url) as store:
            if store.nearest(lived(0).keys, 8) is not None:  # type: ignore[attr-defined]
                found = [timed(lambda keys=keys: store.nearest(keys, 8)) for keys in questions(50)]  # type: ignore[attr-defined, misc]
                print(line_of("PostgreSQL: numbers of the 8 nearest, by pgvector", found))
        for row in between_processes(options.url, options.rounds):
            print(line_of(row[0], row[1]), flush=True)


if __name__ == "__main__":
    main()
