"""Recordings of other robots, topic by topic, as sessions: the common part of bags and other MCAP files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from heapq import merge
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from devmind.bounds import damage
from devmind.errors import SessionError, nearest
from devmind.moment import STANDARD_SENSES
from devmind.sessions.bags import values
from devmind.sessions.importing import (
    MAX_GAP_S,
    ROUNDED,
    Event,
    Imported,
    episode_steps,
    samples_in_tick,
    tick_of,
    write_session,
)
from devmind.sessions.sounds import Part, timed_ticks

GAP_S = 0.2
"""Sound messages come in bursts; a longer pause counts as a gap."""
UNSET_S = 60.0
"""A clock that jumps by over an hour within this time of zero was not set before, as ROS' before its first /clock."""
UNSET = "the clock was not set yet"
LONGEST_WORDS = 1000
"""Longer texts are not spoken words: descriptions of robots, programs, files."""


@dataclass(frozen=True)
class Topic:
    """A topic of a foreign recording.

    Attributes:
        unread: why its messages cannot be decoded, or empty.
        count: how many messages the recording says that it has; None if it does not.
    """

    name: str
    schema: str
    unread: str = ""
    count: int | None = None

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
    """Write a foreign recording to the new session `out`, on the recording's own clock.

    The first topic with pictures (or `topic`) becomes sight, the first with sound becomes sound, texts become words,
    joint states `body`, and every other topic of numbers a sense of its own, float64 [K], named after the topic. After
    a pause of over an hour a new episode begins.

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
        raise SessionError(
            f"'{source.path}' has nothing that can be sensed; its topics are: {listed or 'none'}.{roles.reasons()}"
        )
    about = {"name": source.path.name, "topics": {one.name: one.schema for one in source.topics}}
    empty = f"'{source.path}' has no message that can be sensed; its topics are: {listed}."

    def episodes() -> Iterator[tuple[Any, Iterable[Any]]]:
        is_empty = True
        for _, numbered in groupby(_by_pauses(roles.events(), tick_hz), key=itemgetter(0)):
            is_empty = False
            yield about, episode_steps((event for _, event in numbered), tick_hz, str(source.path), empty)
        roles.report()
        if is_empty:
            raise SessionError(f"{empty}{roles.reasons()}")

    return write_session(out, source.kind, tick_hz, episodes(), roles.warnings, names=roles.names, overwrite=overwrite)


def _by_pauses(events: Iterable[Event], tick_hz: int) -> Iterator[tuple[int, Event]]:
    """(number of the episode, event with its tick in it): a pause of over MAX_GAP_S begins the next one."""
    number, begin, previous = 0, 0, 0
    for event in events:
        if event.tick - previous > MAX_GAP_S * tick_hz:
            number, begin = number + 1, event.tick
        previous = event.tick
        yield number, event._replace(tick=event.tick - begin)


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
    _start_ns: int = 0
    _used: Counter[str] = field(default_factory=Counter)
    _left: dict[str, Counter[str]] = field(default_factory=dict)
    _sizes: dict[str, set[int]] = field(default_factory=dict)
    _joints: dict[str, tuple[int, np.ndarray]] = field(default_factory=dict)

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
        if self.wanted:
            self._find_start()
            self._collect_joints()

    def reasons(self) -> str:
        """What was found out about topics that are not used, after a blank; empty if nothing was."""
        return "".join(f" {sentence}" for sentence in self.warnings if not sentence.startswith("Left out: "))

    def report(self) -> None:
        """Add what is known only when all messages were read: how many were left out and why, and what is missing."""
        for topic, whys in self._left.items():
            total = self._used[topic] + whys.total()
            for why, count in whys.items():
                self.warnings.append(f"{count:,} of {total:,} messages on '{topic}' are left out: {why}.")
        for one in self.source.topics:
            there = self._used[one.name] + self._left.get(one.name, Counter()).total()
            is_used = one.name in {self.picture, self.sound, *self.senses}
            if is_used and one.count is not None and there < one.count:
                self.warnings.append(
                    f"The recording promises {one.count:,} messages on '{one.name}', and {there:,} could be read."
                )
        for topic, sizes in self._sizes.items():
            if len(sizes) > 1:
                self.warnings.append(
                    f"Messages on '{topic}' have {min(sizes)} to {max(sizes)} numbers, so the sense "
                    f"'{self.senses[topic]}' changes its shape: no encoder can be made for it."
                )

    def _find_start(self) -> None:
        """The time of tick 0. Messages from before the clock was set do not count."""
        previous = self._start_ns = self.source.start_ns
        with closing(self.source.messages(self._all())) as messages:
            for _, time_ns, _ in messages:
                if time_ns - previous > MAX_GAP_S * 1e9:
                    self._start_ns = time_ns
                    return
                if time_ns > UNSET_S * 1e9:
                    return
                previous = time_ns

    def _collect_joints(self) -> None:
        """Name the numbers of each topic of joint states: several drivers may share one, each with its own joints."""
        topics = {name for name in self.senses if self.keys[name] == values.BODY}
        found: dict[str, dict[str, None]] = {name: {} for name in topics}
        with closing(self.source.messages(topics)) as messages:
            for topic, _, message in messages if topics else ():
                found[topic].update(dict.fromkeys(label for label, _ in values.numbers_of(message)))
        for topic, labels in found.items():
            if 0 < len(labels) <= values.MAX_NUMBERS:
                self.names[self.senses[topic]] = list(labels)

    def _all(self) -> set[str]:
        return {one for one in (self.picture, self.sound, *self.senses) if one}

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
                self._warn_once(name, f"Pictures on '{name}' are left out: {error}")
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
        for topic, time_ns, sent in self.source.messages(self._all() - {self.sound}):
            if time_ns < self._start_ns:
                self._leave(topic, UNSET)
                continue
            message = sent if isinstance(sent, Mapping) else {"data": sent}  # JSON may be anything
            tick = tick_of(self._time_s(time_ns), self.tick_hz)
            if topic == self.picture:
                self._used[topic] += 1
                decode = values.picture_of(self.keys[topic], message, topic)
                yield Event(tick, "picture", value=partial(self._decoded, decode, topic))
            elif self.senses[topic] == "words":
                yield from self._words(tick, topic, message)
            else:
                yield from self._numbers(tick, topic, message)

    def _words(self, tick: int, topic: str, message: Mapping[str, Any]) -> Iterator[Event]:
        text = str(message.get(values.WORDS[self.keys[topic]], ""))
        if len(text) > LONGEST_WORDS:
            self._leave(topic, f"a text of over {LONGEST_WORDS:,} letters is not taken for words")
            return
        self._used[topic] += 1
        if text:
            yield Event(tick, "sense", "words", text)

    def _numbers(self, tick: int, topic: str, message: Mapping[str, Any]) -> Iterator[Event]:
        name, found = self.senses[topic], list(values.numbers_of(message))
        if texts := values.texts_of(message):
            self._warn_once(f"{topic} texts", f"Texts in messages on '{topic}' are left out: {', '.join(texts)}")
        if not 0 < len(found) <= values.MAX_NUMBERS:
            self._leave(topic, f"{len(found):,} numbers in one message" if found else "no numbers")
            return
        self._used[topic] += 1
        if self.keys[topic] == values.BODY and name in self.names:
            array = self._placed(tick, topic, found)
        else:
            self.names.setdefault(name, [label for label, _ in found])
            self._sizes.setdefault(topic, set()).add(len(found))
            array = np.array([one for _, one in found], np.float64)
        if name == "body":
            if np.any(np.abs(array - array.astype(np.float32)) >= 0.5):
                self._warn_once("body", ROUNDED)
            array = array.astype(np.float32)
        yield Event(tick, "sense", name, array)

    def _placed(self, tick: int, topic: str, found: list[tuple[str, float]]) -> np.ndarray:
        """A message's numbers at the places of their names, beside those of earlier messages of the tick; else NaN."""
        names = self.names[self.senses[topic]]
        before = self._joints.get(topic)
        array = before[1].copy() if before is not None and before[0] == tick else np.full(len(names), np.nan)
        place = {label: k for k, label in enumerate(names)}
        for label, value in found:
            array[place[label]] = value
        self._joints[topic] = tick, array
        return array

    def _sound_parts(self) -> Iterator[Part]:
        about = None
        for topic, time_ns, message in self.source.messages({self.sound, *self.formats}):
            if topic != self.sound:
                about = message
                continue
            if time_ns < self._start_ns:
                self._leave(topic, UNSET)
                continue
            self._used[topic] += 1
            try:
                rate_hz, block = values.sound_of(message, about)
            except _UNREADABLE as error:
                self._warn_once(topic, f"Sound on '{topic}' is left out: {error}.")
                continue
            yield self._time_s(time_ns), rate_hz, block

    def _decoded(self, decode: Any, topic: str) -> np.ndarray | None:
        try:
            return np.asarray(decode())
        except _UNREADABLE as error:
            self._warn_once(topic, f"Pictures on '{topic}' are left out where they cannot be read: {error}")
            return None

    def _warn_once(self, topic: str, sentence: str) -> None:
        """Report once for each topic: a thousand damaged pictures are one sentence."""
        if topic not in self._warned_of:
            self._warned_of.add(topic)
            self.warnings.append(sentence.rstrip(".") + ".")

    def _leave(self, topic: str, why: str) -> None:
        """Count a message that is left out."""
        self._left.setdefault(topic, Counter())[why] += 1

    def _time_s(self, time_ns: int) -> float:
        return max(0, time_ns - self._start_ns) / 1e9

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
