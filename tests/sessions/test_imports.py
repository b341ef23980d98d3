"""Files are recognised by their content; and the shared conversion of events to Moments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from devmind.errors import SessionError
from devmind.moment import Moment
from devmind.sessions import import_any, open_session
from devmind.sessions.importing import Event, episode_steps, tick_of
from devmind.sessions.imports import kind_of
from tests.sessions.robots import write_foxglove, write_ros1, write_ros2


def test_every_kind_of_file_is_recognised_under_any_name(tmp_path: Path) -> None:
    bag1 = write_ros1(tmp_path / "a.bag")
    bag2 = write_ros2(tmp_path / "two")
    mcap = write_foxglove(tmp_path / "a.mcap", "json").rename(tmp_path / "noname")
    (tmp_path / "dataset/meta").mkdir(parents=True)
    (tmp_path / "dataset/meta/info.json").write_text("{}")
    soundfile.write(tmp_path / "a.wav", np.zeros(16000), 16000)
    assert kind_of(bag1) == ("bag", bag1)
    assert kind_of(bag2) == kind_of(bag2 / "metadata.yaml") == kind_of(next(bag2.glob("*.db3"))) == ("bag", bag2)
    assert kind_of(mcap) == ("mcap", mcap)
    assert kind_of(tmp_path / "dataset")[0] == "lerobot"
    assert kind_of(tmp_path / "a.wav")[0] == kind_of(tmp_path)[0] == kind_of(tmp_path / "nothing")[0] == "media"
    for k, path in enumerate((bag1, bag2, mcap, tmp_path / "a.wav")):
        assert len(open_session(import_any(path, tmp_path / f"out{k}.mcap").path)) == 10


def test_impossible_imports_are_refused(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(16000), 16000)
    mcap, out = write_foxglove(tmp_path / "a.mcap", "json"), tmp_path / "out.mcap"
    with pytest.raises(SessionError, match="imported alone"):
        import_any([tmp_path / "a.wav", mcap], out)
    with pytest.raises(SessionError, match="no topics"):
        import_any(tmp_path / "a.wav", out, topic="/cam")
    with pytest.raises(SessionError, match="would replace what is imported"):
        import_any(mcap, mcap, overwrite=True)
    for name, says in (("notes.sqlite", "a folder with metadata.yaml"), ("lonely.db3", "not a database")):
        (tmp_path / name).write_bytes(b"SQLite format 3\0 and so on")
        with pytest.raises(SessionError, match=says):
            import_any(tmp_path / name, out)
    renamed = tmp_path / "bag.dat"
    renamed.write_bytes(b"#ROSBAG V2.0\n")
    with pytest.raises(SessionError, match="rosbag reindex"):
        import_any(renamed, out)
    for path in (tmp_path / "nothing", tmp_path / "empty"):
        with pytest.raises(SessionError, match=r"No such file|is empty"):
            import_any(path, out)
        (tmp_path / "empty").write_bytes(b"")
    assert not out.exists()


def test_events_of_a_tick_become_one_step() -> None:
    events = [
        Event(1, "sense", "words", "go"),
        Event(1, "sense", "body", np.ones(1, np.float32)),
        Event(1, "sense", "words", "left"),
        Event(1, "sense", "body", np.zeros(1, np.float32)),
        Event(1, "reward", value=0.5),
        Event(1, "reward", value=2),
        Event(3, "effector", "look", np.zeros(2, np.float32)),
        Event(4, "acted"),
        Event(4, "picture", value=lambda: None),
        Event(4, "terminal"),
    ]
    steps = list(episode_steps(events, 10, "it", "empty"))
    assert [m.time_s for m, _ in steps] == [0.0, 0.1, 0.2, 0.3, 0.4]
    assert steps[0][0] == Moment(0.0, first=True)
    assert steps[1][0] == Moment(0.1, {"body": np.zeros(1, np.float32), "words": "go left"}, 2.5)
    assert [action is not None for _, action in steps] == [False, False, False, True, True]
    assert steps[4][0] == Moment(0.4, last=True, terminal=True), "a damaged picture is an absent one"
    with pytest.raises(SessionError, match=r"^empty$"):
        list(episode_steps([], 10, "it", "empty"))
    with pytest.raises(SessionError, match="'it' jump by over 3600 s"):
        list(episode_steps([Event(0, "acted"), Event(36002, "acted")], 10, "it", "empty"))
    with pytest.raises(SessionError, match=r"'it' go back by 0\.5 s"):
        list(episode_steps([Event(7, "acted"), Event(3, "acted")], 10, "it", "empty"))


def test_tick_of_tolerates_rounding() -> None:
    assert [tick_of(np.float32(k / 10), 10) for k in range(100)] == list(range(100))
    assert tick_of(0.198, 10) == 1
