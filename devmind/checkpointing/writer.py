"""The process that writes generations: it has no torch, takes orders from its input, and ends when that is closed.

    python -m devmind.checkpointing.writer FD FD

The numbers lie in files in memory, whose descriptors it inherits; every line of its input is an Order as JSON, and it
answers each with one line. Another process can not hold up the interpreter in which an agent learns; and when that is
killed, the snapshot that this one has in hand still reaches the disk.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devmind.bounds import parse_json
from devmind.checkpointing.generations import Layout, is_whole, name_of, on_shelf, retire, write
from devmind.checkpointing.lock import lock_folder
from devmind.errors import CheckpointError

NICE = 10
"""How much the process gives way where cores are few: beside learning on all of them it has a tenth of one."""
PATIENCE_S = 600.0
"""Seconds to wait for another writer on the shelf, which has a last snapshot in hand after its trainer was killed."""


@dataclass(frozen=True)
class Order:
    """One generation to be written.

    Args:
        memory: which file in memory has the numbers.
        number: of the generation.
        checked: beginning of the names of tensors that have to be finite.
    """

    memory: int
    shelf: str
    backup: str | None
    number: int
    about: dict[str, Any]
    tree: Any
    tensors: list[tuple[str, str, list[int]]]
    checked: str


def carry_out(order: Order, numbers: memoryview, known: set[str]) -> dict[str, Any]:
    """Write a generation and its backup, then retire the third newest of both.

    Args:
        known: generations that this process knows to be whole; the new ones are added.

    Returns: `name` once it is on the disk, seconds of checksums (`host_s`) and of the disk (`disk_s`); `broken` names
        tensors that are not finite, and nothing is written; `error` is a sentence.
    """
    layout = Layout(tuple((name, kind, tuple(shape)) for name, kind, shape in order.tensors))
    told: dict[str, Any] = {"number": order.number, "host_s": 0.0, "disk_s": 0.0}
    if broken := not_finite(layout, numbers, order.checked):
        return told | {"broken": broken}
    try:
        for shelf in filter(None, (order.shelf, order.backup)):
            with lock_folder(Path(shelf), PATIENCE_S):
                folder = Path(shelf) / name_of(order.number)
                host_s, disk_s = write(folder, order.about, order.tree, layout, numbers)
            known.add(str(folder))
            told |= {"host_s": told["host_s"] + host_s, "disk_s": told["disk_s"] + disk_s}
            told.setdefault("name", folder.name)
        for shelf in filter(None, (order.shelf, order.backup)):
            known |= {str(path) for path in on_shelf(Path(shelf))[:2] if str(path) not in known and is_whole(path)}
            with lock_folder(Path(shelf), PATIENCE_S):
                retire(Path(shelf), known=known)
    except CheckpointError as error:
        told["error"] = str(error)
    return told


def not_finite(layout: Layout, numbers: memoryview, prefix: str) -> list[str]:
    """Names of the tensors of `layout` whose names begin with `prefix`, and which hold NaN or infinity."""
    import numpy as np

    kinds = {"F16": np.float16, "F32": np.float32, "F64": np.float64, "C64": np.float32}
    broken = []
    for (name, kind, _), (_, begin, end) in zip(layout.tensors, layout.places(), strict=True):
        if not name.startswith(prefix) or begin == end:
            continue
        if kind == "BF16":  # numpy has none: all bits of the exponent are set
            exponents = np.frombuffer(numbers[begin:end], np.uint16) & 0x7F80
            found = bool((exponents == 0x7F80).any())
        elif kind in kinds:
            found = not bool(np.isfinite(np.frombuffer(numbers[begin:end], kinds[kind])).all())
        else:
            continue
        if found:
            broken.append(name.removeprefix(prefix))
    return broken


def main() -> None:
    """Carry out orders until there are no more."""
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the trainer, which saves once more before it ends
        signal.signal(number, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(NICE)
    files, mapped = [int(text) for text in sys.argv[1:]], dict[int, mmap.mmap]()
    known = set[str]()
    for line in sys.stdin.buffer:
        order = Order(**parse_json(line, CheckpointError, "This is no order ({})."))
        size = os.fstat(files[order.memory]).st_size
        if order.memory not in mapped or len(mapped[order.memory]) != size:
            mapped[order.memory] = mmap.mmap(files[order.memory], size, access=mmap.ACCESS_READ)
        answer = carry_out(order, memoryview(mapped[order.memory]), known)
        with suppress(BrokenPipeError):  # the trainer was killed meanwhile
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
