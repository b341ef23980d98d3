"""Fetches a set into a data folder: downloads resume, and everything is verified before it is put in place."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from devmind import bounds
from devmind.checkpointing.files import replace_file
from devmind.datasets.catalogue import DataSet, find
from devmind.datasets.download import download, file_sha256
from devmind.errors import DevmindError

ReportProgress = Callable[[int], None]
"""Called with the number of bytes of the whole set received so far."""


@dataclass(frozen=True)
class Got:
    """The paths of a set's files in a data folder, and whether all were there before."""

    folder: Path
    paths: tuple[str, ...]
    already: bool


def get(name: str, out: Path, report_progress: ReportProgress | None = None) -> Got:
    """Fetch the set `name` into the data folder `out`; a complete set is left unchanged.

    `out/.sets/NAME.json`, which is written last, lists the files with their checksums.

    Raises:
        DevmindError: there is no such set, its source cannot be reached, the contents differ from those expected, or
            the disk refuses.
    """
    item, listed = find(name), out / ".sets" / f"{name}.json"
    if (paths := _whole(listed, out)) is not None:
        return Got(out, paths, already=True)
    downloads = out / ".downloads" / name
    files = _download_all(item, downloads, report_progress)
    try:
        contents = dict(item.arrange(files))
        _verify(item, contents)
    except DevmindError:
        shutil.rmtree(downloads, ignore_errors=True)  # continuing could not make it right
        raise
    try:
        _put(contents, out, listed)
        shutil.rmtree(downloads)
        if not any(downloads.parent.iterdir()):
            downloads.parent.rmdir()
    except OSError as error:
        raise DevmindError(
            f"Cannot write into {out}: {error.strerror or error}; free space or choose another --out."
        ) from error
    return Got(out, tuple(sorted(contents)), already=False)


def digest(contents: Mapping[str, bytes]) -> str:
    """One checksum of many files: that of the output of `sha256sum` for them, in the order of their paths."""
    lines = (f"{hashlib.sha256(contents[path]).hexdigest()}  {path}\n" for path in sorted(contents))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _download_all(item: DataSet, folder: Path, report_progress: ReportProgress | None) -> dict[str, Path]:
    files, before = {}, 0
    for remote in item.files:
        target = files[remote.name] = folder / remote.name
        if not target.is_file():

            def progress(here: int, before: int = before) -> None:
                if report_progress:
                    report_progress(before + here)

            download(remote.url, target, sha256=remote.sha256, progress=progress)
        before += remote.size
    return files


def _verify(item: DataSet, contents: Mapping[str, bytes]) -> None:
    if item.contents_sha256 and (found := digest(contents)) != item.contents_sha256:
        raise DevmindError(
            f"The set '{item.name}' from {item.home} has other contents than expected (checksum {found[:12]}..., "
            f"expected {item.contents_sha256[:12]}...); nothing was kept: try again; "
            "if it stays so, the source has changed."
        )


def _put(contents: Mapping[str, bytes], out: Path, listed: Path) -> None:
    for path, content in contents.items():
        replace_file(out / path, content)
    checksums = {path: hashlib.sha256(content).hexdigest() for path, content in contents.items()}
    replace_file(listed, json.dumps(checksums, indent=0, sort_keys=True).encode())


def _whole(listed: Path, out: Path) -> tuple[str, ...] | None:
    """The set's paths if all files exist unchanged; else None."""
    try:
        checksums = bounds.parse_json(bounds.read_file(listed, DevmindError), DevmindError, "It is not JSON ({}).")
        same = all(file_sha256(out / path) == sha256 for path, sha256 in checksums.items())
    except (OSError, AttributeError, DevmindError):
        return None
    return tuple(sorted(checksums)) if same else None
