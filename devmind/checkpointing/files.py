"""Atomic writes, checksums, and sentences for what a disk can refuse."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devmind.errors import CheckpointError

_REFUSALS = {
    errno.ENOSPC: "the disk is full; free some space, or give --out a folder on another disk",
    errno.EDQUOT: "your disk quota is used up; remove files, or give --out a folder on another disk",
    errno.EROFS: "the disk is read-only; give --out a folder you can write to",
    errno.EACCES: "the folder's permissions forbid it; change them, or give --out a folder of your own",
    errno.EPERM: "the system forbids it; check the folder's owner and flags, or give --out another folder",
    errno.ENOTDIR: "a part of the path is a file, not a folder; give --out another folder",
    errno.EIO: "the disk reports an input/output error; it may be failing, so save to another one",
}


def refusal(error: OSError, path: Path) -> CheckpointError:
    """The error to raise when the system refused to write `path`: one sentence that names the cause and a way out."""
    why = _REFUSALS.get(error.errno or 0, f"{error.strerror or error}; check the path and try again")
    return CheckpointError(f"Cannot write {path}: {why}.")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn every OSError inside (safetensors' too) into the CheckpointError of `refusal`."""
    from safetensors import SafetensorError

    try:
        yield
    except OSError as error:
        raise refusal(error, path) from error
    except SafetensorError as error:
        # safetensors writes through Rust, which reports the system's number only inside its text.
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise CheckpointError(f"Cannot write {path}: {error}.") from error
        code = int(number.group(1))
        raise refusal(OSError(code, os.strerror(code)), path) from error


def make_folder(path: Path) -> None:
    """Make the folder `path`, and those above it, where they are missing.

    Raises:
        CheckpointError: a file is in its way, or the disk refuses.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"The folder {path} cannot be made: {error.strerror}; give another --out.") from error


def write_atomically(path: Path, data: bytes | str) -> None:
    """`put` (text as UTF-8), with a sentence for what the disk refuses.

    Raises:
        CheckpointError: the disk is full, read-only, or refuses otherwise; the old content is untouched.
    """
    path = Path(path)
    with explained(path):
        put(path, data.encode("utf-8") if isinstance(data, str) else data)


def put(path: Path, content: bytes) -> None:
    """Replace the file `path` by `content`; a kill leaves the old content or the new, never a mixture.

    The order matters: content under a temporary name, fsync, rename, fsync of the folder. Missing folders are made.

    Raises:
        OSError: the disk refuses; the old content is untouched. `write_atomically` says it in a sentence.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files that only their owner reads; a report is meant to be shown.
        temporary.chmod(0o644)
        take_place(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def take_place(partial: Path, path: Path) -> None:
    """Give the name `path` in one step to what was written whole, and to the disk, as `partial` on the same disk."""
    os.replace(partial, path)
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Return only when the content of `path` is on the disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Return only when the names in `folder` are on the disk; nothing where a folder cannot be opened or synced, as on
    Windows, on some file systems, and where it may be written into but not read.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
