"""What reading bytes of strangers may cost, and how text of theirs is shown.

One budget for every reader of foreign files: memory up to 10 times the input and 256 MB besides. A reader refuses, with
a sentence, what would go beyond it before it unfolds it, by what the file declares; what declares nothing is unfolded
only as far as the budget goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from devmind.errors import DevmindError

MEMORY_TIMES, MEMORY_BYTES = 10, 256 << 20
EXPANDED_TIMES = 1000
"""All of a file's parts together may unfold to so many times its size, one after the other: a black room's recording is
250 times smaller than what it holds, a bomb 10,000 times."""
LONGEST_NAME = 200
_DTYPE = re.compile(r"[<>|=]?[biuf](?:1|2|4|8|16)|bool|u?int(?:8|16|32|64)|float(?:16|32|64)", re.ASCII)


def memory_bytes(size: int) -> int:
    """How much memory a file of `size` bytes may take."""
    return MEMORY_TIMES * size + MEMORY_BYTES


def is_numeric(dtype: object) -> bool:
    """Whether a text names a dtype of plain numbers; numpy would read much more out of one, and a lot of memory."""
    return isinstance(dtype, str) and _DTYPE.fullmatch(dtype) is not None


def is_name(text: object, longest: int = LONGEST_NAME) -> bool:
    """Whether it is a text of one line that a terminal can show, of up to so many bytes."""
    return (
        isinstance(text, str)
        and text.isprintable()
        and text == text.strip()
        and 0 < len(text.encode("utf-8", "replace")) <= longest
    )


def printable(text: str) -> str:
    """Text as a terminal can show it: what would steer it (escape sequences, carriage returns, marks that turn the
    direction of writing round) stands there as `\\x1b`, line breaks and tabs stay.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else ascii(one)[1:-1] for one in text)


@contextmanager
def damage(kind: type[DevmindError], sentence: str) -> Iterator[None]:
    """Whatever a parser trips over inside becomes `kind`: `sentence`, with the reason in place of `{}`.

    What a damaged or hostile file raises depends on where a parser trips, which no list of exceptions covers.
    """
    try:
        yield
    except DevmindError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines()
        reason = printable(f"{type(error).__name__}: {lines[0][:200].rstrip('.')}" if lines else type(error).__name__)
        raise kind(sentence.replace("{}", reason)) from error
