"""Memory finds the ticks that it points to, and forgetting removes them from the file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devmind.errors import KeptError, SessionError, StoreError
from devmind.memory import Entry, Filters, Key, Memory, Pointer, open_store
from devmind.moment import Action, Moment, same_arrays
from devmind.sessions.pointed import Pointed, blank, identity
from devmind.sessions.reader import Session
from devmind.sessions.recorder import Recorder


def picture(number: int) -> np.ndarray:
    """Noise, so that no compression hides its bytes from a scan."""
    return np.random.default_rng(number).integers(0, 256, (32, 32, 3), dtype=np.uint8)


def frame(number: int) -> bytes:
    return b"\xff\xd8" + np.random.default_rng(1000 + number).bytes(3000) + b"\xff\xd9"


def moment(number: int) -> Moment:
    return Moment(number / 10, {"sight": picture(number), "words": f"said {number}"}, first=number == 0)


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "life.mcap"
    with Recorder(path, source="test", tick_hz=10, details={"world": "none"}) as recorder:
        for number in range(8):
            recorder.note("number", number)
            recorder.write(moment(number), Action({"look": np.full(2, number / 10, np.float32)}))
            recorder.frame(frame(number), number / 10)
            recorder.flush()
    path.chmod(0o600)
    return path


def key(seed: int) -> Key:
    vector = np.random.default_rng(seed).normal(size=64)
    return Key((vector / np.linalg.norm(vector)).astype(np.float32), "a")


def test_recording_that_cannot_be_looked_for_is_missing(session: Path) -> None:
    place = Pointer("x" * 300, 0, identity(Session(session)))
    assert Pointed(session.parent).fetch(place) is None


def holds(path: Path, mark: bytes) -> bool:
    return mark in path.read_bytes()


def marks(number: int) -> list[bytes]:
    return [picture(number).tobytes()[300:380], frame(number)[100:180]]


def test_blanked_ticks_are_removed_and_the_rest_is_unchanged(session: Path) -> None:
    before = Session(session)
    steps, named, notes = list(before), identity(before), list(before.notes)
    assert all(holds(session, mark) for mark in marks(3))
    old = session.open("rb")
    blank(session, [3])
    after = Session(session)
    assert identity(after) == named
    assert not after.truncated
    assert oct(session.stat().st_mode & 0o777) == "0o600"
    assert after.metadata["world"] == "none"
    assert not any(holds(session, mark) for mark in marks(3))
    assert not any(mark in old.read() for mark in marks(3))  # nor in the file's former inode
    old.close()
    for number, (kept, action) in enumerate(after):
        wanted = {} if number == 3 else steps[number][0].senses
        assert same_arrays(kept.senses, wanted)
        assert kept.time_s == steps[number][0].time_s
        assert action is not None
        assert steps[number][1] is not None
        assert same_arrays(action.effectors, steps[number][1].effectors)
        assert holds(session, marks(number)[0]) == (number != 3)
        assert holds(session, marks(number)[1]) == (number not in (2, 3, 4))  # frames taken within a tick of it
    kinds = [note for note in after.notes if note.kind == "number"]
    assert [note.data for note in kinds] == [note.data for note in notes]
    assert [(note.data, note.tick) for note in after.notes if note.kind == "forgotten"] == [({"tick": 3}, 3)]
    blank(session, [5])  # a copy may be blanked again
    assert identity(Session(session)) == named
    assert sorted(path.name for path in session.parent.iterdir()) == ["life.mcap"]


def test_a_recording_in_progress_is_not_blanked(tmp_path: Path) -> None:
    path = tmp_path / "open.mcap"
    with Recorder(path, source="test", tick_hz=10) as recorder:
        recorder.write(moment(0))
        recorder.flush()
        before = path.read_bytes()
        with pytest.raises(SessionError, match="still being written"):
            blank(path, [0])
        assert path.read_bytes() == before
        killed = tmp_path / "killed.mcap"
        killed.write_bytes(before)
    os.utime(killed, (0, 0))  # from a life that was killed long ago
    blank(killed, [0])
    assert not holds(killed, marks(0)[0])


def test_a_memory_recalls_and_forgets_the_ticks_it_points_to(session: Path, tmp_path: Path) -> None:
    named = identity(Session(session))
    with open_store(tmp_path / "memory") as store:
        memory = Memory(store, pointed=Pointed(tmp_path / "memory"))
        for number in (3, 5):
            pointer = Pointer("../life.mcap", number, named)
            memory.write(Moment(0.0, {"words": f"said {number}"}), {"sight": key(number)}, pointer=pointer)
        (found,) = memory.recall({"sight": key(3)}, k=1)
        np.testing.assert_array_equal(found.senses["sight"], picture(3))
        assert memory.forget(Filters(words="said 3")) == 1
        assert not any(holds(session, mark) for mark in marks(3))
        assert holds(session, marks(5)[0])
        (found,) = memory.recall({"sight": key(5)}, k=1)
        np.testing.assert_array_equal(found.senses["sight"], picture(5))
        with pytest.raises(StoreError, match="point into recordings"):
            Memory(store).forget(Filters())
        (tmp_path / "away").mkdir()
        session.rename(tmp_path / "away" / "moved.mcap")
        assert memory.get([2])[0].senses == {"words": "said 5"}
        assert "is not there" in memory.erase([2])[0]
        assert store.find() == []


def test_another_recording_of_the_same_name_is_not_touched(session: Path, tmp_path: Path) -> None:
    pointed = Pointed(tmp_path)
    place = Pointer("life.mcap", 2, "some other recording")
    before = session.read_bytes()
    assert pointed.fetch(place) is None
    assert "another recording" in pointed.forget([place])[0]
    assert session.read_bytes() == before


def test_parts_of_one_recording_have_different_identities(tmp_path: Path) -> None:
    with Recorder(tmp_path / "r.mcap", source="test", tick_hz=10, rotate_s=0.3) as recorder:
        for number in range(6):
            recorder.write(moment(number))
        paths = recorder.paths
    assert len({identity(Session(path)) for path in paths}) == len(paths) == 2


def pointing(store: Any, folder: Path, number: int, session: str, named: str) -> int:
    memory = Memory(store, pointed=Pointed(folder))
    pointer = Pointer(session, number, named)
    return memory.write(Moment(0.0, {"words": f"said {number}"}), {"sight": key(number)}, pointer=pointer).id


def test_a_damaged_recording_keeps_its_entries_and_blocks_no_others(session: Path, tmp_path: Path) -> None:
    named = identity(Session(session))
    bad = tmp_path / "bad.mcap"
    shutil.copy(session, bad)
    with open_store(tmp_path / "memory") as store:
        ids = [pointing(store, tmp_path, 3, "life.mcap", named), pointing(store, tmp_path, 4, "bad.mcap", named)]
        ids.append(store.add([Entry(0.0, 0.0, None, {"sight": key(9)}, {"words": "alone"})])[0])
        damaged = bytearray(bad.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        bad.write_bytes(damaged)
        with pytest.raises(KeptError, match=r"bad.mcap' is damaged.*So 1 of 3 entries stay") as told:
            Memory(store, pointed=Pointed(tmp_path)).erase(ids)
        assert told.value.kept == 1
        assert [one.id for one in store.find()] == [ids[1]]
        assert not any(holds(session, mark) for mark in marks(3))
        assert bad.read_bytes() == damaged


def test_a_hard_link_is_refused_and_a_symbolic_link_is_followed(session: Path, tmp_path: Path) -> None:
    named, whole = identity(Session(session)), session.read_bytes()
    backup = tmp_path / "backup.mcap"
    os.link(session, backup)
    told = Pointed(tmp_path).forget([Pointer("life.mcap", 3, named)])
    assert "hard link" in told[0]
    assert backup.read_bytes() == whole
    assert not any(holds(session, mark) for mark in marks(3))
    link = tmp_path / "link.mcap"
    link.symlink_to("life.mcap")
    Pointed(tmp_path).forget([Pointer("link.mcap", 5, named)])
    assert link.is_symlink()
    assert not any(holds(session, mark) for mark in marks(5))
    assert len(Session(session)) == 8


def test_a_pipe_is_refused_without_blocking(tmp_path: Path) -> None:
    pipe = tmp_path / "life.mcap"
    os.mkfifo(pipe)
    assert "is not there" in Pointed(tmp_path).forget([Pointer("life.mcap", 0, "x")])[0]
    with pytest.raises(SessionError, match="a pipe or a device"):
        Session(pipe)
    assert Pointed(tmp_path).fetch(Pointer("life.mcap", 0, "x")) is None
