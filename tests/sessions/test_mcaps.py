"""MCAP files of other programs: Foxglove messages as protobuf and JSON, ROS messages, complete, without index, cut."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap.writer import Writer

from devmind.errors import SessionError
from devmind.moment import Moment
from devmind.sessions import Recorder, open_session
from devmind.sessions.bags import import_mcap
from tests.sessions.robots import tone, types_of_ros, write_foxglove


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
@pytest.mark.parametrize("options", [{}, {"use_chunking": False}, {"use_statistics": False, "repeat_channels": False}])
def test_foxglove_messages_are_imported_as_what_was_sensed(
    tmp_path: Path, encoding: str, options: dict[str, Any]
) -> None:
    made = import_mcap(write_foxglove(tmp_path / "a.mcap", encoding, **options), tmp_path / "b.mcap")
    session = open_session(made.path)
    assert len(session) == 10
    assert all((m.senses["sight"] == 20 * k + 10).all() for k, (m, _) in enumerate(session))  # type: ignore[union-attr]
    sound = np.concatenate([m.senses["sound"][0] for m, _ in session])  # type: ignore[index]
    assert np.array_equal(sound * 32768, tone(0, 16000))
    assert [(k, m.senses["words"]) for k, (m, _) in enumerate(session) if "words" in m.senses] == [(3, "go left")]
    assert session[5][0].senses["pose"].tolist() == [1.5, 0, -2]  # type: ignore[union-attr]
    notes = {note.kind: note.data for note in session.notes}
    assert notes["names"] == {"pose": ["position.x", "position.y", "position.z"]}
    assert made.warnings == ("Left out: /secret (acme.Secret, encoded as mystery, which is not read).",)


@pytest.mark.parametrize(("version", "profile"), [(1, "ros1"), (2, "ros2")])
def test_ros_messages_without_a_bag_are_imported(tmp_path: Path, version: int, profile: str) -> None:
    store, kind = types_of_ros(version), "geometry_msgs/msg/PointStamped"
    types = store.types
    stamp = types["builtin_interfaces/msg/Time"](sec=7, nanosec=0)
    header = types["std_msgs/msg/Header"](**{"stamp": stamp, "frame_id": ""} | ({"seq": 3} if version == 1 else {}))
    message = types[kind](header=header, point=types["geometry_msgs/msg/Point"](x=1.0, y=2.0, z=3.0))
    data = store.serialize_ros1(message, kind) if version == 1 else store.serialize_cdr(message, kind)
    with (tmp_path / "a.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start(profile=profile)
        name = kind.replace("/msg", "") if version == 1 else kind
        text = store.generate_msgdef(kind, ros_version=version)[0].encode()
        schema = writer.register_schema(name, f"ros{version}msg", text)
        channel = writer.register_channel("/goal", "ros1" if version == 1 else "cdr", schema)
        for k in range(3):
            writer.add_message(channel, k * 10**8, bytes(data), k * 10**8)
        writer.finish()
    session = open_session(import_mcap(tmp_path / "a.mcap", tmp_path / "b.mcap").path)
    assert [m.senses["goal"].tolist() for m, _ in session] == [[1, 2, 3]] * 3  # type: ignore[union-attr]


def test_a_file_without_usable_topics_lists_topics_and_schemas(tmp_path: Path) -> None:
    with (tmp_path / "a.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start()
        for topic in ("/one", "/two"):
            channel = writer.register_channel(
                topic, "flatbuffer", writer.register_schema("acme.Thing", "flatbuffer", b"")
            )
            writer.add_message(channel, 0, b"?", 0)
        writer.finish()
    with pytest.raises(SessionError, match=r"/one \(acme.Thing, encoded as flatbuffer.*/two") as raised:
        import_mcap(tmp_path / "a.mcap", tmp_path / "b.mcap")
    assert "\n" not in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == ["a.mcap"]


def test_a_topic_with_an_invalid_schema_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    with (tmp_path / "a.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start()
        for topic, encoding, schema_encoding in (("/good", "json", "jsonschema"), ("/bad", "protobuf", "protobuf")):
            schema = writer.register_schema("acme.Thing", schema_encoding, b"garbage")
            channel = writer.register_channel(topic, encoding, schema)
            writer.add_message(channel, 0, b"7", 0)
        writer.finish()
    made = import_mcap(tmp_path / "a.mcap", tmp_path / "b.mcap")
    assert open_session(made.path).senses.keys() == {"good"}
    assert "/bad (acme.Thing, its schema cannot be read" in made.warnings[0]


@pytest.mark.parametrize("share", [0.001, 0.3, 0.9, 0.999])
def test_a_cut_file_raises_one_sentence_and_leaves_nothing(tmp_path: Path, share: float) -> None:
    path = write_foxglove(tmp_path / "a.mcap", "protobuf")
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(SessionError, match="cut or damaged") as raised:
        import_mcap(path, tmp_path / "b.mcap")
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == [path]


def test_an_own_session_needs_no_import(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.mcap", source="test") as recorder:
        recorder.write(Moment(0.0))
    with pytest.raises(SessionError, match="a session of devmind already"):
        import_mcap(tmp_path / "a.mcap", tmp_path / "b.mcap")


@pytest.mark.parametrize(
    "text", [b"[1, 2.5]", b"3", b'{"a": {"b": 4}, "note": "x", "stamp": {"sec": 1, "nanosec": 2}}']
)
def test_json_of_any_shape_gives_its_numbers(tmp_path: Path, text: bytes) -> None:
    with (tmp_path / "a.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start()
        channel = writer.register_channel(
            "/state/of it", "json", writer.register_schema("acme.State", "jsonschema", b"{}")
        )
        writer.add_message(channel, 0, text, 0)
        writer.finish()
    ((moment, _),) = open_session(import_mcap(tmp_path / "a.mcap", tmp_path / "b.mcap").path)
    wanted = {b"[": [1, 2.5], b"3": [3], b"{": [4]}[text[:1]]
    assert moment.senses["state_of_it"].tolist() == wanted  # type: ignore[union-attr]


def test_a_topic_of_two_publishers_is_one_topic(tmp_path: Path) -> None:
    sent = {
        "/joint_states": ("sensor_msgs/JointState", {"name": ["hip"], "position": [0.5]}),
        "/pose": ("geometry_msgs/Pose", {"x": 1.0}),
        "/voice": (
            "foxglove.RawAudio",
            {"format": "pcm-s16", "sample_rate": 16000, "number_of_channels": 1, "data": ""},
        ),
    }
    with (tmp_path / "a.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start()
        for topic, (name, message) in sent.items():
            schema = writer.register_schema(name, "jsonschema", b"{}")
            for tick in range(2):
                channel = writer.register_channel(topic, "json", schema)
                writer.add_message(channel, tick * 10**8, json.dumps(message).encode(), tick * 10**8)
        unread = writer.register_channel("/pose", "flatbuffer", schema)
        writer.add_message(unread, 2 * 10**8, b"?", 2 * 10**8)
        writer.finish()
    made = import_mcap(tmp_path / "a.mcap", tmp_path / "b.mcap")
    senses = [moment.senses for moment, _ in open_session(made.path)]
    assert [(s["body"].tolist(), s["pose"].tolist()) for s in senses] == [([0.5], [1])] * 2  # type: ignore[union-attr]
    assert made.warnings == ()


def test_sound_needs_ticks_of_whole_samples(tmp_path: Path) -> None:
    """Regression: at 30 ticks a second, sound ran away from the pictures by 2.25 s an hour."""
    path = write_foxglove(tmp_path / "a.mcap", "json")
    with pytest.raises(SessionError, match="tick_hz must divide 16000"):
        import_mcap(path, tmp_path / "b.mcap", tick_hz=30)
    assert [path.name for path in tmp_path.iterdir()] == ["a.mcap"]


@pytest.mark.parametrize("begin", ["", '#include "std_msgs/msg/Other.idl"\n'])
def test_idl_schemas_are_read_as_mcaps_registry_prescribes_them(tmp_path: Path, begin: str) -> None:
    """A line of 80 `=` and `IDL: package/msg/Name` before each definition (mcap.dev/spec/registry, `ros2idl`)."""
    inner = "module my_msgs { module msg { struct Inner { double width; }; }; };"
    outer = "module my_msgs { module msg { struct Outer { my_msgs::msg::Inner inner; double height; }; }; };"
    line = "=" * 80 + "\n"
    text = f"{line}IDL: my_msgs/msg/Outer\n{begin}{outer}\n{line}IDL: my_msgs/msg/Inner\n{inner}\n"
    with (tmp_path / "a.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start(profile="ros2")
        schema = writer.register_schema("my_msgs/msg/Outer", "ros2idl", text.encode())
        channel = writer.register_channel("/grip", "cdr", schema)
        writer.add_message(channel, 0, b"\x00\x01\x00\x00" + struct.pack("<dd", 0.25, 1.5), 0)
        writer.finish()
    session = open_session(import_mcap(tmp_path / "a.mcap", tmp_path / "b.mcap").path)
    assert session[0][0].senses["grip"].tolist() == [0.25, 1.5]  # type: ignore[union-attr]
    assert session.names()["grip"] == ["inner.width", "height"]


def test_texts_inside_json_are_told(tmp_path: Path) -> None:
    with (tmp_path / "a.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start()
        channel = writer.register_channel("/said", "json", 0)
        writer.add_message(channel, 0, b'{"text": "a ball", "by": {"who": "mother"}, "at": 0}', 0)
        writer.finish()
    made = import_mcap(tmp_path / "a.mcap", tmp_path / "b.mcap")
    assert made.warnings == ("Texts in messages on '/said' are left out: text, by.who.",)
