"""Property test of deletion: random lives write and forget, and after each forgetting all files are scanned.

A life is drawn from a seed. It writes entries with and without a name, makes recordings, adds entries that point into
them, forgets by number and by name, rebuilds keys, exports, imports, closes, and forks processes that are killed
before they close the store. After each forgetting, no file of the folder holds any bytes that only the forgotten
entries had (names, words, pictures, keys, camera frames), and everything else is unchanged. Run it with
`python -m tests.memory.deletions --lives 9`.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from devmind.memory import Entry, Key, Memory, Pointer, open_store
from devmind.memory.portable import export_memory, import_memory
from devmind.moment import Moment, same_arrays
from devmind.sessions.background import BackgroundRecorder
from devmind.sessions.parts import open_parts
from devmind.sessions.pointed import Pointed

STEPS = 24
SLICE = 24
"""Bytes of a mark: none of them happens by chance, and several stand within a page of the database."""


def noise(seed: object, size: int) -> bytes:
    return random.Random(str(seed)).randbytes(size)


def picture(seed: object) -> np.ndarray:
    return np.frombuffer(noise(seed, 16 * 16 * 3), np.uint8).reshape(16, 16, 3)


def key(seed: object) -> Key:
    vector = np.random.default_rng(list(noise(seed, 8))).normal(size=64)
    return Key((vector / np.linalg.norm(vector)).astype(np.float32), "e")


def slices(data: bytes) -> list[bytes]:
    return [data[at : at + SLICE] for at in range(40, len(data) - SLICE, len(data) // 4)]


@dataclass
class Remembered:
    """An entry as it was written, and its marks."""

    entry: Entry
    key_seed: object
    ticks: tuple[str, range] | None = None

    def marks(self) -> list[bytes]:
        """Bytes that only this entry has."""
        sight = self.entry.senses["sight"]
        assert isinstance(sight, np.ndarray)
        words = str(self.entry.senses["words"]).encode()
        return [words, *slices(sight.tobytes()), key(self.key_seed).vector.tobytes()[:SLICE]]


@dataclass
class Recorded:
    """A recording: the ticks it has, and the ticks that were forgotten."""

    path: Path
    recorder: BackgroundRecorder
    ticks: int = 0
    gone: set[int] = field(default_factory=set)

    def marks(self, tick: int) -> list[bytes]:
        """Bytes that only one tick has."""
        return [*slices(picture((self.path.name, tick)).tobytes()), self.frame(tick)[100 : 100 + SLICE]]

    def frame(self, tick: int) -> bytes:
        return b"\xff\xd8" + noise((self.path.name, "frame", tick), 400) + b"\xff\xd9"


class Life:
    """One random life in `folder`; `counts` holds how often each step was taken."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.draw, self.seed, self.count = random.Random(seed), seed, 0
        self.home, self.elsewhere = folder / "home", folder / "elsewhere"
        self.home.mkdir(parents=True)
        self.elsewhere.mkdir()
        self.store = open_store(self.home / "mind")
        self.entries: dict[int, Remembered] = {}
        self.recordings: list[Recorded] = []
        self.exported: dict[Path, list[Remembered]] = {}
        self.counts: dict[str, int] = {}

    def live(self) -> dict[str, int]:
        """Take all steps; an AssertionError names the seed."""
        doors = {
            self.remember: 6, self.record: 3, self.remember_recorded: 5, self.end: 1, self.forget: 5, self.close: 2,
            self.rekey: 1, self.export: 1, self.bring: 1, self.killed: 1,
        }  # fmt: skip
        try:
            for _ in range(STEPS):
                door = self.draw.choices(list(doors), list(doors.values()))[0]
                door()
                self.counts[door.__name__] = self.counts.get(door.__name__, 0) + 1
            self.forget(everything=True)
        except AssertionError as error:
            raise AssertionError(f"life {self.seed}: {error}") from error
        finally:
            for recorded in self.recordings:
                recorded.recorder.close()
            self.store.close()
        return self.counts

    # -- steps -----------------------------------------------------------------------------------------------------

    def _new(self, pointer: Pointer | None = None) -> Entry:
        self.count += 1
        seed = (self.seed, self.count)
        name = (
            f"name-{noise((self.seed, 'name', self.draw.randrange(4)), 8).hex()}" if self.draw.random() < 0.5 else None
        )
        senses = {"sight": picture(seed), "words": f"words-{noise(seed, 10).hex()}"}
        return Entry(float(self.count), 0.0, name, {"sight": key(seed)}, senses, pointer=pointer)

    def _keep(self, entry: Entry, ticks: tuple[str, range] | None = None) -> None:
        self.entries[self.store.add([entry])[0]] = Remembered(entry, (self.seed, self.count), ticks)

    def remember(self) -> None:
        for _ in range(self.draw.randint(1, 8)):
            self._keep(self._new())

    def record(self) -> None:
        """Record some more ticks; start a recording if none is running."""
        if not self.recordings or self.recordings[-1].recorder._is_closing:
            path = self.home / f"life{len(self.recordings)}.mcap"
            rotate_s = self.draw.choice([0.5, 600.0])
            recorder = BackgroundRecorder(path, source="test", tick_hz=10, rotate_s=rotate_s)
            self.recordings.append(Recorded(path, recorder))
        recorded = self.recordings[-1]
        for _ in range(self.draw.randint(1, 9)):
            moment = Moment(recorded.ticks / 10, {"sight": picture((recorded.path.name, recorded.ticks))})
            recorded.recorder.write(moment)
            recorded.recorder.frame(recorded.frame(recorded.ticks), recorded.ticks / 10)
            recorded.ticks += 1
        recorded.recorder.flush()

    def remember_recorded(self) -> None:
        """Add an entry that points at some of the last ticks."""
        if not self.recordings or self.recordings[-1].recorder._is_closing:
            self.record()
        recorded = self.recordings[-1]
        last = self.draw.randrange(recorded.ticks)
        first = max(0, last - self.draw.randrange(6))
        place = recorded.recorder.place(first / 10, last / 10)
        assert place is not None
        path, identity, number, count = place
        assert count == last + 1 - first
        pointer = Pointer(str(path), number, identity, count)
        self._keep(self._new(pointer), (recorded.path.name, range(first, last + 1)))

    def end(self) -> None:
        if self.recordings:
            self.recordings[-1].recorder.close()

    def close(self) -> None:
        self.store.close()
        self.store = open_store(self.home / "mind")

    def rekey(self) -> None:
        """Replace all keys; the old ones belong to no entry any more, but are still searched for with their entries."""
        self.count += 1
        self.store.replace_keys({number: {"sight": key((self.seed, self.count, number))} for number in self.entries})
        for number, one in self.entries.items():
            one.key_seed = (self.seed, self.count, number)

    def export(self) -> None:
        path = self.elsewhere / f"mind{len(self.exported)}.zip"
        export_memory(self.store, path, self.home / "mind")
        self.exported[path] = [Remembered(o.entry, o.key_seed, o.ticks) for o in self.entries.values()]

    def bring(self) -> None:
        """Import an export again, which restores what was forgotten since."""
        if not self.exported:
            return
        path = self.draw.choice(sorted(self.exported))
        before = set(self.entries)
        import_memory(self.store, path)
        known = {str(one.entry.senses["words"]): one for one in self.exported[path]}
        for entry in self.store.find():
            if entry.id not in before:
                one = known[str(entry.senses["words"])]
                self.entries[entry.id] = Remembered(one.entry, one.key_seed, one.ticks)

    def killed(self) -> None:
        """Write from another process that dies without closing the store."""
        entry = self._new()
        self.store.close()
        if (child := os.fork()) == 0:
            open_store(self.home / "mind").add([entry])
            os._exit(9)
        os.waitpid(child, 0)
        self.store = open_store(self.home / "mind")
        (number,) = {one.id for one in self.store.find()} - self.entries.keys()
        self.entries[number] = Remembered(entry, (self.seed, self.count))

    def forget(self, everything: bool = False) -> None:
        """Forget some entries, or all of one name; check that no trace is left and everything else is unchanged."""
        if not self.entries:
            return
        names = sorted({one.entry.name for one in self.entries.values() if one.entry.name})
        if everything:
            ids = sorted(self.entries)
        elif names and self.draw.random() < 0.5:
            name = self.draw.choice(names)
            ids = [number for number, one in self.entries.items() if one.entry.name == name]
        else:
            ids = self.draw.sample(sorted(self.entries), min(len(self.entries), self.draw.randint(1, 4)))
        gone = [self.entries[number] for number in ids]
        marks = {mark for one in gone for mark in one.marks()}
        before = self._bytes()
        unseen = [mark for mark in marks if mark not in before]
        assert len(unseen) < len(marks) / 3, "the scan would not see what it looks for"
        told = Memory(self.store, pointed=Pointed(self.home / "mind")).erase(ids)
        assert told == [], told
        for number in ids:
            del self.entries[number]
        for one in gone:
            for recorded in self.recordings:
                if one.ticks and recorded.path.name == one.ticks[0]:
                    recorded.gone |= set(one.ticks[1])
        left = {one.entry.name for one in self.entries.values()}
        marks |= {one.entry.name.encode() for one in gone if one.entry.name and one.entry.name not in left}
        still = {mark for one in self.entries.values() for mark in one.marks()}  # imported twice
        marks |= {mark for one in self.recordings for tick in one.gone for mark in one.marks(tick)}
        after = self._bytes()
        found = [mark for mark in marks - still if mark in after]
        assert not found, f"{len(found)} of {len(marks)} marks are still there, as {found[0]!r}"
        self._check()

    # -- checks ----------------------------------------------------------------------------------------------------

    def _bytes(self) -> bytes:
        """The contents of all files in the life's folder, and the names of the files."""
        files = [path for path in sorted(self.home.rglob("*")) if path.is_file()]
        return b"\0\0".join(str(path).encode() + path.read_bytes() for path in files)

    def _check(self) -> None:
        there = {entry.id: entry for entry in self.store.find()}
        assert there.keys() == self.entries.keys(), "an entry is lost or came back"
        for number, one in self.entries.items():
            assert same_arrays(there[number].senses, one.entry.senses)
            assert there[number].name == one.entry.name
            assert np.array_equal(there[number].keys["sight"].vector, key(one.key_seed).vector)
        for recorded in self.recordings:
            recorded.recorder.place(0.0, 1e9)  # flush everything to disk
            moments = [moment for session in open_parts(recorded.path) for moment, _ in session]
            assert len(moments) == recorded.ticks, f"'{recorded.path.name}' has {len(moments)} of {recorded.ticks}"
            for tick, moment in enumerate(moments):
                wanted = {} if tick in recorded.gone else {"sight": picture((recorded.path.name, tick))}
                assert same_arrays(moment.senses, wanted), f"tick {tick} of '{recorded.path.name}'"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lives", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    total: dict[str, int] = {}
    for seed in range(given.seed, given.seed + given.lives):
        with tempfile.TemporaryDirectory(prefix="devmind-deletions-") as folder:
            for what, count in Life(Path(folder), seed).live().items():
                total[what] = total.get(what, 0) + count
    print(f"{given.lives} lives: " + ", ".join(f"{what} {count}" for what, count in sorted(total.items())))


if __name__ == "__main__":
    main()
