"""Bags made by rosbags' own writers: ROS 1, ROS 2 in SQLite and in MCAP, and broken ones."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import yaml

from devmind.errors import SessionError
from devmind.sessions import open_session
from devmind.sessions.bags import import_bag
from devmind.sessions.imports import import_any
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
    monkeypatch.setitem(sys.modules, "rosbags.rosbag1", None)
    with pytest.raises(SessionError, match=r"pip install 'devmind\[robots\]'"):
        import_bag(bag, tmp_path / "a.mcap")


def joints_of_two_drivers(store: Any) -> Sent:
    """An arm and a hand publish on one topic, the hand 20 ms later and with its joints in turns."""
    joints = store.types["sensor_msgs/msg/JointState"]
    header = _header(store)
    for k in range(4):
        for late, names, at in (
            (0.0, ["shoulder", "elbow"], [k, k + 0.5]),
            (0.02, ["left", "right"] if k % 2 else ["right", "left"], [100, 200] if k % 2 else [200, 100]),
        ):
            if k != 3 or not late:
                position = {"position": np.array(at, float), "velocity": np.array([]), "effort": np.array([])}
                yield (
                    "/joint_states",
                    "sensor_msgs/msg/JointState",
                    k / 10 + late,
                    joints(header=header, name=names, **position),
                )


def _header(store: Any) -> Any:
    stamp = store.types["builtin_interfaces/msg/Time"](sec=0, nanosec=0)
    return store.types["std_msgs/msg/Header"](stamp=stamp, frame_id="")


def test_joints_of_two_publishers_on_one_topic_go_by_name(tmp_path: Path) -> None:
    session = open_session(
        import_bag(write_ros2(tmp_path / "bag", sent=joints_of_two_drivers), tmp_path / "a.mcap").path
    )
    names = ["shoulder.position", "elbow.position", "right.position", "left.position"]
    assert session.names()["body"] == names
    bodies = [moment.senses["body"].tolist() for moment, _ in session]  # type: ignore[union-attr]
    assert bodies[:3] == [[k, k + 0.5, 200, 100] for k in range(3)]
    assert bodies[3][:2] == [3, 3.5]
    assert np.isnan(bodies[3][2:]).all(), "the hand sent nothing in the last tick"


def temperatures(store: Any, own: bool = True) -> Sent:
    """Ten temperatures on /temp, and ten messages of a type of one's own on /grip."""
    float64 = store.types["std_msgs/msg/Float64"]
    for k in range(10):
        yield "/temp", "std_msgs/msg/Float64", k / 10, float64(data=20.0 + k)
        if own:
            yield "/grip", "my_msgs/msg/Grip", k / 10, store.types["my_msgs/msg/Grip"](width=k / 10)


def with_own_type(folder: Path) -> Path:
    """A bag of Humble: SQLite without definitions of messages, one topic of a type of its own."""
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import get_types_from_msg

    from tests.sessions.robots import types_of_ros

    store = types_of_ros(2)
    store.register(get_types_from_msg("float64 width\n", "my_msgs/msg/Grip"))
    with Writer(folder, version=9, storage_plugin=StoragePlugin.SQLITE3) as writer:
        connections: dict[str, Any] = {}
        for topic, kind, seconds, message in temperatures(store):
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=store)
            writer.write(connections[topic], int((100 + seconds) * 1e9), store.serialize_cdr(message, kind))
    with sqlite3.connect(next(folder.glob("*.db3"))) as database:
        database.execute("UPDATE schema SET schema_version = 3")
        database.execute("DELETE FROM message_definitions")
        database.execute("ALTER TABLE topics DROP COLUMN type_description_hash")
    database.close()
    metadata = yaml.safe_load((folder / "metadata.yaml").read_text())
    for one in metadata["rosbag2_bagfile_information"]["topics_with_message_count"]:
        del one["topic_metadata"]["type_description_hash"]
    (folder / "metadata.yaml").write_text(yaml.safe_dump(metadata))
    return folder


def test_a_message_type_without_definition_hides_no_other_topic(tmp_path: Path) -> None:
    made = import_bag(with_own_type(tmp_path / "bag"), tmp_path / "a.mcap")
    assert [m.senses["temp"] for m, _ in open_session(made.path)] == [20.0 + k for k in range(10)]
    assert any("/grip" in sentence and "no definition of it" in sentence for sentence in made.warnings)


def _with_clock_unset(folder: Path) -> Path:
    """Simulated time: the first message of each topic came before /clock, at time 0."""
    with sqlite3.connect(next(folder.glob("*.db3"))) as database:
        database.execute("UPDATE messages SET timestamp = timestamp + 1700000000000000000")
        database.execute(
            "UPDATE messages SET timestamp = 0 WHERE id IN (SELECT min(id) FROM messages GROUP BY topic_id)"
        )
    database.close()
    text = (folder / "metadata.yaml").read_text()
    (folder / "metadata.yaml").write_text(
        text.replace("nanoseconds_since_epoch: 100000000000", "nanoseconds_since_epoch: 0")
    )
    return folder


def test_messages_from_before_the_clock_was_set_are_left_out(tmp_path: Path) -> None:
    made = import_bag(
        _with_clock_unset(write_ros2(tmp_path / "bag", sent=lambda store: temperatures(store, own=False))),
        tmp_path / "a.mcap",
    )
    assert [m.senses["temp"] for m, _ in open_session(made.path)] == [20.0 + k for k in range(1, 10)]
    assert made.warnings == ("1 of 10 messages on '/temp' are left out: the clock was not set yet.",)


def test_a_pause_of_two_hours_begins_another_episode(tmp_path: Path) -> None:
    def paused(store: Any) -> Sent:
        for topic, kind, seconds, message in temperatures(store, own=False):
            yield topic, kind, seconds + (7200 if seconds >= 0.5 else 0), message

    session = open_session(import_bag(write_ros2(tmp_path / "bag", sent=paused), tmp_path / "a.mcap").path)
    assert [(m.first, m.last) for m, _ in session] == [(k % 5 == 0, k % 5 == 4) for k in range(10)]
    assert [m.senses["temp"] for m, _ in session] == [20.0 + k for k in range(10)]


@pytest.mark.parametrize("storage", ["SQLITE3", "MCAP"])
def test_a_folder_whose_recorder_was_killed_is_read_without_its_metadata(tmp_path: Path, storage: str) -> None:
    bag = write_ros2(tmp_path / "bag", storage)
    (bag / "metadata.yaml").unlink()
    whole = import_bag(write_ros2(tmp_path / "whole", storage), tmp_path / "whole.mcap")
    for k, path in enumerate((bag, next(bag.iterdir()))):
        made = import_any(path, tmp_path / f"{k}.mcap")
        assert [m.senses.keys() for m, _ in open_session(made.path)] == [
            m.senses.keys() for m, _ in open_session(whole.path)
        ]


def test_messages_in_the_log_of_a_killed_database_are_not_lost_in_silence(tmp_path: Path) -> None:
    """rosbags 0.11.9 opens databases as immutable, so it reads past a write-ahead log (found by running it)."""
    bag = write_ros2(tmp_path / "bag", sent=lambda store: temperatures(store, own=False))
    database = next(bag.glob("*.db3"))
    with sqlite3.connect(database) as writing:
        writing.execute("PRAGMA journal_mode = WAL")
        writing.execute("UPDATE messages SET timestamp = timestamp + 1")
        writing.commit()
        killed = shutil.copytree(bag, tmp_path / "killed")
    writing.close()
    with pytest.raises(SessionError, match=r"db3-wal' holds messages.*wal_checkpoint"):
        import_bag(killed, tmp_path / "a.mcap")
    with sqlite3.connect(next(killed.glob("*.db3"))) as mended:
        mended.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    mended.close()
    assert import_bag(killed, tmp_path / "a.mcap").ticks == 10


def test_a_topic_is_read_where_metadata_and_data_differ_in_quality_of_service(tmp_path: Path) -> None:
    """rosbags 0.11.9 takes a folder's topic only where both tell the same profiles; rosbag2's own `talker` differs."""
    bag = write_ros2(tmp_path / "bag", sent=lambda store: temperatures(store, own=False))
    profile = (
        "- history: 1\n  depth: 10\n  reliability: 1\n  durability: 2\n  deadline:\n    sec: 9223372036\n    nsec: 1\n"
        "  lifespan:\n    sec: 9223372036\n    nsec: 1\n  liveliness: 1\n  liveliness_lease_duration:\n"
        "    sec: 9223372036\n    nsec: 1\n  avoid_ros_namespace_conventions: false"
    )
    with sqlite3.connect(next(bag.glob("*.db3"))) as database:
        database.execute("UPDATE topics SET offered_qos_profiles = ?", (profile,))
    database.close()
    made = import_bag(bag, tmp_path / "a.mcap")
    assert made.ticks == 10
    assert made.warnings == ()


def test_fewer_messages_than_promised_are_told(tmp_path: Path) -> None:
    bag = write_ros2(tmp_path / "bag", sent=lambda store: temperatures(store, own=False))
    with sqlite3.connect(next(bag.glob("*.db3"))) as database:
        database.execute("DELETE FROM messages WHERE id > 7")
    database.close()
    made = import_bag(bag, tmp_path / "a.mcap")
    assert made.warnings == ("The recording promises 10 messages on '/temp', and 7 could be read.",)


def test_files_that_metadata_lists_out_of_order_are_read_in_order_of_time(tmp_path: Path) -> None:
    bag = write_ros2(tmp_path / "bag", sent=lambda store: temperatures(store, own=False))
    first = next(bag.glob("*.db3"))
    second = shutil.copy(first, bag / "bag_1.db3")
    for path, which in ((first, ">= 100500000000"), (second, "< 100500000000")):
        with sqlite3.connect(path) as database:
            database.execute(f"DELETE FROM messages WHERE timestamp {which}")
        database.close()
    text = (bag / "metadata.yaml").read_text()
    listed = f"  - {first.name}\n"
    assert listed in text
    (bag / "metadata.yaml").write_text(text.replace(listed, f"  - bag_1.db3\n{listed}", 1))
    made = import_bag(bag, tmp_path / "a.mcap")
    assert [m.senses["temp"] for m, _ in open_session(made.path)] == [20.0 + k for k in range(10)]


def test_a_bag_that_was_cut_off_names_reindex_under_any_name(tmp_path: Path) -> None:
    whole = write_ros1(tmp_path / "a.bag")
    active = tmp_path / "a.bag.active"
    active.write_bytes(whole.read_bytes())
    assert import_any(active, tmp_path / "a.mcap").ticks == 10, "a whole bag is read under any name"
    active.write_bytes(whole.read_bytes()[:9000])
    with pytest.raises(SessionError, match="rosbag reindex"):
        import_any(active, tmp_path / "b.mcap")


def odd_messages(store: Any) -> Sent:
    """A robot's description of 48 kB, numbers whose count changes, a message of no content."""
    string, array = store.types["std_msgs/msg/String"], store.types["std_msgs/msg/Float32MultiArray"]
    layout = store.types["std_msgs/msg/MultiArrayLayout"](dim=[], data_offset=0)
    yield "/robot_description", "std_msgs/msg/String", 0.0, string(data="<robot>" * 6860)
    yield "/said", "std_msgs/msg/String", 0.0, string(data="hello")
    yield "/empty", "std_msgs/msg/Empty", 0.0, store.types["std_msgs/msg/Empty"](0)
    for k in range(8):
        data = array(layout=layout, data=np.arange(k % 4, dtype=np.float32))
        yield "/hits", "std_msgs/msg/Float32MultiArray", k / 10, data


def test_what_is_no_sense_is_told_by_how_many_messages_it_has(tmp_path: Path) -> None:
    made = import_bag(write_ros2(tmp_path / "bag", sent=odd_messages), tmp_path / "a.mcap")
    assert open_session(made.path)[0][0].senses.keys() == {"words"}
    assert open_session(made.path)[0][0].senses["words"] == "hello"
    for sentence in (
        "1 of 1 messages on '/robot_description' are left out: a text of over 1,000 letters is not taken for words.",
        "1 of 1 messages on '/empty' are left out: no numbers.",
        "2 of 8 messages on '/hits' are left out: no numbers.",
        "Messages on '/hits' have 1 to 3 numbers, so the sense 'hits' changes its shape: no encoder can be made for "
        "it.",
    ):
        assert sentence in made.warnings


def _pictures(encoding: str, step: int, data: np.ndarray) -> Callable[[Any], Sent]:
    def sent(store: Any) -> Sent:
        about = {"height": 4, "width": 4, "is_bigendian": 0, "encoding": encoding, "step": step}
        image = store.types["sensor_msgs/msg/Image"](header=_header(store), data=data, **about)
        yield "/cam", "sensor_msgs/msg/Image", 0.0, image

    return sent


BAYER = {"rggb": (0, 0), "bggr": (1, 1), "gbrg": (1, 0), "grbg": (0, 1)}
"""Where red stands in each square of two by two (ROS' image_encodings.hpp)."""


@pytest.mark.parametrize("order", BAYER)
@pytest.mark.parametrize("bits", [8, 16])
def test_bayer_pictures_of_industrial_cameras_have_the_right_colours(tmp_path: Path, order: str, bits: int) -> None:
    mosaic = np.zeros((4, 4), np.uint8 if bits == 8 else "<u2")
    row, column = BAYER[order]
    mosaic[row::2, column::2] = 200 << (bits - 8)  # red alone
    bag = write_ros2(
        tmp_path / "bag", sent=_pictures(f"bayer_{order}{bits}", 4 * bits // 8, mosaic.view(np.uint8).ravel())
    )
    sight = open_session(import_bag(bag, tmp_path / "a.mcap").path)[0][0].senses["sight"]
    assert isinstance(sight, np.ndarray)
    red, green, blue = sight.reshape(-1, 3).mean(0)
    assert red > 150
    assert green < 60
    assert blue < 10


@pytest.mark.parametrize(("encoding", "pixel"), [("yuv422_yuy2", (82, 90, 82, 240)), ("yuv422", (90, 82, 240, 82))])
def test_pictures_of_usb_cameras_have_the_right_colours(tmp_path: Path, encoding: str, pixel: tuple[int, ...]) -> None:
    """Pure red is Y 82, U 90, V 240 in BT.601's studio range; YUY2 begins with Y, UYVY with U."""
    bag = write_ros2(tmp_path / "bag", sent=_pictures(encoding, 8, np.tile(np.array(pixel, np.uint8), 8)))
    sight = open_session(import_bag(bag, tmp_path / "a.mcap").path)[0][0].senses["sight"]
    assert isinstance(sight, np.ndarray)
    red, green, blue = sight.reshape(-1, 3).mean(0)
    assert red > 250
    assert max(green, blue) < 5


def test_the_reason_why_the_only_pictures_are_left_out_is_told_at_once(tmp_path: Path) -> None:
    bag = write_ros2(tmp_path / "bag", sent=_pictures("16UC1", 8, np.zeros(32, np.uint8)))
    with pytest.raises(SessionError, match=r"nothing that can be sensed.*its encoding '16UC1' is no picture"):
        import_bag(bag, tmp_path / "a.mcap")
