"""Recognises a file or folder by its content, and makes a session of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mcap.writer import MCAP0_MAGIC

from devmind.errors import SessionError
from devmind.moment import TICK_HZ
from devmind.sessions.bags import METADATA, import_bag, import_mcap, storage_files
from devmind.sessions.importing import Imported
from devmind.sessions.lerobot import INFO, import_lerobot
from devmind.sessions.media import import_media

IMPORTS = {"lerobot": import_lerobot, "bag": import_bag, "mcap": import_mcap}
"""Kinds that are imported one at a time; everything else is media."""

_MAGIC = {b"#ROSBAG": "bag", MCAP0_MAGIC: "mcap", b"SQLite format 3\0": "bag"}


def import_any(
    paths: str | Path | Iterable[str | Path],
    out: str | Path,
    tick_hz: int = TICK_HZ,
    *,
    topic: str | None = None,
    overwrite: bool = False,
) -> Imported:
    """Write media, or one LeRobotDataset, ROS bag or MCAP file, to the new session `out`.

    `topic` names the source of the pictures, if there are several.

    Raises:
        SessionError: something cannot be read, or `out` cannot be written; nothing is left behind.
    """
    given = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    found = [kind_of(path) for path in given]
    for kind, path in found:
        if Path(out).resolve() == path.resolve():
            raise SessionError(f"'{out}' would replace what is imported; choose another name.")
        if kind != "media":
            if len(given) > 1:
                raise SessionError(f"'{path}' is a {kind} and is imported alone; give one at a time.")
            return IMPORTS[kind](path, out, tick_hz, topic=topic, overwrite=overwrite)
    if topic is not None:
        raise SessionError(f"Media have no topics; leave out '{topic}'.")
    return import_media(given, out, tick_hz, overwrite=overwrite)


def kind_of(path: Path) -> tuple[str, Path]:
    """ "lerobot", "bag", "mcap" or "media", and its path: a file of a bag's folder stands for the folder.

    Raises:
        SessionError: it is a database that belongs to no ROS 2 bag.
    """
    if path.is_dir():
        return _kind_of_folder(path)
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError:
        return "media", path  # the import of media reports what is wrong
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "media")
    is_database, has_metadata = start.startswith(b"SQLite"), (path.parent / METADATA).is_file()
    if is_database and not has_metadata and path.suffix != ".db3":
        raise SessionError(
            f"'{path}' is a database; a ROS 2 bag is a folder with {METADATA}, or a file that ends in .db3."
        )
    is_part = path.name == METADATA or (is_database and has_metadata)
    return ("bag", path.parent) if is_part else (kind, path)


def _kind_of_folder(path: Path) -> tuple[str, Path]:
    if (path / INFO).is_file():
        return "lerobot", path
    if (path / METADATA).is_file():
        return "bag", path
    files = storage_files(path)  # of a recorder that was killed before it wrote the metadata
    if len(files) == 1 and files[0].suffix == ".mcap":
        return "mcap", files[0]
    return ("bag" if files else "media"), path
