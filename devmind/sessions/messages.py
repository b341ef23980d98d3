"""One sense or effector as one protobuf message, and back without loss.

Foxglove's schemas are used where one fits, so that viewers show the pictures, play the sound and list the words. A few
numbers have a schema with a field for each, so that viewers plot them; everything else is a `devmind.Array {dtype,
shape, data}`. Reading always uses `data`, bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from devmind.bounds import is_numeric
from devmind.errors import SessionError
from devmind.moment import SOUND_RATE_HZ, Sense
from devmind.sessions.schemas import (
    ARRAY,
    AUDIO,
    CAMERA,
    IMAGE,
    LOG,
    NUMBERS,
    fields_of,
    message_class,
    numbers_schema,
)

_TEXT = "str"
_S16 = np.dtype("<i2")
_FULL_SCALE = np.float32(32768)


def encode(name: str, value: Sense, log_time_ns: int, names: Sequence[str] = ()) -> tuple[str, bytes]:
    """The schema and the serialized message of one sense or effector; `names` are those of its numbers.

    Raises:
        SessionError: the value is neither a str nor a numeric numpy array.
    """
    if isinstance(value, str):
        return _encode_text(name, value, log_time_ns)
    if isinstance(value, np.generic):  # the result of arithmetic on an array without dimensions
        value = np.asarray(value)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "buif":
        kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        raise SessionError(f"'{name}' must be a numeric numpy array or a str to be recorded; got {kind}.")
    if name == "sight" and value.dtype == np.uint8 and value.ndim == 3 and value.shape[2] == 3:
        height, width = value.shape[:2]
        picture = {"width": width, "height": height, "encoding": "rgb8", "step": 3 * width, "data": value.tobytes()}
        return IMAGE, _serialized(IMAGE, timestamp=_timestamp(log_time_ns), frame_id=name, **picture)
    samples = as_s16(value) if name == "sound" else None
    if samples is not None:
        audio = {"format": "pcm-s16", "sample_rate": SOUND_RATE_HZ, "number_of_channels": len(value)}
        return AUDIO, _serialized(AUDIO, timestamp=_timestamp(log_time_ns), data=samples.T.tobytes(), **audio)
    fields = fields_of(value.shape, value.size, names)
    schema = numbers_schema(fields) if fields else ARRAY
    numbers = dict(zip(fields, map(float, value.ravel()), strict=True)) if fields else {}
    return schema, _serialized(schema, dtype=value.dtype.str, shape=value.shape, data=value.tobytes(), **numbers)


def decode(schema: str, data: bytes) -> Sense:
    """The value given to `encode`: the same bits, dtype and shape, in an array of its own.

    Raises:
        SessionError: the message is damaged or of a schema this version does not know.
    """
    from google.protobuf.message import DecodeError

    try:
        if schema.startswith(NUMBERS):  # `data` holds everything that the fields for viewers say
            schema = ARRAY
        if schema not in (IMAGE, AUDIO, LOG, ARRAY):
            raise ValueError("the schema is unknown to this version")
        return _decoded(schema, message_class(schema).FromString(data))  # type: ignore[attr-defined]
    except (
        DecodeError,
        ValueError,
        TypeError,
        SyntaxError,
        ZeroDivisionError,
        OverflowError,
        MemoryError,
    ) as error:
        raise SessionError(f"A message of schema '{schema}' cannot be decoded: {error}.") from error


def encode_camera(jpeg: bytes, log_time_ns: int) -> bytes:
    """A JPEG of the whole frame as a serialized `foxglove.CompressedImage`."""
    return _serialized(CAMERA, timestamp=_timestamp(log_time_ns), frame_id="camera", data=jpeg, format="jpeg")


def as_s16(sound: np.ndarray) -> np.ndarray | None:
    """Sound float32 [C, S] as int16 of the same shape if that loses no bit, else None."""
    if sound.dtype != np.float32 or sound.ndim != 2 or not sound.size or not (np.abs(sound) <= 1).all():
        return None
    samples = np.minimum(sound * _FULL_SCALE, 32767).astype(_S16)
    return samples if from_s16(samples).tobytes() == sound.tobytes() else None  # bytes, because -0.0 == 0.0


def from_s16(samples: np.ndarray) -> np.ndarray:
    """int16 samples as float32 in -1..1: a division by a power of two, so nothing is rounded."""
    return samples.astype(np.float32) / _FULL_SCALE


def _encode_text(name: str, text: str, log_time_ns: int) -> tuple[str, bytes]:
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates are legal in a str, but not in a protobuf string
        return ARRAY, _serialized(ARRAY, dtype=_TEXT, data=text.encode("utf-8", "surrogatepass"))
    return LOG, _serialized(LOG, timestamp=_timestamp(log_time_ns), level=2, message=text, name=name)


def _decoded(schema: str, message: Any) -> Sense:
    if schema == LOG:
        return str(message.message)
    if schema == IMAGE:
        return np.frombuffer(message.data, np.uint8).reshape(message.height, message.width, 3).copy()
    if schema == AUDIO:
        interleaved = np.frombuffer(message.data, _S16).reshape(-1, message.number_of_channels)
        return np.ascontiguousarray(from_s16(interleaved).T)
    if message.dtype == _TEXT:
        return bytes(message.data).decode("utf-8", "surrogatepass")
    if not is_numeric(message.dtype):
        raise ValueError(f"{message.dtype!r:.40} is no kind of numbers")
    return np.frombuffer(message.data, np.dtype(message.dtype)).reshape(tuple(message.shape)).copy()


def _serialized(schema: str, **fields: Any) -> bytes:
    return bytes(message_class(schema)(**fields).SerializeToString())


def _timestamp(log_time_ns: int) -> Any:
    from google.protobuf.timestamp_pb2 import Timestamp

    return Timestamp(seconds=log_time_ns // 10**9, nanos=log_time_ns % 10**9)
