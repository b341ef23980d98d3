"""Limits for reading untrusted files, and safe display of their text.

Every reader of foreign files has the same memory budget: 10 times the input, plus 256 MB. A reader refuses a file that
declares more than that before it decompresses it. A file that declares no size is decompressed only up to the budget.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from devmind.errors import DevmindError

MEMORY_TIMES, MEMORY_BYTES = 10, 256 << 20
EXPANDED_TIMES = 1000
"""All parts of a file together, decompressed one after the other, may have this many times the file's size. The
recording of a black room expands 250 times, a decompression bomb 10,000 times."""
LONGEST_NAME = 200
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

    All exceptions are caught, since a damaged or hostile file can make a parser fail anywhere and in any way. A
    DevmindError passes unchanged.
    """
    try:
        yield
    except DevmindError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines()
        reason = printable(f"{type(error).__name__}: {lines[0][:200].rstrip('.')}" if lines else type(error).__name__)
        raise kind(sentence.replace("{}", reason)) from error
