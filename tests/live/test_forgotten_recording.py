"""Memories of a life point into its running recording, so forgetting reaches both."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap.records import Message

from devmind.config import LiveConfig, MemoryConfig
from devmind.errors import SessionError, StoreError
from devmind.live.learning.following import Following
from devmind.live.recording import Recording
from devmind.memory import Filters, Key, Memory, Names, Pointer, open_store
from devmind.moment import Moment
from devmind.sessions import turning
from devmind.sessions.background import BackgroundRecorder
from devmind.sessions.mcap_file import McapFile
from devmind.sessions.metadata import part_path
from devmind.sessions.parts import open_parts, parts
from devmind.sessions.pointed import FORGOTTEN, Pointed
from devmind.sessions.reader import Session
from devmind.sessions.recorder import Recorder
from devmind.sessions.repair import repair
from devmind.sessions.salvage import Whole, pieces
from devmind.sessions.turning import request_path
from tests.live.test_life import HZ, Home, run

__all__ = ["run"]
NAME = "Zanzibar"


def noise(number: int) -> np.ndarray:
    """Compression cannot hide its bytes from a scan."""
    return np.random.default_rng(number).integers(0, 256, (24, 24, 3), dtype=np.uint8)


def frame(number: int) -> bytes:
    return b"\xff\xd8" + np.random.default_rng(10**4 + number).bytes(2000) + b"\xff\xd9"


def moment(number: int) -> Moment:
    return Moment(number / 10, {"sight": noise(number), "words": f"said {number}."}, first=number == 0)


def key(seed: int) -> Key:
    vector = np.random.default_rng(seed).normal(size=64)
    return Key((vector / np.linalg.norm(vector)).astype(np.float32), "a")


def everything(path: Path) -> bytes:
    """The bytes of the file, and of the unpacked messages in its chunks."""
    inside = (one.data for piece in pieces(path) if isinstance(piece, Whole) for one in piece.records
              if isinstance(one, Message))  # fmt: skip
    return path.read_bytes() + b"".join(inside)


def holding(folder: Path, number: int) -> list[str]:
    """The places where something of a tick remains: its picture, its camera's frame, its words."""
    marks = (noise(number).tobytes()[200:260], frame(number)[100:160], f"said {number}.".encode())
    files = sorted(folder.glob("*.mcap*"))
    return [file.name for file in files if any(mark in everything(file) for mark in marks)]


class Writing:
    """A life's recorder, driven at ten ticks a second of its own clock as fast as possible; it remembers some."""

    def __init__(self, folder: Path, rotate_s: float = 600.0) -> None:
        self.folder = folder
        self.recorder = BackgroundRecorder(
            folder / "life.mcap", source="test", tick_hz=10, rotate_s=rotate_s, details={"world": "none"}
        )
        self.next = 0

    def live(self, ticks: int) -> None:
        for number in range(self.next, self.next + ticks):
            self.recorder.write(moment(number))
            self.recorder.frame(frame(number), number / 10)
            self.recorder.flush()
        self.next += ticks

    def pointer(self, first: int, last: int) -> Pointer:
        place = self.recorder.place(first / 10, last / 10)
        assert place is not None
        path, identity, number, count = place
        return Pointer(path.name, number, identity, count)


@pytest.fixture
def writing(tmp_path: Path) -> Writing:
    return Writing(tmp_path)


def test_forgetting_reaches_the_running_recording(writing: Writing, tmp_path: Path) -> None:
    writing.live(20)
    pointer = writing.pointer(8, 12)
    assert (pointer.tick, pointer.span) == (12, 5)
    memory = Memory(open_store(tmp_path / "mind"), pointed=Pointed(tmp_path))
    memory.write(Moment(0.0, {"words": "held"}), {"sight": key(1)}, name=NAME, pointer=pointer)
    writing.live(3)
    assert memory.get([1])[0].senses == {"words": "held"}, "what is whole is not filled up from the recording"
    assert all(holding(tmp_path, number) for number in range(23))
    assert memory.erase([1]) == []
    assert [number for number in range(23) if not holding(tmp_path, number)] == list(range(8, 13))
    assert not any(NAME.encode() in everything(file) for file in tmp_path.glob("*.mcap"))
    writing.live(10)  # it continues, and nothing of it is lost
    writing.recorder.close()
    moments = [one for session in open_parts(tmp_path / "life.mcap") for one, _ in session]
    assert [round(10 * one.time_s) for one in moments] == list(range(33))
    assert [number for number, one in enumerate(moments) if not one.senses] == list(range(8, 13))
    for number in set(range(33)) - set(range(8, 13)):
        np.testing.assert_array_equal(moments[number].senses["sight"], noise(number))
    assert writing.recorder.dropped.total() == 0
    assert not list(tmp_path.glob("*.turn")) + list(tmp_path.glob("*.part"))
    memory.store.close()


def test_paused_life_is_not_taken_for_a_dead_one(writing: Writing, tmp_path: Path) -> None:
    """Regression: ten seconds after the last tick its file was replaced, and later ticks were lost."""
    writing.live(5)
    pointer = writing.pointer(2, 2)
    writing.recorder.flush()  # all is on the disk, and nothing waits
    for part in parts(tmp_path / "life.mcap"):
        os.utime(part, (0, 0))
    assert Pointed(tmp_path).forget([pointer]) == []
    assert not holding(tmp_path, 2)
    writing.live(5)
    writing.recorder.close()
    assert sum(len(session) for session in open_parts(tmp_path / "life.mcap")) == 10


def test_ticks_and_frames_across_two_parts_are_removed(tmp_path: Path) -> None:
    writing = Writing(tmp_path, rotate_s=0.5)
    writing.live(17)
    pointer = writing.pointer(3, 11)
    assert (pointer.session, pointer.tick, pointer.span) == ("life-0003.mcap", 1, 9)
    assert Pointed(tmp_path).forget([pointer]) == []
    writing.recorder.close()
    assert [number for number in range(17) if not holding(tmp_path, number)] == list(range(3, 12))
    moments = [one for session in open_parts(tmp_path / "life.mcap") for one, _ in session]
    assert [number for number, one in enumerate(moments) if not one.senses] == list(range(3, 12))
    shown = [round(10 * one.time_s) for session in open_parts(tmp_path / "life.mcap") for one in session.frames()]
    assert shown == [0, 1, *range(13, 17)], "frames within a tick of one that is forgotten go, in every part"


def test_part_without_ticks_between_two_others_hides_nothing(tmp_path: Path) -> None:
    """Regression from drawn lives: two requests between two ticks leave an empty part, and forgetting failed."""
    with Recorder(tmp_path / "life.mcap", source="test", tick_hz=10, rotate_s=600) as recorder:
        for number in range(5):
            recorder.write(moment(number))
            for _ in range(2 if number == 2 else 0):
                request_path(recorder.place[0]).touch()
                recorder.turn_if_wanted()
        path, identity, last = recorder.place
    assert [len(session) for session in open_parts(tmp_path / "life.mcap")] == [3, 0, 2]
    assert Pointed(tmp_path).forget([Pointer(path.name, last, identity, 4)]) == []
    assert [number for number in range(5) if not holding(tmp_path, number)] == [1, 2, 3, 4]


def test_forgetting_reaches_repaired_copies_and_renamed_files(writing: Writing, tmp_path: Path) -> None:
    writing.live(10)
    pointer = writing.pointer(4, 5)
    writing.recorder.close()
    repair(tmp_path / "life.mcap", tmp_path / "copy.mcap")
    (tmp_path / "life.mcap").rename(tmp_path / "renamed.mcap")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "away.mcap").write_bytes((tmp_path / "copy.mcap").read_bytes())
    assert Pointed(tmp_path).forget([pointer]) == []
    assert [number for number in range(10) if not holding(tmp_path, number)] == [4, 5]
    assert holding(tmp_path / "other", 4), "what lies in another folder is not known of"
    for file in tmp_path.glob("*.mcap"):
        file.unlink()
    assert "is not there; if it was moved" in Pointed(tmp_path).forget([pointer])[0]


def test_killed_writer_leaves_no_lock_and_a_living_one_keeps_its_own(tmp_path: Path) -> None:
    with Recorder(tmp_path / "life.mcap", source="test", tick_hz=10, rotate_s=600) as recorder:
        for number in range(4):
            recorder.write(moment(number))
        recorder.flush()
        cut = tmp_path / "cut"
        cut.mkdir()
        (cut / "life.mcap").write_bytes((tmp_path / "life.mcap").read_bytes())  # as after a kill, just written
        path, identity, number = recorder.place
        pointer = Pointer(path.name, number, identity, 2)
        assert Pointed(cut).forget([pointer]) == []
        assert not holding(cut, 3)
        done: list[list[str]] = []
        forgetting = threading.Thread(target=lambda: done.append(Pointed(tmp_path).forget([pointer])))
        forgetting.start()
        while not request_path(path).exists():
            time.sleep(0.01)
        while forgetting.is_alive():  # the life goes on and first ends the part at its next tick
            number += 1
            recorder.write(moment(number))
            time.sleep(0.02)
        assert done == [[]]
        assert len(recorder.paths) > 1
    assert [number for number in range(number + 1) if not holding(tmp_path, number)] == [2, 3]


@pytest.mark.parametrize("step_s", [-3600.0, 86400.0])
def test_without_system_locks_no_clock_tells_a_dead_writer_from_a_living_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    monkeypatch.setattr(turning, "hold", lambda file: None)
    monkeypatch.setattr(turning, "QUIET_S", 0.5)

    def set_clock(path: Path) -> None:
        """As if the wall clock had been set by `step_s` since the last write."""
        os.utime(path, (time.time() - step_s, time.time() - step_s))

    with Recorder(tmp_path / "life.mcap", source="test") as recorder:  # one that does not turn when asked
        recorder.write(moment(0))
        recorder.flush()
        cut = tmp_path / "cut.mcap"
        cut.write_bytes(recorder.path.read_bytes())
        set_clock(cut)
        with turning.hold_recording(cut) as file:
            assert file.read(8) == b"\x89MCAP0\r\n"
        set_clock(recorder.path)
        refused: list[str] = []

        def rewrite() -> None:
            try:
                with turning.hold_recording(recorder.path, patience_s=0.1):
                    pass
            except SessionError as error:
                refused.append(str(error))

        rewriting = threading.Thread(target=rewrite)
        rewriting.start()
        number = 0
        while rewriting.is_alive():
            number += 1
            recorder.write(moment(number))
            recorder.flush()
            time.sleep(0.02)
    assert "is still being written" in refused[0]
    assert len(Session(tmp_path / "life.mcap")) == number + 1


def test_learner_reads_on_after_forgetting_in_the_recording(writing: Writing, tmp_path: Path) -> None:
    writing.live(10)
    pointer = writing.pointer(3, 4)
    following = Following(tmp_path / "life.mcap")
    assert following.refresh() == 10
    Pointed(tmp_path).forget([pointer])
    assert [sorted(one.senses) for one in following.moments(2, 4)] == [["sight", "words"], [], [], ["sight", "words"]]
    writing.live(5)
    writing.recorder.flush()
    assert following.refresh() == 5
    np.testing.assert_array_equal(following.moments(14, 1)[0].senses["sight"], noise(14))
    writing.recorder.close()


@pytest.mark.parametrize("again", [False, True])
def test_press_that_outlasts_its_recording_points_into_it(tmp_path: Path, again: bool) -> None:
    recording = Recording(tmp_path / "one.mcap", {}, LiveConfig(hz=10))
    recording.begin({"agent_sha256": "x"}, [])
    assert recording.recorder is not None
    recording.recorder.write(moment(0))
    recording.stop()
    assert (pointer := recording.pointer(0.0, 1.0)) is not None
    assert (pointer.session, pointer.tick, pointer.span) == (str(tmp_path / "one.mcap"), 0, 1)
    recording.finish()
    assert recording.pointer(0.0, 1.0) == pointer
    assert recording.pointer(0.5, 1.0) is None


def test_recording_that_begins_while_a_place_is_sought_does_not_disturb_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: memory's thread met a RuntimeError, because the list of recordings grew in its loop."""
    recording = Recording(tmp_path / "0.mcap", {}, LiveConfig(hz=10))

    def begin(number: int) -> None:
        recording.stop()
        recording.path, recording.files = tmp_path / f"{number}.mcap", []
        recording.begin({"agent_sha256": "x"}, [])

    begin(0)
    assert recording.recorder is not None
    recording.recorder.write(moment(0))
    begin(1)
    place = BackgroundRecorder.place

    def slowly(self: BackgroundRecorder, since_s: float, until_s: float) -> Any:
        found = place(self, since_s, until_s)
        if self.path.name == "1.mcap":
            begin(2)
        return found

    monkeypatch.setattr(BackgroundRecorder, "place", slowly)
    pointer = recording.pointer(0.0, 1.0)
    assert pointer is not None
    assert pointer.session == str(tmp_path / "0.mcap")
    recording.end()


@pytest.fixture
def home(run: Path, tmp_path: Path) -> Home:
    keep = MemoryConfig(recalled=0, novelty=1e-6, shortest_s=0.2, longest_s=1, keep="recorded")
    home = Home(run, tmp_path, remembering=keep)
    home.life.memory.pointed = Pointed(tmp_path)
    return home


def taught_by(home: Home) -> bool:
    """A press; on a busy machine it may have too few pictures and is repeated."""
    with suppress(StoreError):
        home.wait(lambda: home.life.holding.square)
        return bool(home.life.do("teach", {"name": NAME}))
    return False


def test_life_forgets_the_recording_of_a_name(home: Home, tmp_path: Path) -> None:
    """A thing is named and forgotten, and the running recording has neither its name nor its senses."""
    with home:
        life, path = home.life, tmp_path / "kept" / "s.mcap"
        life.do("record", {"on": True})
        home.wait(lambda: taught_by(home))
        (taught,) = life.memory.store.find(Filters(name=NAME))
        assert taught.pointer is not None
        assert taught.pointer.span > 1, "a press lasts a second at least; a busy machine skips ticks of it"
        lived = Filters(named=False, session=taught.pointer.identity)
        (kept, *_) = home.wait(lambda: life.memory.store.find(lived))
        assert kept.pointer is not None
        assert kept.pointer.span == 1
        moment = Session(path)[kept.pointer.tick][0]
        np.testing.assert_array_equal(moment.senses["sight"], kept.senses["sight"])
        home.ticks(2)
        life.do("forget", {"name": NAME})
        assert not any(NAME.encode() in everything(file) for file in path.parent.glob("*"))
        home.ticks(HZ)
        life.do("record", {"on": False})
    span = range(taught.pointer.tick + 1 - taught.pointer.span, taught.pointer.tick + 1)
    first, *rest = open_parts(path)
    assert [tick for tick, (moment, _) in enumerate(first) if not moment.senses] == list(span)
    assert [note.data["tick"] for note in first.notes if note.kind == FORGOTTEN] == list(span)
    begin_s, end_s = (first.elapsed_s(tick) for tick in (span[0], span[-1]))  # a busy machine skips ticks
    assert not any(begin_s - 1 / HZ < frame.time_s < end_s + 1 / HZ for frame in first.frames())
    assert rest, "it went on in a next part"
    assert part_path(path, 2).exists()
    assert not any(note.kind == FORGOTTEN for session in rest for note in session.notes)
    everywhere = [moment.time_s for session in (first, *rest) for moment, _ in session]
    assert np.all(np.diff(everywhere) > 0)
    assert {note.kind: note.data for session in (first, *rest) for note in session.notes}["name_forgotten"] == {
        "count": 1
    }


def test_forgetting_reports_a_missing_recording(writing: Writing, tmp_path: Path) -> None:
    writing.live(20)
    memory, told = Memory(open_store(tmp_path / "mind"), pointed=Pointed(tmp_path)), list[str]()
    memory.write(Moment(0.0, {"words": "held"}), {"sight": key(1)}, name=NAME, pointer=writing.pointer(8, 12))
    writing.recorder.close()
    for part in parts(tmp_path / "life.mcap"):
        part.unlink()
    assert Names(memory).forget(NAME, told.append) == 1
    assert "is not there" in " ".join(told)
    memory.store.close()


@pytest.mark.skipif(os.name == "nt", reason="there are no such rights")
def test_part_is_private_from_its_first_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[int] = []
    begun = McapFile.__init__

    def noting(self: McapFile, *arguments: Any, **named: Any) -> None:
        begun(self, *arguments, **named)
        modes.append(Path(arguments[0]).stat().st_mode & 0o777)

    monkeypatch.setattr(McapFile, "__init__", noting)
    before = os.umask(0)
    try:
        writing = Writing(tmp_path, rotate_s=0.5)
        writing.live(12)
        writing.recorder.close()
    finally:
        os.umask(before)
    assert len(modes) >= 2
    assert set(modes) == {0o600}
