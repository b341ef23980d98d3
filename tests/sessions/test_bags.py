"""Bags made by rosbags' own writers: ROS 1, ROS 2 in SQLite and in MCAP, and broken ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from devmind.errors import SessionError
from devmind.sessions import open_session
from devmind.sessions.bags import import_bag
from tests.sessions.robots import Sent, tone, write_ros1, write_ros2

KINDS: dict[str, Callable[..., Path]] = {
    "ros1": lambda folder, **more: write_ros1(folder / "a.bag", **more),
    "ros2_sqlite": lambda folder, **more: write_ros2(folder / "bag", **more),
    "ros2_mcap": lambda folder, **more: write_ros2(folder / "bag", "MCAP", **more),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_bag_is_imported_as_what_was_sensed(tmp_path: Path, kind: str) -> None:
    made = import_bag(KINDS[kind](tmp_path), tmp_path / "a.mcap")
    session = open_session(made.path)
    assert len(session) == made.ticks == 10
    for k, (moment, action) in enumerate(session):
        assert action is None
        assert (moment.senses["sight"] == 20 * k + 10).all(), "the last picture of the tick"
        position = (5 * k + 4) / 50
        assert np.allclose(moment.senses["body"], [position, -position])  # type: ignore[arg-type]
        assert np.allclose(moment.senses["cmd_vel"], [position, 0, 0, 0, 0, 1])  # type: ignore[arg-type]
        assert ("words" in moment.senses) == (k == 3)
    assert session[3][0].senses["words"] == "go left"
    sound = np.concatenate([m.senses["sound"][0] for m, _ in session])  # type: ignore[index]
    assert np.array_equal(sound * 32768, tone(0, 16000)), "the messages' jitter is not in the samples"
    notes = {note.kind: note.data for note in session.notes}
    assert notes["names"]["body"] == ["hip.position", "knee.position"]
    assert notes["names"]["cmd_vel"][:2] == ["linear.x", "linear.y"]
    assert notes["ros"]["topics"]["/depth"] == "sensor_msgs/msg/Image"
    assert made.warnings == ("Left out: /depth (sensor_msgs/msg/Image).",)


def two_cameras(store: Any) -> Sent:
    """The first topic by name is depth, the next a JPEG that is damaged once, the last a grey picture."""
    types = store.types
    header = types["std_msgs/msg/Header"](
        **{"stamp": types["builtin_interfaces/msg/Time"](sec=0, nanosec=0), "frame_id": ""}
    )
    image, coded = types["sensor_msgs/msg/Image"], types["sensor_msgs/msg/CompressedImage"]
    for k in range(6):
        raw = {"header": header, "height": 4, "width": 4, "is_bigendian": 0}
        depth = image(**raw, encoding="16UC1", step=8, data=np.zeros(32, np.uint8))
        yield "/a/depth", "sensor_msgs/msg/Image", k / 10, depth
        jpeg = cv2.imencode(".jpg", np.full((8, 8, 3), 100, np.uint8))[1].ravel()
        data = jpeg if k != 2 else jpeg[:20]
        yield "/b/colour", "sensor_msgs/msg/CompressedImage", k / 10, coded(header=header, format="jpeg", data=data)
        grey = np.full((4, 6), 77, np.uint8)  # two bytes of each line are padding
        grey[:, 4:] = 0
        yield "/c/grey", "sensor_msgs/msg/Image", k / 10, image(**raw, encoding="mono8", step=6, data=grey.ravel())


def test_sight_comes_from_the_first_real_picture_topic_or_the_named_one(tmp_path: Path) -> None:
    bag = write_ros2(tmp_path / "bag", sent=two_cameras)
    made = import_bag(bag, tmp_path / "a.mcap")
    seen = [m.senses["sight"] for m, _ in open_session(made.path) if "sight" in m.senses]
    assert len(seen) == 5
    assert all(abs(int(picture.max()) - 100) <= 2 for picture in seen)  # type: ignore[union-attr]
    for words in ("'/a/depth' are left out: its encoding '16UC1'", "'/b/colour' are left out where", "/c/grey"):
        assert sum(words in sentence for sentence in made.warnings) == 1
    import_bag(bag, tmp_path / "b.mcap", topic="/c/grey")
    assert {m.senses["sight"].min() for m, _ in open_session(tmp_path / "b.mcap")} == {77}  # type: ignore[union-attr]
    with pytest.raises(SessionError, match="no pictures on '/c/gray'; did you mean '/c/grey'"):
        import_bag(bag, tmp_path / "c.mcap", topic="/c/gray")
    with pytest.raises(SessionError, match="its encoding '16UC1'"):
        import_bag(bag, tmp_path / "c.mcap", topic="/a/depth")
    assert not (tmp_path / "c.mcap").exists()


def only_clock(store: Any) -> Sent:
    """Messages without anything that can be sensed."""
    now = store.types["builtin_interfaces/msg/Time"](sec=1, nanosec=0)
    yield "/clock", "rosgraph_msgs/msg/Clock", 0.0, store.types["rosgraph_msgs/msg/Clock"](clock=now)


def _cut(bag: Path) -> None:
    for path in [bag] if bag.is_file() else [p for p in bag.iterdir() if p.suffix != ".yaml"]:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _empty_metadata(bag: Path) -> None:
    (bag / "metadata.yaml" if bag.is_dir() else bag).write_text("")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("breaks", [_cut, _empty_metadata])
def test_a_broken_bag_raises_one_sentence_and_leaves_nothing(
    tmp_path: Path, kind: str, breaks: Callable[[Path], None]
) -> None:
    bag = KINDS[kind](tmp_path)
    breaks(bag)
    with pytest.raises(SessionError, match=f"'{bag}' cannot be read") as raised:
        import_bag(bag, tmp_path / "out.mcap")
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == [bag]


def test_a_bag_without_sensed_data_lists_its_topics(tmp_path: Path) -> None:
    bag = write_ros2(tmp_path / "bag", sent=only_clock)
    with pytest.raises(SessionError, match=r"topics are: /clock \(rosgraph_msgs/msg/Clock\)"):
        import_bag(bag, tmp_path / "a.mcap")
    with pytest.raises(SessionError, match="its topics are: none"):
        import_bag(write_ros2(tmp_path / "empty", sent=lambda store: []), tmp_path / "a.mcap")


def test_without_rosbags_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bag = write_ros1(tmp_path / "a.bag")
    monkeypatch.setitem(sys.modules, "rosbags.highlevel", None)
    with pytest.raises(SessionError, match=r"pip install 'devmind\[robots\]'"):
        import_bag(bag, tmp_path / "a.mcap")
