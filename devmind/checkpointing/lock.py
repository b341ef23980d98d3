"""One process writes a folder at a time: a lock of the system, which goes when its process does, however it ends."""

from __future__ import annotations

import errno
import os
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
def locked(folder: Path) -> Iterator[None]:
    """Hold `folder`, which is made if missing, until the block ends. A file `.lock` stays in it and
    means nothing; a new folder that has nothing else goes again.

    On a file system without locks there is none.

    Raises:
        CheckpointError: another process holds it; or the folder cannot be made or written.
    """
    folder = Path(folder)
    is_new = not folder.exists()
    make_folder(folder)
    file = _opened(folder)
    try:
        with suppress(OSError):  # who holds it is only told, also on a full disk
            file.truncate(0)
            file.write(str(os.getpid()).encode())
            file.flush()
        yield
    finally:
        with suppress(OSError):
            if is_new and [path.name for path in folder.iterdir()] == [LOCK]:  # refused before anything was begun
                (folder / LOCK).unlink()
                folder.rmdir()
        file.close()


def _opened(folder: Path) -> IO[bytes]:
    """The lock's file, held."""
    while True:
        try:
            file = (folder / LOCK).open("a+b")
        except OSError as error:
            raise refusal(error, folder) from error
        try:
            _take(file)
        except OSError as error:
            if error.errno in _HELD:
                told = _holder(file)
                file.close()
                raise CheckpointError(
                    f"Another process{told} is writing to {folder}; wait until it has ended, or give another --out."
                ) from None
        with suppress(OSError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(folder / LOCK)):
                return file
        file.close()  # who held it before took it away: this one has no name any more
        make_folder(folder)


def _take(file: IO[bytes]) -> None:
    """Lock or raise OSError at once; released when the file is closed, by the system if need be."""
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
