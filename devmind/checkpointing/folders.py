"""Folders that exist whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devmind.checkpointing.files import explain_os_errors, sync_file, sync_folder

INCOMPLETE = ".incomplete"
REPLACED = ".replaced"


@contextmanager
def write_whole(target: Path) -> Iterator[Path]:
    """Write a folder: the block fills the yielded `NAME.incomplete`, which is then synced and renamed.

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
            _sync(incomplete)
            _move(incomplete, target)
        except BaseException:
            shutil.rmtree(incomplete, ignore_errors=True)
            raise


def _sync(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        sync_folder(path) if path.is_dir() else sync_file(path)
    sync_folder(folder)


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
