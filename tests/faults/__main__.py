"""Inject a fault at every disk call, and a power cut after each.

    python -m tests.faults                all points of all subjects (of a childhood each seventh)
    python -m tests.faults --points 60    that many random points; subjects may be named

Needs Linux and a C compiler. It builds a shim, loads it by LD_PRELOAD, and forks a process for every point.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

KINDS = {"kill": 1, "no space": 2, "input/output error": 3, "short write": 4, "torn write": 5}
POWER = ("names first", "synced only")
SHIM = Path(__file__).parent / "shim.c"


class Point(NamedTuple):
    """A fault at the `at`-th call; a power cut follows that call."""

    subject: str
    kind: str
    at: int


def compiler() -> str | None:
    """A C compiler, or None."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def main() -> None:
    """Build the shim and run again with it."""
    if not os.environ.get("LD_PRELOAD", "").endswith("shim.so"):
        with tempfile.TemporaryDirectory() as folder:
            shim = f"{folder}/shim.so"
            subprocess.run([str(compiler()), "-shared", "-fPIC", "-O1", "-o", shim, str(SHIM), "-ldl"], check=True)
            again = [sys.executable, "-m", "tests.faults", *sys.argv[1:]]
            sys.exit(subprocess.run(again, env={**os.environ, "LD_PRELOAD": shim}, check=False).returncode)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subjects", nargs="*")
    parser.add_argument("--points", type=int)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    # In memory if possible: a real disk would sync thousands of times for nothing.
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        broken = Attack(Path(folder).resolve()).run(asked.subjects, asked.points, asked.seed)
    sys.exit(1 if broken else 0)


class Attack:
    """Runs everything in one folder, whose path has no blanks."""

    def __init__(self, folder: Path) -> None:
        from tests.faults.subjects import SUBJECTS

        self.folder, self.subjects, self.number = folder, SUBJECTS, 0
        self.shim = ctypes.CDLL(None)
        self.shim.fault_count.restype = ctypes.c_long

    def run(self, names: list[str], points: int | None, seed: int) -> list[str]:
        """Try the points; print their numbers by subject, and the failures."""
        every: list[Point] = []
        traces: dict[str, tuple[list[Any], Path]] = {}
        for name in names or self.subjects:
            self.subjects[name].prepare(self._template(name))
            traces[name] = self._trace(name)
            count, stride = self._count(name), self.subjects[name].stride
            every += [Point(name, kind, at) for kind in KINDS for at in range(1, count + 1, stride)]
            every += [Point(name, kind, at) for kind in POWER for at in range(0, len(traces[name][0]) + 1, stride)]
        tried = sorted(random.Random(seed).sample(every, points)) if points and points < len(every) else every
        broken, begun = [], time.monotonic()
        for point in tried:
            try:
                self._power(point, *traces[point.subject]) if point.kind in POWER else self._fault(point)
            except Exception:
                broken.append(f"{point.subject}, {point.kind} at call {point.at}:\n{traceback.format_exc(limit=-3)}")
        print(f"in {time.monotonic() - begun:.0f} s, {len(tried)} of {len(every)} points tried", flush=True)
        counted = Counter(point.subject for point in tried)
        print("; ".join(f"{name}: {counted[name]} points" for name in counted))
        print("\n".join(broken) or f"{len(tried)} of {len(every)} points held")
        return broken

    def _template(self, name: str) -> Path:
        path = self.folder / "before" / name.replace(" ", "-")
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _fresh(self, name: str) -> Path:
        self.number += 1
        return shutil.copytree(self._template(name), self.folder / str(self.number))

    def _count(self, name: str) -> int:
        told, _ = self._in_child(name, self._fresh(name), lambda folder: self._arm(folder, 0, 0))
        return int(told["calls"])

    def _arm(self, folder: Path | str, at: int, kind: int) -> None:
        self.shim.fault_arm(os.fsencode(folder), ctypes.c_long(at), kind)

    def _in_child(
        self, name: str, folder: Path, arm: Callable[[Path], None], trace: int | None = None
    ) -> tuple[dict[str, Any], int]:
        """What the act reported, {} if it was killed, and the number of promises that it made."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(read)
                os._exit(self._act(name, folder, arm, write, trace))
            finally:
                os._exit(9)
        os.close(write)
        with os.fdopen(read, "rb") as file:
            said = file.read()
        os.waitpid(child, 0)
        shown = said.lstrip(b"a")
        return json.loads(shown) if shown else {}, len(said) - len(shown)

    def _act(self, name: str, folder: Path, arm: Callable[[Path], None], pipe: int, trace: int | None) -> int:
        from devmind.errors import DevmindError

        def acked() -> None:
            os.write(pipe, b"a")
            if trace is not None:
                os.write(trace, b"a\t\t\t0\t0\n")

        told = {"fault": ""}
        arm(folder)
        try:
            self.subjects[name].act(folder, acked)
        except DevmindError as error:
            told = {"refused": str(error)}
        except BaseException:
            told = {"fault": traceback.format_exc(limit=-4)}
        told["calls"] = self.shim.fault_count()
        self._arm("", 0, 0)
        os.write(pipe, json.dumps(told).encode())
        return 0

    def _fault(self, point: Point) -> None:
        subject, folder = self.subjects[point.subject], self._fresh(point.subject)
        told, acks = self._in_child(point.subject, folder, lambda f: self._arm(f, point.at, KINDS[point.kind]))
        assert not told.get("fault"), told["fault"]
        subject.check(folder, acks)
        subject.check(folder, subject.again(folder))
        shutil.rmtree(folder)

    def _trace(self, name: str) -> tuple[list[Any], Path]:
        from tests.faults.disk import calls

        folder, path = self._fresh(name), self.folder / f"trace-{len(list(self.folder.glob('trace-*')))}"
        with path.open("wb", buffering=0) as file:
            told, _ = self._in_child(
                name, folder, lambda f: self.shim.fault_trace(os.fsencode(f), file.fileno()), file.fileno()
            )
        assert not told.get("fault"), told["fault"]
        assert "refused" not in told, told
        return list(calls(path.read_bytes())), folder

    def _power(self, point: Point, calls: list[Any], was: Path) -> None:
        from tests.faults.disk import Disk

        disk = Disk(self._template(point.subject))
        disk.root = was  # the folder of the traced process
        for call in calls[: point.at]:
            disk.apply(call)
        self.number += 1
        folder = self.folder / str(self.number)
        disk.leave(folder, names=point.kind == "names first")
        acks = sum(call.what == "a" for call in calls[: point.at])
        subject = self.subjects[point.subject]
        subject.check(folder, acks)
        subject.check(folder, subject.again(folder))
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
