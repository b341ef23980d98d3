"""Downloads one file over HTTP; resumes a cut download, and checks the file before it gets its name."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from devmind.checkpointing.files import sync_file, take_place
from devmind.errors import DevmindError

Progress = Callable[[int], None]
"""Called now and then with the number of bytes received so far."""

BLOCK = 1 << 16


def download(
    url: str,
    target: Path,
    *,
    sha256: str | None = None,
    progress: Progress | None = None,
    attempts: int = 5,
    timeout_s: float = 30.0,
    pause_s: float = 1.0,
) -> Path:
    """Fetch `url` to `target` through `target.part`, which keeps received bytes; the next call continues after them.

    Args:
        sha256: the file's checksum; None if the server makes the file anew for every request.
        attempts: how often in a row the connection may break without a new byte; the pauses between attempts double.

    Raises:
        DevmindError: the source refuses or cannot be reached, the checksum differs, or the disk refuses. Then `target`
            does not exist.
    """
    part = target.with_name(f"{target.name}.part")
    started_fresh = not part.exists()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _fetch(url, part, progress, attempts, timeout_s, pause_s)
        if sha256 and file_sha256(part) != sha256 and not started_fresh:
            part.unlink()  # the old beginning may belong to another file: try once more from the first byte
            _fetch(url, part, progress, attempts, timeout_s, pause_s)
        if sha256 and (found := file_sha256(part)) != sha256:
            part.unlink()
            raise DevmindError(
                f"{url} gave a file with the checksum {found[:12]}..., expected {sha256[:12]}...; nothing was kept: "
                "try again, and if it stays so the source has changed."
            )
        sync_file(part)
        take_place(part, target)
    except OSError as error:
        raise DevmindError(
            f"Cannot write {part}: {error.strerror or error}; free space or choose another --out."
        ) from error
    return target


def file_sha256(path: Path) -> str:
    """The checksum of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _CutError(Exception):
    """The connection ended before the file was complete."""


def _fetch(url: str, part: Path, progress: Progress | None, attempts: int, timeout_s: float, pause_s: float) -> None:
    failures = 0
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            return _go_on(url, part, before, progress, timeout_s)
        except _CutError as cut:
            came = part.stat().st_size if part.exists() else 0
            failures = 1 if came > before else failures + 1
            if failures >= attempts:
                raise DevmindError(
                    f"{url} cannot be fetched ({cut}); {came:,} bytes are kept: the same command continues after them."
                ) from cut
        time.sleep(pause_s * 2 ** (failures - 1))


def _go_on(url: str, part: Path, offset: int, progress: Progress | None, timeout_s: float) -> None:
    """Make one request: append what is missing to `part`, or begin again if the server cannot continue a file."""
    request = Request(url, headers={"User-Agent": "devmind", "Accept-Encoding": "identity"})
    if offset:
        request.add_header("Range", f"bytes={offset}-")
    try:
        response = urlopen(request, timeout=timeout_s)
    except HTTPError as error:
        return _refused(url, part, offset, error)
    except (OSError, HTTPException) as error:  # URLError is an OSError, and so are timeouts and resets
        raise _CutError(getattr(error, "reason", None) or error) from error
    with response:
        start, total = _extent(response, offset)
        with part.open("r+b" if start else "wb") as file:
            file.seek(start)
            file.truncate()
            _copy(response, file, progress)
        if total is not None and part.stat().st_size < total:
            raise _CutError(f"cut after {part.stat().st_size:,} of {total:,} bytes")


def _extent(response: Any, offset: int) -> tuple[int, int | None]:
    """`(first byte, length of the whole file or None)` of a response; status 200 means from the first byte."""
    if response.status == 206:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if match is None or int(match[1]) != offset:
            raise DevmindError(f"{response.url} answered with a wrong part of the file; try again.")
        return offset, None if match[2] == "*" else int(match[2])
    length = response.headers.get("Content-Length")
    return 0, int(length) if length else None


def _copy(response: Any, file: IO[bytes], progress: Progress | None) -> None:
    while True:
        try:
            block = response.read(BLOCK)
        except (OSError, HTTPException) as error:
            raise _CutError(error) from error
        if not block:
            return
        file.write(block)
        if progress:
            progress(file.tell())


def _refused(url: str, part: Path, offset: int, error: HTTPError) -> None:
    """Handle an error response; returns only if the file was complete already."""
    if error.code == 416:  # nothing comes after our last byte: either the file is complete, or it became shorter
        if error.headers.get("Content-Range") == f"bytes */{offset}":
            return
        part.unlink()
        raise _CutError("the file at the source changed") from error
    if error.code in (408, 429) or error.code >= 500:
        raise _CutError(f"the server says {error.code} {error.reason}") from error
    raise DevmindError(f"{url} answers {error.code} {error.reason}; see whether the source has moved.") from error
