"""Limits for reading untrusted files, and safe display of their text.

Every reader of foreign files has the same memory budget: 10 times the input, plus 256 MB. A reader refuses a file that
declares more than that before it decompresses it. A file that declares no size is decompressed only up to the budget.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any

from devmind.errors import DevmindError, without_library

MEMORY_TIMES, MEMORY_BYTES = 10, 256 << 20
EXPANDED_TIMES = 1000
"""All parts of a file together, decompressed one after the other, may have this many times the file's size. The
recording of a black room expands 250 times, a decompression bomb 10,000 times."""
LONGEST_NAME = 200
TEXT_BYTES = 16 << 20
"""The largest text of settings, results or plans; a kind of file that may be larger says so where it is read."""
AGENT_BYTES = 64 << 20
"""The largest `config.json` of an agent; a vocabulary of 10^6 pieces is in it."""
_DTYPE = re.compile(r"[<>|=]?[biuf](?:1|2|4|8|16)|bool|u?int(?:8|16|32|64)|float(?:16|32|64)", re.ASCII)


def memory_bytes(size: int) -> int:
    """How much memory a file of `size` bytes may take."""
    return MEMORY_TIMES * size + MEMORY_BYTES


def is_numeric(dtype: object) -> bool:
    """Whether `dtype` is a text that names a plain numeric dtype. NumPy also accepts texts that describe other, very
    large dtypes."""
    return isinstance(dtype, str) and _DTYPE.fullmatch(dtype) is not None


def is_name(text: object, longest: int = LONGEST_NAME) -> bool:
    """Whether `text` is one printable line of at most `longest` bytes of UTF-8, without blanks at its ends."""
    return (
        isinstance(text, str)
        and text.isprintable()
        and text == text.strip()
        and 0 < len(text.encode("utf-8", "replace")) <= longest
    )


def printable(text: str) -> str:
    """Text that is safe to show in a terminal: control characters (escape sequences, carriage returns, marks that
    change the writing direction) are written out, as `\\x1b`; line breaks and tabs stay.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else ascii(one)[1:-1] for one in text)


@contextmanager
def damage(kind: type[DevmindError], sentence: str) -> Iterator[None]:
    """Turn any exception of the block into `kind`, with `sentence` as its message and the reason in place of `{}`.

    All exceptions are caught, since a damaged or hostile file can make a parser fail anywhere and in any way; also the
    panics of libraries in Rust, which are no Exception. A DevmindError passes unchanged, and so do requests to stop
    (KeyboardInterrupt, SystemExit, and others that are no Exception).
    """
    try:
        yield
    except DevmindError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if lacking := without_library(error):  # the machine lacks it, and the file may be whole
            raise kind(lacking) from error
        lines = str(error).strip().splitlines()
        reason = printable(f"{type(error).__name__}: {lines[0][:200].rstrip('.')}" if lines else type(error).__name__)
        raise kind(sentence.replace("{}", reason)) from error


def data_files(folder: Path | None, pattern: str) -> list[Path]:
    """The files of a folder of data, in order, whose place in it fits a pattern such as `speech/*/*.wav`.

    Upper and lower case of the last name count as one, since recorders and cameras write `.WAV`. Names that begin with
    a dot are left out: a Mac leaves them beside the files on a foreign disk.
    """
    if folder is None:
        return []
    *folders, last = pattern.split("/")
    found = [
        file
        for place in folder.glob("/".join(folders) or ".")
        if place.is_dir()
        for file in place.iterdir()
        if fnmatchcase(file.name.lower(), last.lower()) and file.is_file()
    ]
    return sorted(file for file in found if not any(one.startswith(".") for one in file.relative_to(folder).parts))


@contextmanager
def open_file(path: Path, kind: type[DevmindError], limit_bytes: int = TEXT_BYTES) -> Iterator[IO[bytes]]:
    """A file that a person or another file named, opened for reading: the one door for such files.

    Only plain files are opened: a pipe would wait for ever, and a device never ends.

    Raises:
        kind: it is missing, no plain file, larger than `limit_bytes`, or cannot be read.
    """
    try:
        if not path.exists():
            raise kind(f"There is no file '{path}'.")
        if not path.is_file():
            raise kind(f"'{path}' is no plain file; a file of at most {limit_bytes:,} bytes was expected.")
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > limit_bytes:
                raise _too_large(path, kind, limit_bytes)
            yield file
    except PermissionError as error:
        raise kind(f"'{printable(str(path))}' may not be read; change its permissions.") from error
    except OSError as error:
        raise kind(f"'{printable(str(path))}' cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        if "\0" not in str(path):
            raise
        raise kind(f"'{printable(str(path))}' cannot be read: {error}.") from error


def _too_large(path: Path, kind: type[DevmindError], limit_bytes: int) -> DevmindError:
    return kind(f"'{path}' has over {limit_bytes:,} bytes, the most for a file of this kind; is it another file?")


def read_file(path: Path, kind: type[DevmindError], limit_bytes: int = TEXT_BYTES) -> bytes:
    """The content of a file that a person or another file named; raises `kind` as `open_file` does."""
    with open_file(path, kind, limit_bytes) as file:
        data = file.read(limit_bytes + 1)  # by what is read, too: a file of /proc says that it has 0 bytes
    if len(data) > limit_bytes:
        raise _too_large(path, kind, limit_bytes)
    return data


def read_text(path: Path, kind: type[DevmindError], limit_bytes: int = TEXT_BYTES) -> str:
    """`read_file`, decoded as UTF-8 with or without a byte order mark."""
    try:
        return read_file(path, kind, limit_bytes).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise kind(f"'{path}' is no text in UTF-8: byte {error.start} is none. Save it as UTF-8.") from error


def parse_json(data: bytes | str, kind: type[DevmindError], sentence: str) -> Any:
    """The value of a JSON text; `kind` with `sentence`, whose `{}` is the reason, where it is none.

    Nesting that is too deep for the parser and numbers with too many digits are refused in the same way.
    """
    with damage(kind, sentence):
        return json.loads(data)


def parse_yaml(text: str, kind: type[DevmindError], sentence: str) -> Any:
    """The value of a YAML text, without tags that name Python objects; refused as by `parse_json`."""
    import yaml

    with damage(kind, sentence):
        try:
            return yaml.safe_load(text)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
            raise kind(sentence.replace("{}", printable(f"{place}{error.problem or error}"))) from error
