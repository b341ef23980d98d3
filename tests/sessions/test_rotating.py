"""A long recording is several files, each complete, that read as one."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from devmind.errors import SessionError
from devmind.moment import Moment
from devmind.sessions import Recorder, describe, open_session, parts, replay


def moments(count: int, hz: float = 10) -> list[Moment]:
    return [Moment(100 + k / hz, {"body": np.full(2, k, np.float32)}, first=k == 0) for k in range(count)]


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """Three parts of one second, the last one shorter, with the hash of the weights at the start and again later."""
    with Recorder(tmp_path / "a.mcap", source="room", rotate_s=1.0, details={"camera": "0"}) as recorder:
        recorder.note("weights", {"agent_sha256": "one"})
        for k, moment in enumerate(moments(25)):
            if k == 15:
                recorder.note("weights", {"agent_sha256": "two"})
                recorder.note("name_taught", {"name": "ball"})
            recorder.write(moment)
            recorder.frame(np.zeros((8, 8, 3), np.uint8), moment.time_s + 0.02)
        assert recorder.ticks == 25
    return tmp_path / "a.mcap"


def test_each_part_is_complete_and_begins_with_the_current_notes(long: Path) -> None:
    sessions = [open_session(path) for path in parts(long)]
    assert [session.path.name for session in sessions] == ["a.mcap", "a-0002.mcap", "a-0003.mcap"]
    assert [len(session) for session in sessions] == [10, 10, 5]
    assert not any(session.truncated for session in sessions)
    assert [session.metadata["part"] for session in sessions] == ["1", "2", "3"]
    assert [session.metadata.get("continues") for session in sessions] == [None, "a.mcap", "a-0002.mcap"]
    assert {session.metadata["camera"] for session in sessions} == {"0"}
    noted = [[(note.tick, note.kind, note.data.get("agent_sha256")) for note in session.notes] for session in sessions]
    assert noted[0] == [(0, "weights", "one")]
    assert noted[1] == [(0, "weights", "one"), (5, "weights", "two"), (5, "name_taught", None)]
    assert noted[2] == [(0, "weights", "two")]


def test_part_begins_with_what_is_directed_so_that_it_can_be_checked_alone(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.mcap", source="room", rotate_s=0.2) as recorder:
        recorder.note("directed", {"effectors": ["look"]})
        for moment in moments(4):
            recorder.write(moment)
    for part in parts(tmp_path / "a.mcap"):
        assert [note.data for note in open_session(part).notes] == [{"effectors": ["look"]}]


def test_time_continues_over_the_parts(long: Path) -> None:
    sessions = [open_session(path) for path in parts(long)]
    times = [session.elapsed_s(k) for session in sessions for k in range(len(session))]
    assert times == pytest.approx([k / 10 for k in range(25)])
    frames = [frame.time_s for session in sessions for frame in session.frames()]
    assert frames == pytest.approx([k / 10 + 0.02 for k in range(25)])


def test_later_parts_are_as_private_as_the_first(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.mcap", source="room", rotate_s=0.2) as recorder:
        (tmp_path / "a.mcap").chmod(0o600)
        for moment in moments(5):
            recorder.write(moment)
    assert [path.stat().st_mode & 0o777 for path in recorder.paths] == [0o600] * 3


def test_all_parts_read_as_one_from_the_first(long: Path) -> None:
    assert [moment for moment, _ in replay(long)] == moments(25)
    info = describe(long)
    assert (info["ticks"], info["senses"]["body"]["count"], info["frames"]["count"]) == (25, 25, 25)
    assert info["duration_s"] == pytest.approx(2.5)
    assert len(info["parts"]) == 3
    assert [moment for moment, _ in replay(long.with_name("a-0003.mcap"))] == moments(25)[20:], "a later part is itself"


def test_a_renamed_recording_keeps_its_parts_and_excludes_others(long: Path, tmp_path: Path) -> None:
    for path in parts(long):
        shutil.copy(path, tmp_path / path.name.replace("a", "b", 1))
    with Recorder(tmp_path / "b-0007.mcap", source="test") as other:
        other.write(Moment(0.0))
    assert [path.name for path in parts(tmp_path / "b.mcap")] == ["b.mcap", "b-0002.mcap", "b-0003.mcap"]
    (tmp_path / "b-0002.mcap").unlink()
    assert describe(tmp_path / "b.mcap")["missing_parts"] == [2]
    shutil.copy(tmp_path / "b-0007.mcap", tmp_path / "c.mcap")
    shutil.copy(tmp_path / "b-0007.mcap", tmp_path / "c-0002.mcap")
    assert parts(tmp_path / "c.mcap") == [tmp_path / "c.mcap"], "a recording of one file has no parts"


def test_a_part_that_would_overwrite_a_file_is_refused_before_the_start(tmp_path: Path) -> None:
    (tmp_path / "a-0002.mcap").write_bytes(b"precious")
    with pytest.raises(SessionError, match=r"a-0002\.mcap.*exists already"):
        Recorder(tmp_path / "a.mcap", source="test", rotate_s=600)
    assert not (tmp_path / "a.mcap").exists()
    with Recorder(tmp_path / "a.mcap", source="test", overwrite=True, rotate_s=0.1) as recorder:
        for moment in moments(2):
            recorder.write(moment)
    assert len(list(replay(tmp_path / "a.mcap"))) == 2
    with pytest.raises(SessionError, match="one tick at least"):
        Recorder(tmp_path / "b.mcap", source="test", rotate_s=0.01)
