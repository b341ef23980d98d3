"""One process of a history: it writes, reads, forgets or makes keys anew until it is killed, and logs each call.

A line is written before a call and one behind it, each by a single write to the end of a file, so that a kill leaves
whole lines: {"id", "at" (nanoseconds of the clock that all processes share), and what was called or answered}.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from devmind.errors import DevmindError
from devmind.memory import Entry, Key, Memory, Store, open_store

LIVING = 24
"""So many entries at once: the writers write no more than that."""
REFUSED = "Keys of"
"""How the sentence begins that refuses keys of another encoder: nothing was changed then."""


def key(tag: str, encoder: str) -> Key:
    vector = np.random.default_rng(int.from_bytes(tag.encode(), "big")).normal(size=64)
    return Key((vector / np.linalg.norm(vector)).astype(np.float32), encoder)


def snapshot(store: Store) -> dict[str, tuple[int, str]]:
    """Number and encoder of every entry by its tag."""
    return {str(e.senses["words"]): (e.id, e.keys["sight"].encoder) for e in store.find()}


class Log:
    """Calls with their answers, at the end of a file."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._count = 0

    def _write(self, **what: Any) -> None:
        os.write(self._file, (json.dumps(what) + "\n").encode())

    def call(self, do: Callable[[], Any], **what: Any) -> Any:
        """Do it, logged; None when it was refused. What else goes wrong has no answer: it may have been done."""
        self._count += 1
        number = f"{os.getpid()}.{self._count}"
        self._write(id=number, at=time.monotonic_ns(), **what)
        try:
            got = do()
        except DevmindError as error:
            refused = str(error).startswith(REFUSED)
            self._write(id=number, at=time.monotonic_ns(), error=str(error), refused=refused)
            if not refused:
                time.sleep(0.05)  # a server that starts again
            return None
        self._write(id=number, at=time.monotonic_ns(), got=got)
        return got


def write(store: Store, log: Log, rng: np.random.Generator, count: int) -> None:
    there = snapshot(store)
    if len(there) >= LIVING:
        time.sleep(0.01)
        return
    encoder = next((encoder for _, encoder in there.values()), "e0")
    tag = f"{os.getpid()}-{count}"
    entry = Entry(float(count), 0.0, None, {"sight": key(tag, encoder)}, {"words": tag})
    log.call(lambda: store.add([entry])[0], kind="add", tag=tag, given=encoder)


def read(store: Store, log: Log, rng: np.random.Generator, count: int) -> None:
    log.call(lambda: {tag: encoder for tag, (_, encoder) in snapshot(store).items()}, kind="snapshot")
    time.sleep(0.005)


class Recall:
    """Reads by the index, which is a cache that lives as long as the process."""

    def __init__(self, store: Store) -> None:
        self.memory = Memory(store)
        self._asked: dict[str, str] = {}

    def __call__(self, store: Store, log: Log, rng: np.random.Generator, count: int) -> None:
        there = {tag: encoder for tag, (_, encoder) in snapshot(store).items()}
        self._asked = dict(list((self._asked | there).items())[-LIVING:])  # those that were forgotten meanwhile too
        encoder = next(iter(there.values()), "e0")
        for tag in rng.permutation(sorted(self._asked))[:3].tolist():
            log.call(lambda tag=tag: self._found(tag, encoder), kind="read", tag=tag)

    def _found(self, tag: str, encoder: str) -> str | None:
        found = self.memory.recall({"sight": key(tag, encoder)}, k=1)
        return next((one.keys["sight"].encoder for one in found if one.senses["words"] == tag), None)


def forget(store: Store, log: Log, rng: np.random.Generator, count: int) -> None:
    there = snapshot(store)
    if len(there) < LIVING // 4:
        time.sleep(0.05)  # the writers first
        return
    for tag in rng.permutation(sorted(there))[: 1 + count % 3].tolist():
        erase = bool(rng.random() < 0.3)
        log.call(lambda tag=tag, erase=erase: store.delete([there[tag][0]], erase=erase), kind="delete", tag=tag)


def rekey(store: Store, log: Log, rng: np.random.Generator, count: int) -> None:
    there = snapshot(store)
    encoder = f"{os.getpid()}.{count}"
    new = {number: {"sight": key(tag, encoder)} for tag, (number, _) in there.items()}
    if new:
        log.call(lambda: store.replace_keys(new), kind="rekey", tags=sorted(there), given=encoder)
    time.sleep(0.2 * rng.random())


def main(role: str, place: str, log: str, seed: str) -> None:
    rng, kept = np.random.default_rng(int(seed)), Log(log)
    with open_store(place) as store:
        recall = Recall(store)
        if role == "recall":
            import torch  # noqa: F401 - takes seconds

        do = {"write": write, "read": read, "recall": recall, "forget": forget, "rekey": rekey}[role]
        print("ready", flush=True)
        for count in range(10**9):
            try:
                do(store, kept, rng, count)
            except DevmindError:  # of a look that is not logged: the server starts again
                time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
