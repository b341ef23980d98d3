"""Conversion of single messages: picture encodings, sound formats, names of numbers."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
import pytest

from devmind.sessions.bags.values import numbers_of, picture_of, schema_key, sound_of

ORANGE = (255, 128, 0)


def raw(encoding: str, pixel: bytes, **more: Any) -> dict[str, Any]:
    """A message with a picture of 2 x 3 equal pixels."""
    return {"height": 2, "width": 3, "encoding": encoding, "step": 3 * len(pixel), "data": pixel * 6, **more}


@pytest.mark.parametrize(
    ("encoding", "pixel", "wanted"),
    [
        ("rgb8", (255, 128, 0), ORANGE),
        ("RGB8", (255, 128, 0), ORANGE),
        ("bgr8", (0, 128, 255), ORANGE),
        ("8UC3", (0, 128, 255), ORANGE),
        ("rgba8", (255, 128, 0, 9), ORANGE),
        ("bgra8", (0, 128, 255, 9), ORANGE),
        ("mono8", (90,), (90, 90, 90)),
        ("mono16", (7, 90), (90, 90, 90)),
    ],
)
def test_picture_encodings_keep_their_colours(encoding: str, pixel: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    message = raw(encoding, bytes(pixel))
    for data in (message["data"], np.frombuffer(message["data"], np.uint8), b64encode(message["data"]).decode()):
        picture = picture_of("sensor_msgs/Image", message | {"data": data}, "/cam")()
        assert (picture.shape, picture.dtype) == ((2, 3, 3), np.uint8)
        assert (picture == wanted).all()


def test_sixteen_bit_pictures_may_be_big_endian() -> None:
    picture = picture_of("sensor_msgs/Image", raw("mono16", bytes((90, 7)), is_bigendian=1), "/cam")()
    assert (picture == 90).all()


@pytest.mark.parametrize(
    "message", [raw("16UC1", b"ab"), raw("32FC1", b"abcd"), raw("rgb8", b"abc", step=99), raw("rgb8", b"abc", data=b"")]
)
def test_invalid_pictures_are_refused(message: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"encoding|reshape"):
        picture_of("sensor_msgs/Image", message, "/cam")()


def test_sound_is_scaled_and_more_than_two_channels_are_mixed() -> None:
    samples = np.array([[16384, -16384, 0]] * 4, "<i2")
    message = {"format": "pcm-s16", "sample_rate": 8000, "number_of_channels": 1, "data": samples[:, 0].tobytes()}
    rate_hz, block = sound_of(message, None)
    assert (rate_hz, block.tolist()) == (8000, [[0.5]] * 4)
    assert sound_of(message | {"number_of_channels": 3, "data": samples.tobytes()}, None)[1].tolist() == [[0.0]] * 4
    with pytest.raises(ValueError, match="'opus'"):
        sound_of(message | {"format": "opus"}, None)
    with pytest.raises(ValueError, match="no AudioInfo"):
        sound_of({"data": b""}, None)
    about = {"coding_format": "mp3", "sample_format": "S16LE", "sample_rate": 16000, "channels": 1}
    with pytest.raises(ValueError, match="'mp3'"):
        sound_of({"data": b""}, about)


def test_numbers_are_named_without_times_and_covariances() -> None:
    imu = {
        "header": {"stamp": {"sec": 1, "nanosec": 2}, "frame_id": "imu"},
        "orientation": {"x": 0.5, "y": 1},
        "orientation_covariance": np.zeros(9),
        "ranges": np.array([1.0, 2.0]),
        "blob": np.zeros(100, np.uint8),
        "ok": True,
        "label": "x",
        "parts": [{"a": 3}, {"a": 4}],
    }
    assert list(numbers_of(imu)) == [
        ("orientation.x", 0.5),
        ("orientation.y", 1.0),
        ("ranges.0", 1.0),
        ("ranges.1", 2.0),
        ("ok", 1.0),
        ("parts.0.a", 3.0),
        ("parts.1.a", 4.0),
    ]
    joints = {"name": ["hip", "knee"], "position": [1.0, 2.0], "velocity": []}
    assert list(numbers_of(joints)) == [("hip.position", 1.0), ("knee.position", 2.0)]


def test_equivalent_schemas_have_one_name() -> None:
    assert schema_key("sensor_msgs/msg/Image") == schema_key("sensor_msgs/Image") == "sensor_msgs/Image"
    assert schema_key("foxglove.RawImage") == schema_key("foxglove_msgs/msg/RawImage") == "foxglove/RawImage"
