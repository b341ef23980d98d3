"""Recordings of other robots, topic by topic, as sessions: the common part of bags and other MCAP files."""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from devmind.bounds import damage
from devmind.errors import SessionError, nearest
from devmind.moment import STANDARD_SENSES
from devmind.sessions.bags import values
from devmind.sessions.importing import Event, Imported, episode_steps, samples_in_tick, tick_of, write_session
from devmind.sessions.sounds import Part, timed_ticks

GAP_S = 0.2
"""Sound messages come in bursts; a longer pause counts as a gap."""


@dataclass(frozen=True)
class Topic:
    """A topic of a foreign recording; `unread` says why its messages cannot be decoded, or is empty."""

    name: str
    schema: str
    unread: str = ""

    @property
    def key(self) -> str:
        """Its schema in the form of `values`."""
        return values.schema_key(self.schema)


class Source(Protocol):
    """A foreign recording; `messages` may be called again while an earlier call is still being read."""

    path: Path
    kind: str
    topics: list[Topic]
    start_ns: int

    def messages(self, names: Collection[str]) -> Generator[tuple[str, int, Any], None, None]:
        """(topic, time in ns, message as a dict of plain values) of the topics `names`, in order of time."""


def import_source(
    source: Source, out: str | Path, tick_hz: int, topic: str | None = None, overwrite: bool = False
) -> Imported:
    """Write a foreign recording to the new session `out`, as one episode on the recording's own clock.

    The first topic with pictures (or `topic`) becomes sight, the first with sound becomes sound, texts become words,
    joint states `body`, and every other topic of numbers a sense of its own, float64 [K], named after the topic.

    Raises:
        SessionError: nothing in it can be used, it is damaged, or `out` cannot be written; nothing is left behind.
    """
    with damage(SessionError, f"'{source.path}' holds a message that does not fit its schema ({{}})."):
        return _imported(source, out, tick_hz, topic, overwrite)


def _imported(source: Source, out: str | Path, tick_hz: int, topic: str | None, overwrite: bool) -> Imported:
    listed = "; ".join(f"{one.name} ({one.schema}{one.unread and ', ' + one.unread})" for one in source.topics)
    roles = _Roles(source, tick_hz)
    roles.assign(topic)
    if not roles.wanted:
        raise SessionError(f"'{source.path}' has nothing that can be sensed; its topics are: {listed or 'none'}.")
    about = {"name": source.path.name, "topics": {one.name: one.schema for one in source.topics}}
    empty = f"'{source.path}' has no message that can be sensed; its topics are: {listed}."
    steps = episode_steps(roles.events(), tick_hz, str(source.path), empty)
    return write_session(
        out, source.kind, tick_hz, [(about, steps)], roles.warnings, names=roles.names, overwrite=overwrite
    )


@dataclass
class _Roles:
    """The role of each topic, and what was learned about it while reading."""

    source: Source
    tick_hz: int
    picture: str = ""
    sound: str = ""
    formats: list[str] = field(default_factory=list)
    senses: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    _warned_of: set[str] = field(default_factory=set)

    @property
    def wanted(self) -> bool:
        """True when some topic can be used."""
        return bool(self.picture or self.sound or self.senses)

    def assign(self, topic: str | None) -> None:
        """Give each topic its role; topics without one are reported."""
        self._choose_picture(topic)
        left_out: list[str] = []
        for one in self.source.topics:
            self.keys[one.name] = one.key
            if one.unread:
                left_out.append(f"{one.name} ({one.schema}, {one.unread})")
            elif one.key in values.SOUND_FORMATS:
                self.formats.append(one.name)
            elif one.key in values.SOUNDS and not self.sound:
                self.sound = one.name
            elif one.key in values.WORDS:
                self.senses[one.name] = "words"
            elif one.key in _SHOWN | values.SOUNDS or values.NOT_SENSED.match(one.key):
                if one.name != self.picture and one.name not in self._warned_of:
                    left_out.append(f"{one.name} ({one.schema})")
            else:
                self.senses[one.name] = self._sense_name(one)
        if left_out:
            self.warnings.append(f"Left out: {'; '.join(left_out)}.")

    def _choose_picture(self, topic: str | None) -> None:
        """The first topic whose first picture can be decoded: the encoding is in each message, not in the topic."""
        shown = {one.name: one.key for one in self.source.topics if not one.unread and one.key in _SHOWN}
        if topic is not None and topic not in shown:
            raise SessionError(f"'{self.source.path}' has no pictures on '{topic}'{nearest(topic, shown)}")
        for name in shown if topic is None else [topic]:
            with closing(self.source.messages({name})) as messages:
                first = next(messages, None)
            if first is None:
                continue
            try:
                values.picture_of(shown[name], first[2], name)()
            except _UNREADABLE as error:
                self._tell(name, f"Pictures on '{name}' are left out: {error}")
                continue
            self.picture = name
            return
        if topic is not None:
            raise SessionError(self.warnings[-1] if self.warnings else f"There is no picture on '{topic}'.")

    def events(self) -> Iterator[Event]:
        """All contents of the topics, in order of ticks."""
        streams = [self._sensed()]
        if self.sound:
            heard = timed_ticks(self._sound_parts(), samples_in_tick(self.tick_hz), GAP_S)
            streams.append(Event(tick, "sense", "sound", sound) for tick, sound in heard)
        return merge(*streams, key=attrgetter("tick"))

    def _sensed(self) -> Iterator[Event]:
        wanted = {*self.senses} | ({self.picture} if self.picture else set())
        for topic, time_ns, sent in self.source.messages(wanted):
            message = sent if isinstance(sent, dict) else {"data": sent}  # JSON may be anything
            tick = tick_of(self._time_s(time_ns), self.tick_hz)
            if topic == self.picture:
                decode = values.picture_of(self.keys[topic], message, topic)
                yield Event(tick, "picture", value=partial(self._decoded, decode, topic))
            elif self.senses[topic] == "words":
                text = str(message.get(values.WORDS[self.keys[topic]], ""))
                if text:
                    yield Event(tick, "sense", "words", text)
            else:
                yield from self._numbers(tick, topic, message)

    def _numbers(self, tick: int, topic: str, message: Any) -> Iterator[Event]:
        name, found = self.senses[topic], list(values.numbers_of(message))
        if not 0 < len(found) <= values.MAX_NUMBERS:
            how_many = f"{len(found):,} numbers in one message" if found else "no numbers"
            self._tell(topic, f"Messages on '{topic}' are left out: {how_many}.")
            return
        self.names.setdefault(name, [label for label, _ in found])
        yield Event(
            tick, "sense", name, np.array([one for _, one in found], "float32" if name == "body" else "float64")
        )

    def _sound_parts(self) -> Iterator[Part]:
        about = None
        for topic, time_ns, message in self.source.messages({self.sound, *self.formats}):
            if topic != self.sound:
                about = message
                continue
            try:
                rate_hz, block = values.sound_of(message, about)
            except _UNREADABLE as error:
                self._tell(topic, f"Sound on '{topic}' is left out: {error}.")
                continue
            yield self._time_s(time_ns), rate_hz, block

    def _decoded(self, decode: Any, topic: str) -> np.ndarray | None:
        try:
            return np.asarray(decode())
        except _UNREADABLE as error:
            self._tell(topic, f"Pictures on '{topic}' are left out where they cannot be read: {error}")
            return None

    def _tell(self, topic: str, sentence: str) -> None:
        """Report once for each topic: a thousand damaged pictures are one sentence."""
        if topic not in self._warned_of:
            self._warned_of.add(topic)
            self.warnings.append(sentence.rstrip(".") + ".")

    def _time_s(self, time_ns: int) -> float:
        return max(0, time_ns - self.source.start_ns) / 1e9

    def _sense_name(self, topic: Topic) -> str:
        if topic.key == values.BODY and "body" not in self.senses.values():
            return "body"
        name = re.sub(r"[^0-9a-z]+", "_", topic.name.lower()).strip("_") or "numbers"
        if name in STANDARD_SENSES:
            name += "_numbers"
        while name in self.senses.values():
            name += "_"
        return name


_SHOWN = values.PICTURES | values.CODED_PICTURES
_UNREADABLE = (SessionError, ValueError, LookupError, TypeError, AttributeError, OverflowError)
"""Exceptions from decoding a foreign picture or sound."""
