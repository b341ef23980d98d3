"""Other programs' MCAP files as sessions: protobuf and JSON messages like Foxglove's, ROS messages by `rosbags`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcap.reader import McapReader, NonSeekingReader, make_reader
from mcap.records import Channel, Message, Schema
from mcap.stream_reader import StreamReader

from devmind.errors import DevmindError, SessionError
from devmind.moment import TICK_HZ
from devmind.sessions import chunks
from devmind.sessions.bags.ros import plain, type_store
from devmind.sessions.bags.topics import Topic, import_source
from devmind.sessions.importing import Imported, robots_extra

Decode = Callable[[bytes], Any]

ROS = {("ros1msg", "ros1"), ("ros2msg", "cdr"), ("ros2idl", "cdr")}
"""Encodings of schema and message that need `rosbags`."""


def import_mcap(
    path: str | Path, out: str | Path, tick_hz: int = TICK_HZ, *, topic: str | None = None, overwrite: bool = False
) -> Imported:
    """Write the MCAP file at `path`, which is no session of ours, to the new session `out`.

    See `topics.import_source` for the use of its topics; `topic` names the one whose pictures become sight.

    Raises:
        SessionError: it is a session already, cut or damaged, has nothing usable, or `out` cannot be written; nothing
            is left behind.
    """
    return import_source(Mcap(Path(path)), out, tick_hz, topic, overwrite)


class Mcap:
    """An MCAP file as a Source."""

    kind = "mcap"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._indexed = True
        try:
            with chunks.open_file(path) as file:
                chunks.check_expansion(file)
        except OSError as error:
            raise SessionError(f"'{path}' cannot be read: {error.strerror}; check the path and its rights.") from error
        except SessionError as error:
            raise SessionError(f"'{path}' cannot be read: {error}") from error
        with self._reader() as reader:
            if reader.get_header().profile == "devmind":
                raise SessionError(f"'{path}' is a session of devmind already; it needs no import.")
            schemas, channels, self.start_ns, counts = self._summary(reader)
        self._decoders: dict[int, Decode] = {}
        topics: dict[str, Topic] = {}
        for channel in sorted(channels, key=lambda one: (one.topic, one.id)):
            schema = schemas.get(channel.schema_id)
            name = schema.name if schema else "no schema"
            unread = self._add_decoder(channel, schema)
            if channel.topic not in topics or topics[channel.topic].unread:  # each publisher has a channel of its own
                topics[channel.topic] = Topic(channel.topic, name, unread, counts.get(channel.id, 0))
            elif not unread:
                before = topics[channel.topic]
                topics[channel.topic] = replace(before, count=(before.count or 0) + counts.get(channel.id, 0))
        self.topics = list(topics.values())

    def messages(self, names: Collection[str]) -> Generator[tuple[str, int, Any], None, None]:
        """(topic, time in ns, message as a dict of plain values) of the topics `names`, in order of time."""
        with self._reader() as reader:
            for _, channel, message in reader.iter_messages(topics=sorted(names)):
                if channel.id in self._decoders:
                    yield channel.topic, message.log_time, self._decoders[channel.id](message.data)

    @contextmanager
    def _reader(self) -> Iterator[McapReader]:
        try:
            with self.path.open("rb") as file:
                yield make_reader(file) if self._indexed else NonSeekingReader(file)
        except (GeneratorExit, DevmindError):
            raise
        except Exception as error:  # the exception depends on the place where a parser fails
            what = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".: ")
            raise SessionError(
                f"'{self.path}' is cut or damaged ({what}); copy it again, or mend it with 'mcap recover'."
            ) from error

    def _summary(self, reader: McapReader) -> tuple[dict[int, Schema], list[Channel], int, Mapping[int, int]]:
        """The schemas and channels from the file's index, or from its whole content; its start time; and how many
        messages each channel has."""
        summary = reader.get_summary()
        if summary is not None and summary.channels and summary.statistics is not None:
            told = summary.statistics
            return (
                summary.schemas,
                list(summary.channels.values()),
                told.message_start_time,
                told.channel_message_counts,
            )
        self._indexed = False  # without the channels the index is useless, and the stock reader fails
        schemas: dict[int, Schema] = {}
        channels: dict[int, Channel] = {}
        starts: list[int] = []
        counts: Counter[int] = Counter()
        with self.path.open("rb") as file:
            for record in StreamReader(file).records:
                if isinstance(record, Schema):
                    schemas[record.id] = record
                elif isinstance(record, Channel):
                    channels[record.id] = record
                elif isinstance(record, Message):
                    starts.append(record.log_time)
                    counts[record.channel_id] += 1
        return schemas, list(channels.values()), min(starts, default=0), counts

    def _add_decoder(self, channel: Channel, schema: Schema | None) -> str:
        """Prepare the decoding of a channel; returns the reason if it cannot be decoded."""
        encodings = (schema.encoding if schema else "", channel.message_encoding)
        try:
            if channel.message_encoding == "json":
                self._decoders[channel.id] = json.loads
            elif schema is not None and encodings == ("protobuf", "protobuf"):
                self._decoders[channel.id] = _protobuf_decoder(schema)
            elif schema is not None and encodings in ROS:
                self._decoders[channel.id] = _ros_decoder(schema)
            else:
                return f"encoded as {channel.message_encoding or 'unknown'}, which is not read"
        except DevmindError:
            raise
        except Exception as error:  # a wrong schema of one topic must not hide the others
            return f"its schema cannot be read: {type(error).__name__}"
        return ""


def _protobuf_decoder(schema: Schema) -> Decode:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    files = {file.name: file for file in descriptor_pb2.FileDescriptorSet.FromString(schema.data).file}

    def add(name: str) -> None:
        """Add a file after the files it imports: the set may be in any order."""
        file = files.pop(name, None)
        if file is not None:
            for needed in file.dependency:
                add(needed)
            pool.Add(file)

    for name in list(files):
        add(name)
    made: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName(schema.name))
    return lambda data: _plain_protobuf(made.FromString(data))


def _plain_protobuf(message: Any) -> Any:
    """A protobuf message as dicts, lists, numbers, text and bytes; unset fields have their defaults."""
    if not hasattr(message, "DESCRIPTOR"):
        return message
    found = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if hasattr(value, "DESCRIPTOR"):
            if message.HasField(field.name):
                found[field.name] = _plain_protobuf(value)
        elif isinstance(value, bool | int | float | str | bytes):
            found[field.name] = value
        elif not hasattr(value, "items"):  # not a map, whose keys have no known meaning
            found[field.name] = [_plain_protobuf(one) for one in value]
    return found


def _ros_decoder(schema: Schema) -> Decode:
    kind = schema.name if "/msg/" in schema.name else schema.name.replace("/", "/msg/")
    with robots_extra("An MCAP file with ROS messages"):
        store = type_store(kind, schema.data.decode(), is_idl=schema.encoding == "ros2idl")
    read = store.deserialize_ros1 if schema.encoding == "ros1msg" else store.deserialize_cdr
    return lambda data: plain(read(data, kind))
