"""ROS 1 and ROS 2 bags as sessions, through `rosbags`: no ROS needed."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from devmind.errors import DevmindError, SessionError
from devmind.moment import TICK_HZ
from devmind.sessions.bags.topics import Topic, import_source
from devmind.sessions.importing import Imported, robots_extra


def import_bag(
    path: str | Path, out: str | Path, tick_hz: int = TICK_HZ, *, topic: str | None = None, overwrite: bool = False
) -> Imported:
    """Write the bag at `path` (a ROS 1 `.bag`, or a ROS 2 folder with metadata.yaml) to the new session `out`.

    See `topics.import_source` for the use of its topics; `topic` names the one whose pictures become sight.

    Raises:
        SessionError: it is no bag, cut or damaged, has nothing usable, the extra `robots` is missing, or `out` cannot
            be written; nothing is left behind.
    """
    return import_source(Bag(Path(path)), out, tick_hz, topic, overwrite)


class Bag:
    """A bag as a Source."""

    kind = "ros"

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_file() and path.suffix != ".bag":
            raise SessionError(f"'{path}' is a ROS 1 bag by another name; rename it to '{path.stem}.bag'.")
        with self._reader() as reader:
            found = {one.topic: one.msgtype for one in reader.connections}
            self.topics = [Topic(name, found[name]) for name in sorted(found)]
            self.start_ns = reader.start_time if reader.message_count else 0

    def messages(self, names: Collection[str]) -> Generator[tuple[str, int, Any], None, None]:
        """(topic, time in ns, message as a dict of plain values) of the topics `names`, in order of time."""
        with self._reader() as reader:
            connections = [one for one in reader.connections if one.topic in names]
            for connection, time_ns, data in reader.messages(connections) if connections else ():
                yield connection.topic, time_ns, plain(reader.deserialize(data, connection.msgtype))

    @contextmanager
    def _reader(self) -> Iterator[Any]:
        with robots_extra("A ROS bag"):
            from rosbags.highlevel import AnyReader
            from rosbags.typesys import Stores, get_typestore
        try:
            # ROS 2 bags before Iron do not contain their types.
            with AnyReader([self.path], default_typestore=get_typestore(Stores.ROS2_HUMBLE)) as reader:
                yield reader
        except (GeneratorExit, DevmindError):
            raise
        except Exception as error:  # the exception depends on the place where its parser fails
            raise SessionError(
                f"The bag '{self.path}' cannot be read ({_first_line(error)}); copy it again."
            ) from error


def plain(message: Any) -> Any:
    """A message of rosbags as dicts, lists, arrays, numbers and text."""
    if hasattr(message, "__dataclass_fields__"):
        fields: Mapping[str, Any] = message.__dataclass_fields__
        return {name: plain(getattr(message, name)) for name in fields if not name.startswith("__")}
    if isinstance(message, list) and message and not isinstance(message[0], str | int | float):
        return [plain(one) for one in message]
    return message if not isinstance(message, np.generic) else message.item()


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0].rstrip('.')}" if text else type(error).__name__
