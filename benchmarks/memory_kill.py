"""`kill -9` while memory is written: is every acknowledged entry there afterwards?

    python benchmarks/memory_kill.py [--times 20] [--writes 10000] [--writers 1] [--folder DIR]

One memory lives through all the kills. Each time one or several processes write entries one by one, each with a picture
of 12 KB and two keys, and print its number once it is acknowledged; they are killed after a random share of --writes.
Then the memory is opened, indexed anew and compared: every printed number must be there with the picture that was
written (regenerated from the writer's counter), the index must equal the store, and `check` must find no damage. A
process kill is not a power cut: the operating system keeps what was handed to it.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from devmind.memory import Entry, Key, open_store
from devmind.memory.index import Index


def entry(seed: int) -> Entry:
    """An entry that can be regenerated from its seed."""
    rng = np.random.default_rng(seed)
    keys = rng.normal(size=(2, 64)).astype(np.float32)
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    picture = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    return Entry(float(seed), 0.0, None, {"sight": Key(keys[0], "e"), "sound": Key(keys[1], "e")}, {"sight": picture})


def write(folder: Path, first: int, count: int) -> None:
    """Write entries and print seed and number of the acknowledged ones."""
    with open_store(folder) as store:
        for seed in range(first, first + count):
            print(seed, store.add([entry(seed)])[0], flush=True)


def kill_once(folder: Path, first: int, count: int, writers: int, chance: random.Random) -> dict[int, int]:
    """Start writers and kill them all after a random share of the writes; return seeds by acknowledged number."""
    children = []
    for writer in range(writers):
        words = [sys.executable, __file__, "--folder", folder, "--child", first + writer * count, "--writes", count]
        children.append(subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True))
    acknowledged: dict[int, int] = {}
    wanted = chance.randrange(1, count)
    out = children[0].stdout
    assert out is not None
    for _ in range(wanted):
        take(out.readline(), acknowledged)
    time.sleep(0.004 * chance.random())  # somewhere inside a write
    for child in children:
        child.kill()
    for child in children:
        assert child.stdout is not None
        for line in child.stdout:
            take(line, acknowledged)
        child.wait()
    return acknowledged


def take(line: str, into: dict[int, int]) -> None:
    """Read one line of a writer; half a line was not acknowledged."""
    if line.endswith("\n"):
        seed, number = line.split()
        into[int(number)] = int(seed)


def compare(folder: Path, acknowledged: dict[int, int]) -> str:
    """A sentence with the result; AssertionError when anything is missing or changed."""
    begun = time.perf_counter()
    with open_store(folder) as store:
        opened = time.perf_counter()
        table = Index(store).update()
        indexed = time.perf_counter()
        there = set(store.facts().ids.tolist())
        missing = sorted(acknowledged.keys() - there)
        assert not missing, f"{len(missing)} acknowledged entries are missing: {missing[:9]}"
        assert set(table.ids.tolist()) == there, "the index differs from the store"
        for number, seed in list(acknowledged.items())[-2000:]:
            (found,) = store.get([number])
            wanted = entry(seed)
            assert np.array_equal(found.senses["sight"], wanted.senses["sight"]), f"entry {number} is another"
            assert found.keys["sound"].vector.tobytes() == wanted.keys["sound"].vector.tobytes()
        faults = store.check()
        assert not faults, faults
    return (
        f"{len(there):,} entries, {len(there) - len(acknowledged)} of them never acknowledged, opened in "
        f"{1e3 * (opened - begun):.0f} ms, index made anew in {1e3 * (indexed - opened):.0f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--writes", type=int, default=10_000)
    parser.add_argument("--writers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--child", type=int)
    given = parser.parse_args()
    if given.child is not None:
        write(given.folder, given.child, given.writes)
        return
    chance, acknowledged = random.Random(given.seed), dict[int, int]()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for time_ in range(given.times):
            first = (time_ + 1) * given.writers * given.writes
            new = kill_once(Path(folder), first, given.writes, given.writers, chance)
            acknowledged |= new
            print(
                f"kill {time_ + 1}: {len(new):,} more acknowledged; {compare(Path(folder), acknowledged)}", flush=True
            )


if __name__ == "__main__":
    main()
