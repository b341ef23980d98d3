"""Errors a user can act on: each message is a sentence that says what was expected, what came and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from inspect import signature
from typing import Any, TypeVar

T = TypeVar("T")

_LOGIN = re.compile(
    r"""(?<=\w\w:/)(/?)(?:                             # paths have one slash left of the two
      [^\s/?\#:@]*:(?!\d{0,5}(?:[/?\#\s'",;)]|$))\S*  # name:password, unless what follows the colon is a port
      | [^\s/?\#]*                                   # a name or a token alone
    )@
    | (?<![^\s'"(=])[^\s/:@='"(]+:[^\s/@]+@(?=[\w\[])  # name:password@host where :// was forgotten
    """,
    re.VERBOSE,
)
_SECRET = re.compile(
    r"""(?<=[?&;/\#_])
    ((?:[\w.-]*(?:token|passw|pwd|secret|auth|credential|signature|session|api.?key|access.?key)[\w.-]*
        |pass|loginpas|loginuse|login|user|usr|username|key|sig|sid|pin)=)
    [^&;\#\s'"<>]+""",
    re.VERBOSE | re.IGNORECASE,
)
_WORD = re.compile(r"\S+")
HIDDEN = "***"


def without_secrets(what: Any) -> Any:
    """The text with logins and secret query values removed from its URLs; for mappings and lists, every text in them.

    `rtsp://me:pass@host/x?token=abc` becomes `rtsp://host/x?token=***`. Use it for everything that is written, shown or
    logged; only the code that opens an address needs the whole. A password with a blank, or with digits and then a
    slash at its start, is not recognised, because a URL has to write those characters as %20 and %2F.
    """
    if isinstance(what, str):
        if "@" not in what and "=" not in what:
            return what
        return _WORD.sub(_without_query_secrets, _LOGIN.sub(r"\1", what))
    if isinstance(what, Mapping):
        return {name: without_secrets(value) for name, value in what.items()}
    return [without_secrets(one) for one in what] if isinstance(what, list | tuple) else what


def _without_query_secrets(word: re.Match[str]) -> str:
    is_address = ":/" in word[0] or "?" in word[0]
    return _SECRET.sub(rf"\1{HIDDEN}", word[0]) if is_address else word[0]


class DevmindError(Exception):
    """Base of every error that a user can fix; the command line prints it as one sentence and exits with code 2.

    Messages quote input, which may be an address with a password, so secrets are removed here for all messages.
    """

    def __init__(self, *what: object) -> None:
        super().__init__(*map(without_secrets, what))


class ConfigError(DevmindError):
    """A configuration file, key or value is not what was expected."""


class PluginError(DevmindError):
    """A plugin is missing, broken, or shadowed by a folder of the same name."""


class MomentError(DevmindError):
    """A Moment or an Action has a wrong dtype, shape or range."""


class WorldError(DevmindError):
    """A world does not have what was requested."""


class SessionError(DevmindError):
    """A recording or a media file cannot be read or written."""


class CheckpointError(DevmindError):
    """A saved agent or checkpoint is damaged, incomplete, or of another version."""


class FeedError(DevmindError):
    """Experience from another process cannot be sent, stored or read."""


class StoreError(DevmindError):
    """Long-term memory cannot be read or written, or was searched with keys of another encoder."""


class TracesError(StoreError):
    """Entries were deleted, but traces of them may stay in files; the message says why and what to do."""


class KeptError(StoreError):
    """Some entries could not be deleted, and the others were; `kept` is the number of entries that stay."""

    def __init__(self, sentence: str, kept: int) -> None:
        super().__init__(sentence)
        self.kept = kept


class ExamError(DevmindError):
    """A skill could not be examined (no data, overlap with the training data, or a missing part)."""


class SensorError(DevmindError):
    """A sensor cannot be used at all: its library, file or address is missing or wrong. Waiting does not help."""


class StaleReading(DevmindError):  # noqa: N818 - the name in the Sensor law
    """A sensor has no recent enough reading, or its series has a gap."""


def bind_command(command: str, arguments: Mapping[str, Any], known: Mapping[str, Callable[..., T]]) -> Callable[[], T]:
    """The function of a web page's `command` with its arguments bound, ready to be called.

    Raises:
        ConfigError: the command is unknown, or takes other arguments.
    """
    if command not in known:
        raise ConfigError(f"There is no command '{command}'{nearest(command, known)}")
    try:
        signature(known[command]).bind(**arguments)
    except TypeError as error:
        raise ConfigError(f"'{command}' cannot be done with {', '.join(arguments) or 'nothing'}: {error}.") from error
    return partial(known[command], **arguments)


APT = {
    "libGL": "libgl1",
    "libgthread-2": "libglib2.0-0",
    "libglib-2": "libglib2.0-0",
    "libSM": "libsm6",
    "libICE": "libice6",
    "libX11": "libx11-6",
    "libXext": "libxext6",
    "libXrender": "libxrender1",
    "libxcb": "libxcb1",
    "libportaudio": "libportaudio2",
    "libsndfile": "libsndfile1",
}
"""Package of Debian and Ubuntu by the shared library that wheels expect of the system."""
_SHARED = re.compile(r"\b((lib[\w+-]+?)(?:\.\d+)*\.so(?:\.\d+)*): cannot open shared object file")


def without_library(error: BaseException) -> str:
    """The sentence for an import that failed because a shared library of the system is missing, in `error` or in what
    caused it; '' for every other error.

    A slim container has no libGL.so.1, without which `import cv2` fails.
    """
    cause: BaseException | None = error
    while cause is not None:
        missing = _SHARED.search(str(cause)) if isinstance(cause, ImportError | OSError) else None
        if missing:
            package = APT.get(missing[2])
            mend = f"apt install {package}" if package else "install the system package that has it"
            what = {"cv2": "OpenCV"}.get(getattr(cause, "name", None) or "", "A Python package")
            return f"{what} cannot be loaded: the system lacks {missing[1]}. On Debian and Ubuntu: {mend}."
        cause = cause.__cause__ or cause.__context__
    return ""


LISTED = 20
"""The most names that an error message lists."""


def nearest(name: str, known: Iterable[str], listed: int = LISTED) -> str:
    """The end of an error message: `; did you mean 'x'?`, or the known names if none is similar."""
    known = sorted(known)
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; known are: {some(known, listed)}." if known else "; none are known."


def some(names: Sequence[str], most: int = LISTED) -> str:
    """'a, b, c', and for more than `most`: 'a, b, c and 2 more'."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
