"""The contents of a session beside ticks: notes, camera frames, the state of devices. None of them commits a tick."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from devmind import bounds
from devmind.errors import SessionError, without_secrets
from devmind.sessions.messages import encode_camera
from devmind.sessions.pictures import from_jpeg
from devmind.sessions.schemas import CAMERA, message_class

NOTE_TOPIC, CAMERA_TOPIC, HEALTH_TOPIC = "/note", "/camera", "/health"
NOTE_SCHEMA, HEALTH_SCHEMA = "devmind.Note", "devmind.Health"

JSON_SCHEMAS = {
    NOTE_SCHEMA: b'{"type":"object","properties":{"kind":{"type":"string"},"tick":{"type":"integer"},"data":{}}}',
    HEALTH_SCHEMA: b'{"type":"object"}',
}


@dataclass(frozen=True)
class Note:
    """An event besides Moments, as plain JSON data; it happened before tick `tick`."""

    tick: int
    kind: str
    data: Any


@dataclass(frozen=True)
class Frame:
    """A kept frame of the camera: a JPEG, taken `time_s` seconds after the session's first tick."""

    time_s: float
    jpeg: bytes

    def picture(self) -> np.ndarray:
        """RGB uint8 [H, W, 3].

        Raises:
            SessionError: the JPEG is damaged.
        """
        return from_jpeg(self.jpeg)


@dataclass(frozen=True)
class Health:
    """The state of the devices, as plain JSON data, `time_s` seconds after the session's first tick."""

    time_s: float
    data: Any


def encode_note(note: Note) -> bytes:
    """A note as JSON.

    Raises:
        SessionError: its data is not plain JSON data.
    """
    return _json(f"A note of kind '{note.kind}'", {"kind": note.kind, "tick": note.tick, "data": note.data})


def decode_note(data: bytes) -> Note:
    """The note from the bytes of `encode_note`.

    Raises:
        SessionError: it is damaged.
    """
    sentence = "A note cannot be read: {}."
    with bounds.damage(SessionError, sentence):
        note = Note(**bounds.parse_json(data, SessionError, sentence))
        if not (type(note.tick) is int and isinstance(note.kind, str)):
            raise TypeError("its tick is a number and its kind a text")
        return note


def encode_health(data: Any) -> bytes:
    """Health as JSON.

    Raises:
        SessionError: it is not plain JSON data.
    """
    return _json("The devices' health", data)


def decode_health(data: bytes, at_ns: int) -> Health:
    """The health from the bytes of `encode_health`.

    Raises:
        SessionError: it is damaged.
    """
    return Health(at_ns / 1e9, bounds.parse_json(data, SessionError, "The devices' health cannot be read: {}."))


def encode_frame(jpeg: bytes, log_time_ns: int) -> bytes:
    """A JPEG as a message of the camera's topic.

    Raises:
        SessionError: it is no JPEG.
    """
    if jpeg[:2] != b"\xff\xd8":
        raise SessionError("A frame must be a JPEG or a picture uint8 [H, W, 3]; got bytes that begin otherwise.")
    return encode_camera(jpeg, log_time_ns)


def decode_frame(data: bytes, at_ns: int) -> Frame:
    """The frame from the bytes of `encode_frame`.

    Raises:
        SessionError: it is damaged.
    """
    from google.protobuf.message import DecodeError

    try:
        return Frame(at_ns / 1e9, bytes(message_class(CAMERA).FromString(data).data))  # type: ignore[attr-defined]
    except DecodeError as error:
        raise SessionError(f"A frame of the camera cannot be read: {error}.") from error


def _json(what: str, data: Any) -> bytes:
    try:
        return json.dumps(without_secrets(data), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise SessionError(f"{what} must be plain JSON data; {error}.") from error
