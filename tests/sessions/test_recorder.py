"""Recording: what is flushed when, what a refused write leaves, and what other MCAP readers see."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foxglove_schemas_protobuf.RawImage_pb2 import RawImage
from mcap.reader import make_reader

from devmind.errors import SessionError
from devmind.moment import Action, Moment
from devmind.sessions import Recorder, mcap_file, open_session


def same(path: Path, steps: list) -> bool:
    return list(open_session(path)) == steps


def test_replay_equals_the_recording(tmp_path: Path, steps: list) -> None:
    path = tmp_path / "new" / "folder" / "a.mcap"
    with Recorder(path, source="test", details={"world": "nursery", "level": 3}) as writing:
        for moment, action in steps:
            writing.write(moment, action)
    assert same(path, steps)
    session = open_session(path)
    assert not session.truncated
    assert session.metadata["source"] == "test"
    assert session.metadata["world"] == "nursery"
    assert session.metadata["level"] == "3"
    assert {"created", "mcap", "numpy", "python"} <= session.metadata.keys()


def test_a_standard_reader_sees_every_message_and_the_pictures(tmp_path: Path, steps: list) -> None:
    path = tmp_path / "a.mcap"
    with Recorder(path, source="test") as writing:
        for moment, action in steps:
            writing.write(moment, action)
    with path.open("rb") as file:
        found = [(c.topic, s.name, m) for s, c, m in make_reader(file).iter_messages(log_time_order=False)]
    assert sum(topic == "/tick" for topic, _, _ in found) == len(steps)
    pictures = [RawImage.FromString(m.data) for topic, _, m in found if topic == "/moment/sight"]
    wanted = [moment.senses["sight"] for moment, _ in steps if "sight" in moment.senses]
    assert [p.data for p in pictures] == [w.tobytes() for w in wanted]
    assert {p.encoding for p in pictures} == {"rgb8"}
    assert {schema for topic, schema, _ in found if topic == "/moment/sound"} == {"foxglove.RawAudio", "devmind.Array"}
    times = [m.log_time for _, _, m in found]
    assert times == sorted(times), "viewers need one clock, also over two episodes that both begin at 0 s"


def test_data_reach_the_disk_every_half_second(tmp_path: Path) -> None:
    path, now = tmp_path / "a.mcap", [0.0]
    with Recorder(path, source="test", clock=lambda: now[0]) as writing:
        seen = []
        for k in range(12):
            now[0] = k / 10
            writing.write(Moment(k / 10, {"body": np.full(3, k, np.float32)}))
            seen.append(len(open_session(path)))
    assert seen == [0] * 5 + [6] * 5 + [11] * 2
    assert len(open_session(path)) == 12


def test_flush_writes_at_once(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.mcap", source="test") as writing:
        writing.write(Moment(0.0))
        writing.flush()
        assert len(open_session(writing.path)) == 1


def test_notes_come_back_at_their_tick(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    with Recorder(path, source="test") as writing:
        writing.note("weights", {"hash": "abc"})
        writing.write(Moment(0.0))
        writing.note("name", ["ball", 3, None])
        with pytest.raises(SessionError, match="plain JSON"):
            writing.note("name", np.zeros(3))
    session = open_session(path)
    assert [(n.tick, n.kind, n.data) for n in session.notes] == [
        (0, "weights", {"hash": "abc"}),
        (1, "name", ["ball", 3, None]),
    ]
    assert session.info()["notes"] == {"weights": 1, "name": 1}
    assert len(session) == 1


def test_a_refused_tick_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    good = Moment(0.0, {"body": np.zeros(2, np.float32)})
    with Recorder(path, source="test") as writing:
        writing.write(good)
        with pytest.raises(SessionError, match="'say' must be"):
            writing.write(good, Action({"look": np.zeros(2), "say": ["no", "array"]}))
        for time_s in (np.nan, np.inf, 1e30):
            with pytest.raises(SessionError, match="time_s"):
                writing.write(Moment(time_s))
        writing.write(good)
    assert same(path, [(good, None), (good, None)])


def test_an_existing_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    path.write_bytes(b"precious")
    with pytest.raises(SessionError, match="exists already"):
        Recorder(path, source="test")
    assert path.read_bytes() == b"precious"
    with Recorder(path, source="test", overwrite=True) as writing:
        writing.write(Moment(0.0))
    assert len(open_session(path)) == 1


def test_a_recording_that_is_being_written_is_never_replaced(tmp_path: Path, steps: list) -> None:
    pytest.importorskip("fcntl", reason="a system without file locks")
    path = tmp_path / "a.mcap"
    with Recorder(path, source="test") as writing:
        for moment, action in steps:
            writing.write(moment, action)
        writing.flush()
        with pytest.raises(SessionError, match="still being written"):
            Recorder(path, source="another", overwrite=True)
    assert same(path, steps)
    with Recorder(path, source="another", overwrite=True):
        assert open_session(path).metadata["source"] == "another"


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EPERM])
def test_a_read_only_folder_raises_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    usual = os.open

    def refuse(path: Any, *args: Any, **more: Any) -> int:
        if Path(path).suffix == ".mcap":
            raise OSError(code, "refused")
        return usual(path, *args, **more)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(SessionError, match="read-only") as raised:
        Recorder(tmp_path / "a.mcap", source="test")
    assert str(tmp_path) in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_a_file_raises_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SessionError, match="is a file, not a folder"):
        Recorder(tmp_path / "file" / "a.mcap", source="test")


class SmallDisk(io.FileIO):
    """A file whose disk is full after `room` bytes."""

    room = 60_000

    def write(self, data) -> int:  # type: ignore[no-untyped-def, override]
        if self.tell() + len(data) > self.room:
            super().write(bytes(data)[: max(0, self.room - self.tell())])
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcap_file, "create", lambda path, overwrite, mode: io.BufferedWriter(SmallDisk(path, "wb")))


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_raises_one_sentence_and_keeps_flushed_ticks(tmp_path: Path) -> None:
    path, now, rng = tmp_path / "a.mcap", [0.0], np.random.default_rng(0)
    pictures = rng.integers(0, 256, (30, 32, 32, 3), np.uint8)
    moments = [Moment(k / 10, {"sight": picture}) for k, picture in enumerate(pictures)]
    writing = Recorder(path, source="test", clock=lambda: now[0])

    def write_all() -> None:
        with writing:
            for now[0], moment in enumerate(moments):  # each is a second after the last, so each is flushed
                writing.write(moment)

    with pytest.raises(SessionError, match=r"disk .* is full.*first \d+ ticks are safe") as raised:
        write_all()
    session = open_session(path)
    assert session.truncated
    assert f"first {len(session)} ticks" in str(raised.value)
    assert 10 < len(session) < 30
    assert [moment for moment, _ in session] == moments[: len(session)]
    with pytest.raises(SessionError, match="is full"):
        writing.write(moments[0])
    writing.close()
    assert len(open_session(path)) == len(session)


@pytest.mark.usefixtures("full_disk")
def test_a_disk_that_is_full_at_once_leaves_no_file_that_blocks_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: an empty file stayed, and the same command was refused because it exists."""
    path = tmp_path / "a.mcap"
    monkeypatch.setattr(SmallDisk, "room", 20)
    with pytest.raises(SessionError, match="free some space, then start again") as raised:
        Recorder(path, source="test")
    assert "are safe" not in str(raised.value)
    assert not path.exists()
