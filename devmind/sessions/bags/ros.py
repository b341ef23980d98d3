"""ROS 1 and ROS 2 bags as sessions, through `rosbags`: no ROS needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from devmind.errors import DevmindError, SessionError
from devmind.moment import TICK_HZ
from devmind.sessions.bags.topics import Topic, import_source
from devmind.sessions.importing import Imported, robots_extra

ROS1_MAGIC = b"#ROSBAG"
METADATA = "metadata.yaml"
STORAGES = (".db3", ".mcap")
IDL_LINE = "=" * 80 + "\n"
"""Stands before each definition in a schema of OMG IDL, by MCAP's registry; then `IDL: package/msg/Name`."""


def import_bag(
    path: str | Path, out: str | Path, tick_hz: int = TICK_HZ, *, topic: str | None = None, overwrite: bool = False
) -> Imported:
    """Write the bag at `path` (a ROS 1 file, a ROS 2 folder, or a file of one) to the new session `out`.

    See `topics.import_source` for the use of its topics; `topic` names the one whose pictures become sight.

    Raises:
        SessionError: it is no bag, cut or damaged, has nothing usable, the extra `robots` is missing, or `out` cannot
            be written; nothing is left behind.
    """
    return import_source(Bag(Path(path)), out, tick_hz, topic, overwrite)


def storage_files(folder: Path) -> list[Path]:
    """The files of a ROS 2 recording that lacks its metadata.yaml, as one whose recorder was killed."""
    return sorted(path for path in folder.iterdir() if path.suffix in STORAGES and not path.name.startswith("."))


class Bag:
    """A bag as a Source. A topic whose messages cannot be decoded hides no other topic."""

    kind = "ros"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = storage_files(path) if path.is_dir() and not (path / METADATA).is_file() else [path]
        self._is_ros1 = path.is_file() and _starts_with(path, ROS1_MAGIC)
        self._check_logs()
        self._decoders: dict[str, Callable[[Any], Any]] = {}
        with self._readers() as readers:
            self.start_ns = min((one.start_time for one in readers if one.message_count), default=0)
            unread: dict[str, str] = {}
            kinds: dict[str, str] = {}
            promised: Counter[str] = Counter()
            for one in (one for reader in readers for one in reader.connections):
                kinds.setdefault(one.topic, one.msgtype)
                unread[one.topic] = self._add_decoder(one)
                promised[one.topic] += one.msgcount
            self.topics = [Topic(name, kinds[name], unread[name], promised[name]) for name in sorted(kinds)]

    def messages(self, names: Collection[str]) -> Generator[tuple[str, int, Any], None, None]:
        """(topic, time in ns, message as a dict of plain values) of the topics `names`, in order of time."""
        with self._readers() as readers:
            streams = [self._of(reader, names) for reader in readers]
            for topic, time_ns, kind, data in merge(*streams, key=itemgetter(1)):
                yield topic, time_ns, self._decoders[kind](data)

    def _check_logs(self) -> None:
        """Refuse a database whose newest messages still stand in its log: rosbags reads past the log in silence."""
        folder = self.path if self.path.is_dir() else self.path.parent
        for log in sorted(folder.glob("*.db3-wal")) if not self._is_ros1 else ():
            if log.stat().st_size:
                raise SessionError(
                    f"'{log}' holds messages that are not in the database yet, as its recorder was killed; in its "
                    f"folder, run: sqlite3 {log.name.removesuffix('-wal')} 'PRAGMA wal_checkpoint(TRUNCATE)'. Then "
                    "import again."
                )

    def _of(self, reader: Any, names: Collection[str]) -> Iterator[tuple[str, int, str, Any]]:
        wanted = [one for one in reader.connections if one.topic in names and one.msgtype in self._decoders]
        for connection, time_ns, data in reader.messages(wanted) if wanted else ():
            yield connection.topic, time_ns, connection.msgtype, data

    def _add_decoder(self, connection: Any) -> str:
        """Prepare the decoding of a connection's messages; returns the reason if they cannot be decoded."""
        from rosbags.typesys import Stores, get_typestore

        kind, definition = connection.msgtype, connection.msgdef
        if kind in self._decoders:
            return ""
        try:
            if definition.data:
                store = type_store(kind, definition.data, is_idl=definition.format.name == "IDL")
            else:  # ROS 2 bags before Iron do not contain their types
                store = get_typestore(Stores.ROS2_HUMBLE)
            store.get_msgdef(kind)  # also builds what it consists of
        except Exception as error:
            if not definition.data:
                return "its message type is no standard one, and the bag has no definition of it"
            return f"its definition cannot be read: {type(error).__name__}"
        read = store.deserialize_ros1 if self._is_ros1 else store.deserialize_cdr
        self._decoders[kind] = lambda data: plain(read(data, kind))
        return ""

    @contextmanager
    def _readers(self) -> Iterator[list[Any]]:
        with robots_extra("A ROS bag"):
            from rosbags.rosbag1 import Reader as Reader1
            from rosbags.rosbag2 import Reader as Reader2
        try:
            with ExitStack() as stack:
                make: Callable[[Path], Any] = Reader1 if self._is_ros1 else Reader2
                readers = [stack.enter_context(make(path)) for path in self._files]
                for reader in readers if not self._is_ros1 else ():
                    _trust_the_data(reader.storage)
                yield readers
        except (GeneratorExit, DevmindError):
            raise
        except Exception as error:  # the exception depends on the place where its parser fails
            mend = "copy it again"
            if self._is_ros1:
                mend = (
                    "a recording that was cut off gets its index by 'rosbag reindex FILE' (ROS 1); else copy it again"
                )
            elif self._files != [self.path]:
                mend = "try 'ros2 bag reindex FOLDER'"
            raise SessionError(f"The bag '{self.path}' cannot be read ({_first_line(error)}); {mend}.") from error


def _starts_with(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def _trust_the_data(storage: Any) -> None:
    """Let a folder's topics be found by name, and its files be read in order of time.

    rosbags finds a topic's messages only where metadata.yaml and the file give it the same quality of service, which
    they need not do, and reads files in the order in which metadata.yaml lists them.
    """
    files = getattr(storage, "storages", None)
    if files is None:  # a file without metadata
        return
    files.sort(key=lambda one: one.metadata.start_time)
    for held in (storage, *files):
        held.connections[:] = [one._replace(ext=None) for one in held.connections]


def type_store(kind: str, definition: str, *, is_idl: bool = False) -> Any:
    """rosbags' type store of a message type, from the definition (ROS' .msg, or OMG IDL) that a recording holds."""
    from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore

    store = get_typestore(Stores.EMPTY)
    if not is_idl:
        store.register(get_types_from_msg(definition, kind))
        return store
    lines = [line for line in definition.splitlines(keepends=True) if not line.lstrip().startswith("#include")]
    parts = [part.partition("\n")[2] if part.startswith("IDL:") else part for part in "".join(lines).split(IDL_LINE)]
    types: dict[str, Any] = {}
    for part in parts:
        if part.strip():
            types.update(get_types_from_idl(part))
    store.register(types)
    return store


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
