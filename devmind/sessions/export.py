"""Recordings in other formats; each is one function of the parts and the target path."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from operator import and_
from pathlib import Path

from devmind.checkpointing.files import take_place
from devmind.errors import SessionError, nearest
from devmind.sessions.film import export_files, export_mkv
from devmind.sessions.lerobot import export_lerobot
from devmind.sessions.mcap_file import why_not_written
from devmind.sessions.parts import parts
from devmind.sessions.turning import unwritten

Exporter = Callable[[Sequence[Path], Path], list[str]]

EXPORTERS: Mapping[str, Exporter] = {"lerobot": export_lerobot, "mkv": export_mkv, "wav": export_files}
"""By the value of `--to`. An exporter writes to a path where nothing exists, and returns sentences on what it left out.
"""

SUFFIXES = {"mkv": ".mkv"}
"""For formats that are one file; the others are folders."""


def default_out(path: Path, to: str) -> Path:
    """The default target of an export: in the current folder, named after the recording."""
    return Path(f"{path.stem}{SUFFIXES.get(to, f'-{to}')}")


def export(
    path: str | Path, to: str, out: str | Path | None = None, *, overwrite: bool = False
) -> tuple[Path, list[str]]:
    """Write a recording with all its parts as `to`; returns the path, and sentences on what is missing.

    It appears under its name only when it is whole, and only those who may read the recording may read it.

    Raises:
        SessionError: there is no such format, a part cannot be read, `out` exists or cannot be written.
    """
    if to not in EXPORTERS:
        raise SessionError(f"There is no format '{to}' to export to{nearest(to, EXPORTERS)}")
    path = Path(path)
    out = Path(out) if out is not None else default_out(path, to)
    whole = parts(path)
    if out.is_dir():
        raise SessionError(f"'{out}' is a folder already and is never replaced; choose another name, or remove it.")
    if out.resolve() in [part.resolve() for part in whole]:
        raise SessionError(f"'{out}' is the recording itself; choose another name.")
    if (suffix := SUFFIXES.get(to)) and out.suffix not in ("", suffix):
        raise SessionError(
            f"A recording is written as {to.upper()} here, and '{out}' ends as another kind of file: name it "
            f"'{out.with_suffix(suffix)}', or choose a format by --to ({', '.join(EXPORTERS)})."
        )
    if out.exists() and not overwrite:
        raise SessionError(why_not_written(out, FileExistsError()))
    mode = reduce(and_, (part.stat().st_mode & 0o777 for part in whole))
    private = out.with_name(f".{out.name}.{os.getpid()}.partial")
    partial = private / out.name
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove(private)
        private.mkdir(mode=0o700)  # nobody else can enter it, whatever the exporter's files are
        messages = EXPORTERS[to](whole, partial)
        _only_for(mode, partial)
        with unwritten(out):
            take_place(partial, out)
    except OSError as error:
        raise SessionError(why_not_written(out, error)) from error
    finally:
        with suppress(OSError):
            _remove(private)
    return out, messages


def _only_for(mode: int, path: Path) -> None:
    """Limit the rights of files to the recording's `mode`; folders can be entered too."""
    for one in [path, *path.rglob("*")] if path.is_dir() else [path]:
        enter = (mode & 0o444) >> 2 if one.is_dir() else 0
        with suppress(OSError):  # a file system without rights
            one.chmod((mode & 0o666 & one.stat().st_mode) | enter)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
