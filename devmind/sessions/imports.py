"""Recognises a file or folder by its content, and makes a session of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mcap.writer import MCAP0_MAGIC

from devmind.errors import SessionError
from devmind.moment import TICK_HZ
from devmind.sessions.bags import import_bag, import_mcap
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
        SessionError: it is the database of a ROS 2 bag without the bag's metadata.yaml.
    """
    if path.is_dir():
        if (path / INFO).is_file():
            return "lerobot", path
        return ("bag" if (path / "metadata.yaml").is_file() else "media"), path
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError:
        return "media", path  # the import of media reports what is wrong
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "media")
    if path.name == "metadata.yaml":
        return "bag", path.parent
    if start.startswith(b"SQLite"):
        if not (path.parent / "metadata.yaml").is_file():
            raise SessionError(f"'{path}' is a database; a ROS 2 bag is a folder with metadata.yaml beside it.")
        return "bag", path.parent
    return kind, path
