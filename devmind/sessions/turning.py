"""The lock on a recording being written, and a request by another process that its writer ends the current part.

A writer holds a system lock on its open file, which ends with the process, however that ends. A process that wants to
rewrite a locked part puts an empty file beside it, NAME.turn. The writer sees it at its next tick, or within half a
second without ticks, ends the part, removes the file, and continues in the next part.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO

from devmind.errors import SessionError

PATIENCE_S = 5.0
"""A writer without an answer for longer does not turn: it is a plain `Recorder`, or is stopped."""
QUIET_S = 10.0
"""Without system locks, a recording is watched for so long; if it does not change, nobody writes it. The times of files
do not tell, because the clock may have been set.
"""
_LOOK_S = 0.05
_HELD = (errno.EAGAIN, errno.EACCES)


def request_path(path: Path) -> Path:
    """The file that asks the writer of a part to end it."""
    return path.with_name(path.name + ".turn")


def hold(file: IO[bytes]) -> bool | None:
    """Lock an open file until it is closed; False when another process holds it, None without system locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        return None
    except OSError as error:
        return False if error.errno in _HELD else None
    return True


def still_written(path: Path) -> SessionError:
    """The error for a file that a recording is being written to."""
    return SessionError(f"'{path}' is still being written; end that recording, or choose another name.")


@contextmanager
def unwritten(path: Path) -> Iterator[None]:
    """Keep recorders away from `path` while it is replaced; it need not exist.

    Raises:
        SessionError: a recording is being written to it, which would go on in a file without a name.
    """
    with path.open("rb") if path.is_file() else nullcontext() as file:
        if file is not None and hold(file) is False:
            raise still_written(path)
        yield


@contextmanager
def hold_recording(path: Path, patience_s: float = PATIENCE_S) -> Iterator[IO[bytes]]:
    """A recording without a writer, opened for reading and writing; its writer is asked to end it.

    Raises:
        SessionError: it is still being written after `patience_s`, or cannot be opened.
    """
    file = _opened(path, time.monotonic() + patience_s)
    try:
        yield file
    finally:
        file.close()


def _opened(path: Path, give_up_s: float) -> IO[bytes]:
    turn, seen, seen_s = request_path(path), (-1, -1), time.monotonic()
    not_before_s = seen_s + QUIET_S + 1
    try:
        while True:
            try:
                file = path.open("r+b")
            except OSError as error:
                raise SessionError(f"'{path}' cannot be rewritten: {error.strerror}; check its rights.") from error
            is_mine = hold(file)
            if is_mine is None:
                stat, give_up_s = os.fstat(file.fileno()), max(give_up_s, not_before_s)
                if (now := (stat.st_size, stat.st_mtime_ns)) != seen:
                    seen, seen_s = now, time.monotonic()
                is_mine = time.monotonic() - seen_s >= QUIET_S or _has_end(file)
            with suppress(OSError):  # the last holder may have replaced the file
                if is_mine and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return file
            file.close()
            if time.monotonic() >= give_up_s:
                raise SessionError(f"'{path}' is still being written; end the recording, then forget again.")
            if not is_mine:
                with suppress(OSError):
                    turn.touch(0o600)
                time.sleep(_LOOK_S)
    finally:
        turn.unlink(missing_ok=True)


def _has_end(file: IO[bytes]) -> bool:
    """Whether the last bytes are those of a finished MCAP file."""
    file.seek(0, os.SEEK_END)
    file.seek(-min(8, file.tell()), os.SEEK_CUR)
    return file.read(8) == b"\x89MCAP0\r\n"
