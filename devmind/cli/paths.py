"""Paths that a user typed; if one does not exist, the error names the nearest."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from devmind.errors import ConfigError, nearest

LISTED = 8
"""How many names of a folder are listed if none is similar."""


def user_data() -> Path:
    """devmind's folder for a user's data, independent of the working folder: `devmind` in XDG_DATA_HOME (an absolute
    path by its standard), or in the system's usual place. It need not exist.

    Raises:
        ConfigError: the user has no home, as in a container that was started with a number for a user.
    """
    given = Path(os.environ.get("XDG_DATA_HOME", ""))
    if given.is_absolute():
        return given / "devmind"
    try:
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Application Support" / "devmind"
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "devmind"
        return Path.home() / ".local" / "share" / "devmind"
    except RuntimeError as error:  # Path.home knows no other
        raise ConfigError(
            "This user has no home folder (HOME is not set, and there is no account), so no place for its memory: "
            "name one by --memory DIR, or set HOME or XDG_DATA_HOME."
        ) from error


def named_place(place: str) -> str:
    """The value of --memory; an empty one is refused, as it would silently mean the current folder.

    Raises:
        ConfigError: it is empty, or a file.
    """
    if not place.strip():
        raise ConfigError("--memory expects a folder or a database's URL; got nothing. Leave it out for ./memory.")
    if os.path.exists(place) and not os.path.isdir(place):  # checked before heavy imports; a URL is no file
        raise ConfigError(f"--memory expects a folder or a database's URL, and '{place}' is a file.")
    return place


def existing(path: Path | None, option: str, kind: str = "folder") -> Path | None:
    """`path` if it exists and is a folder (or a file); None stays None.

    Raises:
        ConfigError: it does not exist, or is the other kind.
    """
    if path is None or (path.is_dir() if kind == "folder" else path.is_file()):
        return path
    if path.exists():
        what = "a folder" if path.is_dir() else "a file" if path.is_file() else f"no ordinary {kind}"
        raise ConfigError(f"{option} expects a {kind}, and '{path}' is {what}.")
    raise ConfigError(f"There is no {kind} '{path}' ({option}){_nearby(path, kind)}")


def existing_files(paths: Sequence[Path] | None, option: str) -> list[Path]:
    """`paths`, after a check that all are files."""
    return [path for path in paths or () if existing(path, option, "file")]


def _nearby(path: Path, kind: str) -> str:
    """The end of the sentence: the most similar name of this kind in the deepest existing folder of `path`."""
    parent, missing = path.parent, path.name
    while not parent.is_dir() and parent != parent.parent:
        parent, missing, kind = parent.parent, parent.name, "folder"
    fits = Path.is_dir if kind == "folder" else Path.is_file
    names = [entry.name for entry in parent.iterdir() if not entry.name.startswith(".") and fits(entry)]
    if not names:
        return f"; there is no {kind} in '{parent}'."
    tail = nearest(missing, names, LISTED)
    return tail.replace("did you mean '", f"did you mean '{parent}/" if str(parent) != "." else "did you mean '")


def writable_file(path: Path | None, option: str) -> None:
    """Refuse a file that cannot be written, before the work whose result it should store.

    Raises:
        ConfigError: it is a folder, its folder does not exist, or it may not be written.
    """
    if path is None:
        return
    if path.is_dir():
        raise ConfigError(f"{option} expects a file, and '{path}' is a folder.")
    existing(path.parent, option)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigError(f"{option}: '{path}' may not be written; choose another place.")
