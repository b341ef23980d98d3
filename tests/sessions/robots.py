"""Small bags and MCAP files of other robots, made by the libraries that robots record with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import cv2
import numpy as np

Sent = Iterable[tuple[str, str, float, Any]]
"""(topic, type, seconds, message)"""

AUDIO_TYPES = {
    "audio_common_msgs/msg/AudioData": "uint8[] data\n",
    "audio_common_msgs/msg/AudioInfo": (
        "uint8 channels\nuint32 sample_rate\nstring sample_format\nuint32 bitrate\nstring coding_format\n"
    ),
}


def types_of_ros(version: int) -> Any:
    """A store of message types that also includes audio_common_msgs."""
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.ROS1_NOETIC if version == 1 else Stores.ROS2_HUMBLE)
    for name, text in AUDIO_TYPES.items():
        store.register(get_types_from_msg(text, name))
    return store


def drive(store: Any, seconds: float = 1.0) -> Sent:
    """One second of a small robot: grey pictures that brighten at 20 Hz, joints at 50 Hz, a word, a tone, an IMU, a
    map.

    Tick k's last picture has the brightness 20 k + 10; its last joint positions are (5 k + 4) / 50 and its negative.
    """
    types = store.types
    stamp = types["builtin_interfaces/msg/Time"](sec=1, nanosec=0)
    fields = types["std_msgs/msg/Header"].__dataclass_fields__
    header = types["std_msgs/msg/Header"](
        **{"stamp": stamp, "frame_id": "base"} | ({"seq": 0} if "seq" in fields else {})
    )
    for k in range(int(seconds * 20)):
        grey = np.full((30, 40, 3), 10 * k, np.uint8)
        picture = {"height": 30, "width": 40, "encoding": "bgr8", "is_bigendian": 0, "step": 120, "data": grey.ravel()}
        yield "/cam/image", "sensor_msgs/msg/Image", k / 20, types["sensor_msgs/msg/Image"](header=header, **picture)
        depth = picture | {"encoding": "16UC1", "step": 80, "data": np.zeros(2400, np.uint8)}
        yield "/depth", "sensor_msgs/msg/Image", k / 20, types["sensor_msgs/msg/Image"](header=header, **depth)
    for k in range(int(seconds * 50)):
        at = {"position": np.array([k / 50, -k / 50]), "velocity": np.array([]), "effort": np.array([])}
        joints = types["sensor_msgs/msg/JointState"](header=header, name=["hip", "knee"], **at)
        yield "/joint_states", "sensor_msgs/msg/JointState", k / 50, joints
        vector = types["geometry_msgs/msg/Vector3"]
        twist = types["geometry_msgs/msg/Twist"](
            linear=vector(x=k / 50, y=0.0, z=0.0), angular=vector(x=0.0, y=0.0, z=1.0)
        )
        yield "/cmd_vel", "geometry_msgs/msg/Twist", k / 50, twist
    yield "/speech", "std_msgs/msg/String", 0.35, types["std_msgs/msg/String"](data="go left")
    about = {"channels": 1, "sample_rate": 16000, "sample_format": "S16LE", "bitrate": 0, "coding_format": "wave"}
    yield "/audio_info", "audio_common_msgs/msg/AudioInfo", 0.0, types["audio_common_msgs/msg/AudioInfo"](**about)
    for k in range(int(seconds * 50)):
        data = np.frombuffer(tone(k * 320, 320).tobytes(), np.uint8)
        late = 0.005 * (k % 3)  # messages jitter, samples do not
        yield (
            "/audio",
            "audio_common_msgs/msg/AudioData",
            k / 50 + late,
            types["audio_common_msgs/msg/AudioData"](data=data),
        )


def tone(start: int, count: int) -> np.ndarray:
    """440 Hz at 16 kHz, int16."""
    return np.rint(8000 * np.sin(2 * np.pi * 440 * np.arange(start, start + count) / 16000)).astype("<i2")


def write_ros1(path: Path, sent: Callable[[Any], Sent] = drive) -> Path:
    """Write a ROS 1 bag."""
    from rosbags.rosbag1 import Writer

    store = types_of_ros(1)
    with Writer(path) as writer:
        connections: dict[str, Any] = {}
        for topic, kind, seconds, message in sorted(sent(store), key=lambda one: one[2]):
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=store)
            data = store.serialize_ros1(message, kind)
            writer.write(connections[topic], int((100 + seconds) * 1e9), data)
    return path


def write_ros2(path: Path, storage: str = "SQLITE3", sent: Callable[[Any], Sent] = drive) -> Path:
    """Write a ROS 2 bag, a folder."""
    from rosbags.rosbag2 import StoragePlugin, Writer

    store = types_of_ros(2)
    with Writer(path, version=9, storage_plugin=StoragePlugin[storage]) as writer:
        connections: dict[str, Any] = {}
        for topic, kind, seconds, message in sorted(sent(store), key=lambda one: one[2]):
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=store)
            writer.write(connections[topic], int((100 + seconds) * 1e9), store.serialize_cdr(message, kind))
    return path


def write_foxglove(path: Path, encoding: str, **options: Any) -> Path:
    """Write an MCAP file with Foxglove messages as protobuf or JSON: pictures, a tone, a text, a pose, a secret."""
    from base64 import b64encode

    from foxglove_schemas_protobuf import CompressedImage_pb2, Log_pb2, Pose_pb2, RawAudio_pb2
    from google.protobuf import descriptor_pb2
    from mcap.writer import Writer

    made = {
        "CompressedImage": CompressedImage_pb2.CompressedImage,
        "RawAudio": RawAudio_pb2.RawAudio,
        "Log": Log_pb2.Log,
        "Pose": Pose_pb2.Pose,
    }

    def files(file: Any, found: dict[str, Any]) -> dict[str, Any]:
        for needed in file.dependencies:
            files(needed, found)
        found[file.name] = descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb)
        return found

    def serialised(kind: str, fields: dict[str, Any]) -> bytes:
        if encoding == "json":
            plain = {name: b64encode(v).decode() if isinstance(v, bytes) else v for name, v in fields.items()}
            return json.dumps(plain).encode()
        return made[kind](**fields).SerializeToString()

    with path.open("wb") as file:
        writer = Writer(file, **options)
        writer.start()
        channels = {}
        for topic, kind in (("/cam", "CompressedImage"), ("/mic", "RawAudio"), ("/log", "Log"), ("/pose", "Pose")):
            whole = descriptor_pb2.FileDescriptorSet(file=reversed(files(made[kind].DESCRIPTOR.file, {}).values()))
            described = ("protobuf", whole.SerializeToString()) if encoding == "protobuf" else ("jsonschema", b"{}")
            schema = writer.register_schema(f"foxglove.{kind}", *described)
            channels[kind] = writer.register_channel(topic, encoding, schema)
        secret = writer.register_channel("/secret", "mystery", writer.register_schema("acme.Secret", "acme", b""))

        def send(seconds: float, kind: str, **fields: Any) -> None:
            at = int((50 + seconds) * 1e9)
            writer.add_message(channels[kind], at, serialised(kind, fields), at)

        for k in range(20):
            coded = cv2.imencode(".png", np.full((30, 40, 3), 10 * k, np.uint8))[1].tobytes()
            send(k / 20, "CompressedImage", frame_id="cam", format="png", data=coded)
            samples = tone(k * 800, 800).tobytes()
            send(k / 20, "RawAudio", data=samples, format="pcm-s16", sample_rate=16000, number_of_channels=1)
        send(0.35, "Log", message="go left", name="human")
        position = {"x": 1.5, "y": 0.0, "z": -2.0}
        send(0.5, "Pose", position=position)
        writer.add_message(secret, int(50.5e9), b"?", int(50.5e9))
        writer.finish()
    return path
