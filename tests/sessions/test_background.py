"""Recording in the background: callers never wait, dropped data are counted and reported, the rest reaches the disk."""

from __future__ import annotations

import contextlib
import errno
import io
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from devmind.errors import SessionError
from devmind.moment import Action, Moment
from devmind.sessions import BackgroundRecorder, Recorder, mcap_file, open_session, parts

FRAME = np.zeros((8, 8, 3), np.uint8)


def moment(k: int) -> Moment:
    return Moment(k / 10, {"body": np.full(4, k, np.float32)}, first=k == 0)


def numbers(path: Path) -> list[int]:
    return [int(moment.senses["body"][0]) for part in parts(path) for moment, _ in open_session(part)]


def test_buffers_that_the_caller_reuses_are_recorded_as_they_were_given(tmp_path: Path, disk: type[Disk]) -> None:
    """Regression: references were queued, so 199 of 200 ticks were recorded with the values of a later one."""
    body, look, picture = np.zeros(4, np.float32), np.zeros(2, np.float32), np.zeros((16, 24, 3), np.uint8)
    sight = np.zeros((64, 64, 3), np.uint8)[:, ::-1]  # a view

    def record(recorder: BackgroundRecorder | Recorder) -> None:
        with recorder:
            for k in range(100):
                for buffer in (body, look, picture, sight):
                    buffer[:] = 2 * k
                recorder.write(Moment(k / 10, {"body": body, "sight": sight, "words": f"{k}"}), Action({"look": look}))
                if k < 16:
                    recorder.frame(picture, k / 10)
            for buffer in (body, look, picture, sight):
                buffer[:] = 255
            disk.goes.set()

    record(Recorder(tmp_path / "foreground.mcap", source="test"))
    background = BackgroundRecorder(tmp_path / "background.mcap", source="test")
    disk.goes.clear()  # so that everything is changed before it is written
    record(background)
    first, second = open_session(tmp_path / "foreground.mcap"), open_session(tmp_path / "background.mcap")
    assert [int(action.effectors["look"][1]) for _, action in second if action] == [2 * k for k in range(100)]
    assert list(first) == list(second)
    shown = [[frame.picture() for frame in session.frames()] for session in (first, second)]
    assert len(shown[1]) == 16
    assert all(np.array_equal(a, b) for a, b in zip(*shown, strict=True))


def until(true: Callable[[], bool]) -> None:
    """Wait until `true()` holds; the limit is generous, since the machine may be busy."""
    end_s = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end_s, "it did not happen within 20 s"
        time.sleep(0.01)


class Disk(io.FileIO):
    """A file that writes only while `goes` is set, and is full after `room` bytes."""

    goes = threading.Event()
    room = 10**9

    def write(self, data) -> int:  # type: ignore[no-untyped-def, override]
        if not self.goes.wait(30):
            raise OSError(errno.EIO, "the test forgot the disk")
        if self.tell() + len(data) > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Disk]]:
    monkeypatch.setattr(mcap_file, "create", lambda path, overwrite, mode: io.BufferedWriter(Disk(path, "wb"), 16))
    Disk.goes.set()
    Disk.room = 10**9
    yield Disk
    Disk.goes.set()


def test_everything_is_written_in_order_from_the_thread(tmp_path: Path) -> None:
    with BackgroundRecorder(tmp_path / "a.mcap", source="test", rotate_s=2.0) as recorder:
        for k in range(45):
            recorder.note("recalled", {"ids": [k]})
            recorder.write(moment(k), Action({"look": np.full(2, k)}))
            recorder.frame(FRAME, k / 10)
            if k % 10 == 0:
                recorder.health({"camera": {"drops": k}})
                recorder.flush()
    assert (recorder.ticks, recorder.dropped_ticks, recorder.dropped_frames, recorder.backlog) == (45, 0, 0, 0)
    sessions = [open_session(path) for path in recorder.paths]
    assert [len(session) for session in sessions] == [20, 20, 5]
    assert numbers(recorder.path) == list(range(45))
    assert [note.data["ids"][0] for s in sessions for note in s.notes] == list(range(45))
    assert sum(session.frame_count for session in sessions) == 45
    assert [len(session.health) for session in sessions] == [2, 2, 1]
    with pytest.raises(SessionError, match="is closed"):
        recorder.write(moment(45))
    recorder.close()


def test_data_reach_the_disk_without_further_writes(tmp_path: Path) -> None:
    with BackgroundRecorder(tmp_path / "a.mcap", source="test") as recorder:
        recorder.write(moment(0))
        until(lambda: len(open_session(recorder.path)) == 1)
        recorder.write(moment(1))
        recorder.flush()
        assert numbers(recorder.path) == [0, 1]


def test_a_slow_disk_drops_frames_first_and_then_the_oldest_ticks(tmp_path: Path, disk: type[Disk]) -> None:
    recorder = BackgroundRecorder(tmp_path / "a.mcap", source="test", backlog_max=10, frames_max=4)
    recorder.write(moment(0))
    recorder.flush()
    disk.goes.clear()
    recorder.write(moment(1))
    until(lambda: recorder.backlog == 0)  # the thread holds tick 1 and is about to write it
    begun_s = time.monotonic()
    until_stuck = threading.Thread(target=lambda: _swallow(recorder.flush))
    until_stuck.start()
    until(lambda: recorder.backlog == 0)
    for k in range(2, 7):
        recorder.frame(FRAME, k / 10)
        recorder.write(moment(k))
    assert (recorder.dropped_ticks, recorder.dropped_frames, recorder.backlog) == (0, 1, 9)
    for k in range(7, 12):
        recorder.write(moment(k))
    assert (recorder.dropped_ticks, recorder.dropped_frames, recorder.backlog) == (0, 5, 10)
    recorder.note("recalled", {"ids": []})
    for k in range(12, 15):
        recorder.write(moment(k))
    assert (recorder.dropped_ticks, recorder.backlog) == (4, 10)
    assert time.monotonic() - begun_s < 10, "nobody waits for the disk"
    disk.goes.set()
    recorder.close()
    until_stuck.join()
    session = open_session(recorder.path)
    assert numbers(recorder.path) == [0, 1, *range(6, 15)]
    first = session.notes[0]
    assert (first.tick, first.kind, first.data) == (2, "lost", {"ticks": 4})
    assert session.episodes() == [range(2), range(2, 11)], "a lesson does not cross the gap"
    assert recorder.ticks == 11


def test_a_full_disk_is_reported_and_the_caller_continues(tmp_path: Path, disk: type[Disk]) -> None:
    disk.room = 20_000
    recorder = BackgroundRecorder(tmp_path / "a.mcap", source="test")
    rng = np.random.default_rng(0)
    for k in range(40):
        recorder.write(Moment(k / 10, {"sight": rng.integers(0, 256, (16, 16, 3), np.uint8)}))
        if not recorder.fault:
            _swallow(recorder.flush)
    assert "is full" in recorder.fault
    for _ in range(3):
        recorder.frame(FRAME, 4.0)
        recorder.note("weights", {})
    with pytest.raises(SessionError, match=r"is full.*first \d+ ticks are safe"):
        recorder.flush()
    with pytest.raises(SessionError, match="is full"):
        recorder.close()
    session = open_session(recorder.path)
    assert session.truncated
    assert 3 < len(session) < 40
    assert f"first {len(session)} ticks" in recorder.fault
    assert recorder.dropped_ticks > 0
    assert recorder.dropped_frames == 3


def test_an_invalid_tick_is_reported_and_the_rest_is_recorded(tmp_path: Path) -> None:
    with BackgroundRecorder(tmp_path / "a.mcap", source="test") as recorder:
        recorder.write(moment(0))
        recorder.write(Moment(float("nan")))
        recorder.write(moment(2))
        with pytest.raises(SessionError, match="plain JSON"):
            recorder.note("weights", np.zeros(3))
        recorder.flush()
        assert "time_s" in recorder.fault
    assert numbers(recorder.path) == [0, 2]
    assert [note.kind for note in open_session(recorder.path).notes] == ["lost"]
    with pytest.raises(SessionError, match="exists already"):
        BackgroundRecorder(tmp_path / "a.mcap", source="test")


def _swallow(call: Callable[[], None]) -> None:
    with contextlib.suppress(SessionError):
        call()
