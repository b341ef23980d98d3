"""A lock, so that only one process writes to a folder at a time; the system releases it when the process ends."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from devmind.checkpointing.files import make_folder, refusal
from devmind.errors import CheckpointError

LOCK = ".lock"
_HELD = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
_FIRST_BYTE = 0


@contextmanager
def lock_folder(folder: Path, wait_s: float = 0.0) -> Iterator[None]:
    """Lock `folder`, which is made if missing, until the block ends.

    The file `.lock` stays in the folder and has no meaning afterwards; a new folder with nothing else in it is removed.
    On a file system without locks nothing is locked.

    Args:
        wait_s: seconds to wait for another process that has the lock.

    Raises:
        CheckpointError: another process has the lock, or the folder cannot be made or written.
    """
    folder = Path(folder)
    is_new = not folder.exists()
    make_folder(folder)
    file = _opened(folder, time.monotonic() + wait_s)
    try:
        with suppress(OSError):  # the process id is for information, and not needed on a full disk
            file.truncate(0)
            file.write(str(os.getpid()).encode())
            file.flush()
        yield
    finally:
        with suppress(OSError):
            if is_new and [path.name for path in folder.iterdir()] == [LOCK]:  # nothing was written
                (folder / LOCK).unlink()
                folder.rmdir()
        file.close()


def _opened(folder: Path, until_s: float) -> IO[bytes]:
    """The file of the lock, locked."""
    while True:
        try:
            file = (folder / LOCK).open("a+b")
        except OSError as error:
            raise refusal(error, folder) from error
        try:
            _take(file)
        except OSError as error:
            if error.errno in _HELD:
                holder = _holder(file)
                file.close()
                if time.monotonic() < until_s:
                    time.sleep(0.02)
                    continue
                raise CheckpointError(
                    f"Another process{holder} is writing to {folder}; wait until it has ended, or give another --out."
                ) from None
        with suppress(OSError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(folder / LOCK)):
                return file
        file.close()  # its former holder has deleted it, so this file has no name any more
        make_folder(folder)


def _take(file: IO[bytes]) -> None:
    """Lock the file or raise OSError at once; closing the file releases the lock."""
    if os.name == "nt":
        import msvcrt

        file.seek(_FIRST_BYTE)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _holder(file: IO[bytes]) -> str:
    with suppress(OSError, ValueError):
        file.seek(0)
        return f" ({int(file.read(20))})"
    return ""
