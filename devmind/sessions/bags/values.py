"""The meaning of ROS and Foxglove messages: pictures, sound, text, or plain numbers.

Messages come as dicts of plain values, in any serialisation. Sources: ROS common_interfaces (sensor_msgs, std_msgs),
audio_common_msgs, foxglove-sdk's schemas.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from devmind.sessions.pictures import decode_picture

Message = Mapping[str, Any]

PICTURES = {"sensor_msgs/Image", "foxglove/RawImage"}
CODED_PICTURES = {"sensor_msgs/CompressedImage", "foxglove/CompressedImage"}
SOUNDS = {"foxglove/RawAudio", "audio_common_msgs/AudioData", "audio_common_msgs/AudioDataStamped"}
SOUND_FORMATS = {"audio_common_msgs/AudioInfo"}
WORDS = {"std_msgs/String": "data", "foxglove/Log": "message"}
BODY = "sensor_msgs/JointState"
NOT_SENSED = re.compile(
    r".*(PointCloud|CameraInfo|CameraCalibration|CompressedVideo|CompressedAudio|Log|Clock|TFMessage|FrameTransforms?"
    r"|ParameterEvent|DiagnosticArray|SceneUpdate|ImageAnnotations|Grid|OccupancyGrid|MarkerArray|Marker)2?$"
)
"""Calibrations, drawings, and messages between machines."""

MAX_NUMBERS = 4096
_UNTOLD = {"header", "stamp", "timestamp", "seq", "layout", "frame_id", "structure_needs_at_least_one_member"}
_TIMES = ({"sec", "nanosec"}, {"sec", "nsec"}, {"seconds", "nanos"})
_CHANNELS = {"rgb8": 3, "bgr8": 3, "8uc3": 3, "rgba8": 4, "bgra8": 4, "8uc4": 4, "mono8": 1, "8uc1": 1}
_CHANNELS |= {"mono16": 1, "rgb16": 3, "bgr16": 3, "rgba16": 4, "bgra16": 4}
_CONVERTED = {
    **dict.fromkeys(("yuv422", "uyvy"), (2, "COLOR_YUV2RGB_UYVY")),
    **dict.fromkeys(("yuv422_yuy2", "yuyv"), (2, "COLOR_YUV2RGB_YUY2")),
    **{f"bayer_{order}8": (1, f"COLOR_Bayer{order.upper()}2RGB") for order in ("rggb", "bggr", "gbrg", "grbg")},
    **{f"bayer_{order}16": (1, f"COLOR_Bayer{order.upper()}2RGB") for order in ("rggb", "bggr", "gbrg", "grbg")},
}
"""Encodings of ROS' image_encodings.hpp that OpenCV converts: channels, and its conversion."""


def schema_key(schema: str) -> str:
    """package/Name of `sensor_msgs/msg/Image`, `foxglove.RawImage` and `foxglove_msgs/msg/RawImage` alike."""
    parts = re.split(r"[/.]", schema)
    return f"{parts[0].removesuffix('_msgs') if parts[0] == 'foxglove_msgs' else parts[0]}/{parts[-1]}"


def picture_of(key: str, message: Message, topic: str) -> Callable[[], np.ndarray]:
    """A function that decodes a picture message to RGB uint8 [H, W, 3]; it raises ValueError or SessionError."""
    if key in CODED_PICTURES:
        return lambda: _coded_picture(message, topic)
    return lambda: _raw_picture(message)


def sound_of(message: Message, about: Message | None) -> tuple[int, np.ndarray]:
    """The rate in Hz and the samples float32 [n, C] of a message with sound; `about` is the AudioInfo before it.

    Raises:
        ValueError: it is not 16-bit PCM, or its format is not given.
    """
    if "sample_rate" in message:
        coding, rate_hz, channels = message.get("format"), message["sample_rate"], message["number_of_channels"]
        fits = coding == "pcm-s16"
    elif about is not None:
        coding, rate_hz, channels = about["coding_format"], about["sample_rate"], about["channels"]
        fits = str(coding).lower() == "wave" and str(about["sample_format"]).upper() == "S16LE"
    else:
        raise ValueError("no AudioInfo message says what it is")
    if not fits or not rate_hz or not channels:
        raise ValueError(f"16-bit PCM is expected, but it is '{coding}'")
    data = message["data"] if "data" in message else message["audio"]["data"]
    samples = np.frombuffer(_bytes(data), "<i2").astype(np.float32) / 32768
    block = samples[: len(samples) // channels * channels].reshape(-1, channels)
    return int(rate_hz), block if channels < 3 else block.mean(1, keepdims=True)


def numbers_of(message: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """(name, value) of every number in a message, in its order; without times, covariances, texts and blobs."""
    if isinstance(message, Mapping):
        if message.keys() in _TIMES:
            return
        labels = message.get("name")
        for field, value in message.items():
            if field in _UNTOLD or field.endswith("covariance"):
                continue
            if isinstance(labels, list | tuple) and field != "name" and _size(value) == len(labels) > 0:
                yield from ((f"{label}.{field}", float(one)) for label, one in zip(labels, value, strict=True))
            else:
                yield from numbers_of(value, f"{name}.{field}" if name else field)
    elif isinstance(message, bool | int | float | np.number | np.bool_):
        yield name or "data", float(message)
    elif isinstance(message, list | tuple) or (isinstance(message, np.ndarray) and message.dtype != np.uint8):
        for k, value in enumerate(message):
            yield from numbers_of(value, f"{name}.{k}")


def texts_of(message: Mapping[str, Any], name: str = "") -> list[str]:
    """The names of the texts in a message that say something; names of frames and of joints do not."""
    found = []
    for field, value in message.items():
        label = f"{name}.{field}" if name else field
        if isinstance(value, str) and value and field not in _UNTOLD | {"name"} and not field.endswith("frame_id"):
            found.append(label)
        elif isinstance(value, Mapping) and field not in _UNTOLD:
            found += texts_of(value, label)
    return found


def _size(value: Any) -> int:
    return len(value) if isinstance(value, np.ndarray | list | tuple) else -1


def _coded_picture(message: Message, topic: str) -> np.ndarray:
    if "compressedDepth" in str(message.get("format")):
        raise ValueError("it is a depth map, not a picture")
    return decode_picture(_bytes(message["data"]), topic)


def _raw_picture(message: Message) -> np.ndarray:
    encoding, height, width = str(message["encoding"]).lower(), int(message["height"]), int(message["width"])
    channels, conversion = _CONVERTED.get(encoding) or (_CHANNELS.get(encoding), "")
    if channels is None:
        known = ", ".join((*_CHANNELS, *_CONVERTED))
        raise ValueError(f"its encoding '{message['encoding']}' is no picture in colours or grey; known are {known}")
    depth = 2 if encoding.endswith("16") else 1
    line = width * channels * depth
    step = int(message.get("step") or line)
    rows = np.frombuffer(_bytes(message["data"]), np.uint8)[: height * step].reshape(height, step)[:, :line]
    if depth == 2:  # the significant byte of each number
        rows = rows[:, (0 if message.get("is_bigendian") else 1) :: 2]
    picture = rows.reshape(height, width, channels)
    if conversion:
        import cv2

        return np.asarray(cv2.cvtColor(np.ascontiguousarray(picture), getattr(cv2, conversion)))
    if channels == 1:
        return np.repeat(picture, 3, axis=2)
    order = [0, 1, 2] if encoding.startswith("rgb") else [2, 1, 0]
    return np.ascontiguousarray(picture[:, :, order])


def _bytes(data: Any) -> bytes:
    """A blob from ROS (an array), protobuf (bytes) or JSON (base64, or a list)."""
    if isinstance(data, np.ndarray):
        return data.tobytes()
    return b64decode(data) if isinstance(data, str) else bytes(data)
