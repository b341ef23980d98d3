"""Folders that exist whole or not at all, sealed by `checksums.json`."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devmind import bounds
from devmind.checkpointing.files import explain_os_errors, sha256, sync_file, sync_folder
from devmind.errors import CheckpointError

CHECKSUMS = "checksums.json"
INCOMPLETE = ".incomplete"
REPLACED = ".replaced"


@contextmanager
def write_sealed(target: Path) -> Iterator[Path]:
    """Write a folder: the block fills the yielded `NAME.incomplete`, which is then checksummed, synced and renamed.

    An existing target is replaced, and restored if the last rename fails. After an exception nothing is left behind. A
    killed process leaves `NAME.incomplete` (or `NAME.replaced`, still whole); the next write of that name removes it.

    Raises:
        CheckpointError: the disk refuses; the message says why.
    """
    target = Path(target)
    incomplete = target.with_name(target.name + INCOMPLETE)
    with explain_os_errors(target):
        try:
            remove(incomplete)
            incomplete.mkdir(parents=True)
            yield incomplete
            _seal(incomplete)
            _move(incomplete, target)
        except BaseException:
            shutil.rmtree(incomplete, ignore_errors=True)
            raise


def _seal(folder: Path) -> None:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / CHECKSUMS)
    sums = {path.relative_to(folder).as_posix(): _entry(path) for path in files}
    (folder / CHECKSUMS).write_text(json.dumps({"files": sums}, indent=1), encoding="utf-8")
    for path in [*files, folder / CHECKSUMS]:
        sync_file(path)
    for path in [*(path for path in folder.rglob("*") if path.is_dir()), folder]:
        sync_folder(path)


def _entry(path: Path) -> dict[str, int | str]:
    return {"bytes": path.stat().st_size, "sha256": sha256(path)}


def _move(incomplete: Path, target: Path) -> None:
    # Unlike `take_place`: a folder that is not empty cannot be replaced in one step, so the old one is renamed first.
    replaced = target.with_name(target.name + REPLACED)
    if target.exists():
        remove(replaced)
        os.rename(target, replaced)
    try:
        os.rename(incomplete, target)
    except OSError:
        if replaced.exists():
            os.rename(replaced, target)
        raise
    sync_folder(target.parent)
    remove(replaced)


def remove(folder: Path) -> None:
    """Delete a folder if it exists; it is renamed first, so that a kill never leaves half a folder under its name."""
    if not folder.exists():
        return
    doomed = folder if folder.name.endswith(INCOMPLETE) else folder.with_name(folder.name + INCOMPLETE)
    if doomed != folder:
        shutil.rmtree(doomed, ignore_errors=True)
        os.rename(folder, doomed)
    shutil.rmtree(doomed)


def verify(folder: Path) -> None:
    """Check every file of a sealed folder against `checksums.json`.

    Raises:
        CheckpointError: there is no such folder, it was never finished, or a file is missing, shortened or changed.
    """
    folder = Path(folder)
    if folder.name.endswith(INCOMPLETE):
        raise CheckpointError(f"{folder} was never finished (its writing was interrupted); use an older one.")
    if not folder.is_dir():
        raise CheckpointError(f"There is no folder {folder}; give one that was saved.")
    for name, (size, digest) in _read_checksums(folder).items():
        _verify_file(folder / name, size, digest)


def _read_checksums(folder: Path) -> dict[str, tuple[int, str]]:
    path = folder / CHECKSUMS
    if not path.is_file():
        raise CheckpointError(f"{folder} has no {CHECKSUMS}, so nothing vouches for its content; use another one.")
    sentence = f"{path} is damaged ({{}}); use an older one."
    found = bounds.parse_json(bounds.read_file(path, CheckpointError), CheckpointError, sentence)
    with bounds.damage(CheckpointError, sentence):
        return {name: (entry["bytes"], entry["sha256"]) for name, entry in found["files"].items()}


def _verify_file(path: Path, size: int, digest: str) -> None:
    if not path.is_file():
        raise CheckpointError(f"{path.parent} is incomplete: '{path.name}' is missing; use an older one.")
    found = path.stat().st_size
    if found != size:
        raise CheckpointError(f"{path} is damaged: it should have {size} bytes and has {found}; use an older one.")
    if sha256(path) != digest:
        raise CheckpointError(f"{path} is damaged: its content does not match its SHA-256 checksum; use an older one.")
