"""Atomic writes, checksums, and error messages for failed writes."""

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
    """The error for a failed write to `path`: one sentence that names the cause and a remedy."""
    why = _REFUSALS.get(error.errno or 0, f"{error.strerror or error}; check the path and try again")
    return CheckpointError(f"Cannot write {path}: {why}.")


@contextmanager
def explain_os_errors(path: Path) -> Iterator[None]:
    """Turn every OSError in the block (also those of safetensors) into the CheckpointError of `refusal`."""
    from safetensors import SafetensorError

    try:
        yield
    except OSError as error:
        raise refusal(error, path) from error
    except SafetensorError as error:
        # safetensors writes through Rust, which gives the system's error number only in its message.
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise CheckpointError(f"Cannot write {path}: {error}.") from error
        code = int(number.group(1))
        raise refusal(OSError(code, os.strerror(code)), path) from error


def make_folder(path: Path) -> None:
    """Make the folder `path` and its parents if they are missing.

    Raises:
        CheckpointError: a file has that name, or the disk refuses.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"The folder {path} cannot be made: {error.strerror}; give another --out.") from error


def write_atomically(path: Path, data: bytes | str) -> None:
    """Like `replace_file` (text as UTF-8), but with a CheckpointError if the disk refuses.

    Raises:
        CheckpointError: the disk is full, read-only, or refuses for another reason; the old content stays.
    """
    path = Path(path)
    with explain_os_errors(path):
        replace_file(path, data.encode("utf-8") if isinstance(data, str) else data)


def replace_file(path: Path, content: bytes) -> None:
    """Replace the content of the file `path`; a killed process leaves the old or the new content, never a mixture.

    The order matters: write under a temporary name, fsync, rename, fsync the folder. Missing folders are made.

    Raises:
        OSError: the disk refuses; the old content stays. `write_atomically` raises a CheckpointError instead.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files that only their owner can read; a report is meant to be shown.
        temporary.chmod(0o644)
        take_place(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def take_place(partial: Path, path: Path) -> None:
    """Rename `partial`, which is complete, synced and on the same disk, to `path` in one step."""
    os.replace(partial, path)
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Return when the content of `path` is on the disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Return when the names in `folder` are on the disk.

    Does nothing if a folder cannot be opened or synced: on Windows, on some file systems, and without permission to
    read it.
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


def folder_sha256(folder: Path) -> str:
    """Hexadecimal SHA-256 over the names and contents of all files below a folder, except hidden ones."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder)
        if not any(part.startswith(".") for part in name.parts):
            digest.update(f"{name.as_posix()}\n{sha256(path)}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
