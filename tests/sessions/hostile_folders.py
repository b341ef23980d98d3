"""Corpora of folders for `hostile.py`: one file of a bag, a data set or an agent is damaged, the others are intact."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from devmind.moment import Action, Moment

FOLDER = "folder"


def read_bag(file: str) -> Callable[[bytes, Path], object]:
    """Read a ROS bag with this file: a .bag, or a folder of ROS 2."""

    def read(data: bytes, folder: Path) -> object:
        from devmind.sessions.bags import import_bag

        (folder / FOLDER / file).write_bytes(data)
        bag = folder / FOLDER / file if file.endswith(".bag") else folder / FOLDER
        return import_bag(bag, folder / "made.mcap", overwrite=True)

    return read


def bag(file: str) -> Callable[[Path], bytes]:
    """A bag with a fifth of a second of a small robot; returns the file to damage."""

    def make(folder: Path) -> bytes:
        from tests.sessions.robots import drive, write_ros1, write_ros2

        shutil.rmtree(folder / FOLDER, ignore_errors=True)
        if file.endswith(".bag"):
            (folder / FOLDER).mkdir()
            write_ros1(folder / FOLDER / file, lambda store: drive(store, 0.2))
        else:
            write_ros2(folder / FOLDER, sent=lambda store: drive(store, 0.2))
            (database,) = (folder / FOLDER).glob("*.db3")
            assert database.name == "folder.db3"
        return (folder / FOLDER / file).read_bytes()

    return make


def read_dataset(file: str) -> Callable[[bytes, Path], object]:
    """Import a LeRobotDataset with this file."""

    def read(data: bytes, folder: Path) -> object:
        from devmind.sessions.lerobot import import_lerobot

        (folder / FOLDER / file).write_bytes(data)
        return import_lerobot(folder / FOLDER, folder / "made.mcap", overwrite=True)

    return read


def dataset(file: str) -> Callable[[Path], bytes]:
    """An exported recording; returns the file to damage."""

    def make(folder: Path) -> bytes:
        import numpy as np

        from devmind.sessions.lerobot import export_lerobot
        from devmind.sessions.recorder import Recorder

        shutil.rmtree(folder / FOLDER, ignore_errors=True)
        with Recorder(folder / "given.mcap", source="test", tick_hz=10, overwrite=True) as recorder:
            for number in range(6):
                sight = np.full((64, 64, 3), 20 * number, np.uint8)
                recorder.write(Moment(number / 10, {"sight": sight, "body": np.ones(2, np.float32)}, first=not number))
        export_lerobot([folder / "given.mcap"], folder / FOLDER)
        return (folder / FOLDER / file).read_bytes()

    return make


def agent(file: str) -> Callable[[Path], bytes]:
    """A small agent with its results; returns the file to damage."""

    def make(folder: Path) -> bytes:
        import numpy as np

        from devmind.acting.confidence import FILE, Confidence, LessonDensity
        from devmind.agent.saving import seal
        from devmind.testing import tiny_agent
        from stages.reflex import parts

        shutil.rmtree(folder / FOLDER, ignore_errors=True)
        one = tiny_agent()
        parts.admit(one)
        one.save_pretrained(folder / FOLDER)
        measure = {"name": "reach/look", "value": 0.9, "low": 0.8, "passed": True, "head": "look"}
        skills = [{"name": "reach", "verdict": {"passed": True}, "measures": [measure]}]
        seal(folder / FOLDER, "results.json", json.dumps({"verdict": {"passed": True}, "skills": skills}).encode())
        density = LessonDensity(np.zeros(3, np.float32), np.eye(3, dtype=np.float32), 1.0)
        shares = {"boxes": np.array([[0.2, 0.9], [0.1, 0.8]], np.float32)}
        seal(folder / FOLDER, FILE, Confidence("eye", "head", density, shares).to_bytes())
        return (folder / FOLDER / file).read_bytes()

    return make


def read_agent(file: str) -> Callable[[bytes, Path], object]:
    """Load an agent with this file, with checksums made right as an attacker would."""

    def read(data: bytes, folder: Path) -> object:
        from devmind.acting.confidence import FILE, read_confidence
        from devmind.acting.standing import read_results, standing
        from devmind.agent.agent import Agent

        home = folder / FOLDER
        (home / file).write_bytes(data)
        if file != "checksums.json":
            sums: dict[str, Any] = json.loads((home / "checksums.json").read_text())
            sums["files"][file] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            (home / "checksums.json").write_text(json.dumps(sums))
        results = read_results(home)
        if file in ("results.json", FILE):  # the agent itself is intact, and loaded once
            _KNOWN.setdefault(home, Agent.from_pretrained(home))
            return read_confidence(home, _KNOWN[home]) if file == FILE else standing(_KNOWN[home], results)
        return Agent.from_pretrained(home)

    return read


_KNOWN: dict[Path, Any] = {}


def spool(folder: Path) -> bytes:
    """A segment of a feed's spool."""
    from devmind.feed.schema import Layout, Row, encode
    from devmind.feed.spool import Frame, Spool

    layout, log = Layout("cartpole"), Spool(folder / "corpus")
    row = Row(0, Moment(0.0, {"body": np.zeros(4, np.float32), "words": "x"}, first=True), Action())
    layout.add(row)
    log.append([Frame("one", number, 2, bytes(encode(layout.batch([row, row])))) for number in (1, 2, 3)])
    log.close()
    [segment] = (folder / "corpus").glob("*.feed")
    return segment.read_bytes()


def read_spool(data: bytes, folder: Path) -> object:
    """Open the segment as the end of a spool, and read all of it."""
    from devmind.feed import spool as files
    from devmind.feed.schema import decode
    from tests.feed.conftest import rows_of

    place = folder / "hostile-spool"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    files.segment_path(place, 0).write_bytes(data)
    files.Spool(place).close()
    return [rows_of(decode(frame.body)) for _, frame in files.read(place)]
