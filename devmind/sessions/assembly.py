"""Reassembles the messages of a session: ticks as they were committed, notes, frames, health."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcap.records import Channel, Message, Schema

from devmind.sessions.extras import (
    CAMERA_TOPIC,
    HEALTH_TOPIC,
    NOTE_TOPIC,
    Frame,
    Health,
    Note,
    decode_frame,
    decode_health,
    decode_note,
)
from devmind.sessions.steps import ACTION_TOPIC, MOMENT_TOPIC, TICK_TOPIC, Step, decode_step


@dataclass(frozen=True)
class Tick:
    """A committed tick, decoded on request.

    Attributes:
        at_ns: since the session's first tick.
        sequence: its number in its file, as the writer counted.
    """

    at_ns: int
    sequence: int
    mark: bytes
    parts: Mapping[str, tuple[str, bytes]]

    def step(self) -> Step:
        """The (Moment, Action or None).

        Raises:
            SessionError: a message is missing or damaged.
        """
        return decode_step(self.mark, self.parts)


Item = Tick | Note | Frame | Health


class Assembler:
    """Takes the records of chunks in order; a sense counts when its tick's mark comes.

    Args:
        channels: topic and schema by channel number, as far as already known.

    Attributes:
        started_ns: the log time of the session's first tick: wall-clock time; 0 in older recordings.
    """

    def __init__(self, channels: Mapping[int, tuple[str, str]] | None = None, started_ns: int = 0) -> None:
        self.channels, self.started_ns = dict(channels or {}), started_ns
        self._schemas: dict[int, str] = {}
        self._parts: dict[str, tuple[str, bytes]] = {}

    def again(self) -> Assembler:
        """A new assembler with the same channels that has seen no tick."""
        return Assembler(self.channels, self.started_ns)

    @property
    def has_open_tick(self) -> bool:
        """True when a sense or effector came whose tick has no mark yet."""
        return bool(self._parts)

    def forget_open_tick(self) -> None:
        """Call this where records are missing: earlier messages do not belong to the next mark."""
        self._parts = {}

    def feed(self, record: Any) -> Item | None:
        """The object that `record` completes, if any.

        Raises:
            SessionError: a note, a frame or health is damaged.
        """
        if isinstance(record, Schema):
            self._schemas[record.id] = record.name
        elif isinstance(record, Channel):
            known = self.channels.get(record.id, ("", ""))[1]  # its schema may be in a chunk that is not read
            self.channels[record.id] = (record.topic, self._schemas.get(record.schema_id, known))
        elif isinstance(record, Message):
            return self._message(record)
        return None

    def _message(self, message: Message) -> Item | None:
        topic, schema = self.channels.get(message.channel_id, ("", ""))
        at_ns = max(0, message.log_time - self.started_ns)
        if topic == TICK_TOPIC:
            tick = Tick(at_ns, message.sequence, message.data, self._parts)
            self._parts = {}
            return tick
        if topic == NOTE_TOPIC:
            return decode_note(message.data)
        if topic == CAMERA_TOPIC:
            return decode_frame(message.data, at_ns)
        if topic == HEALTH_TOPIC:
            return decode_health(message.data, at_ns)
        if topic.startswith((MOMENT_TOPIC, ACTION_TOPIC)):
            self._parts[topic] = (schema, message.data)
        return None
