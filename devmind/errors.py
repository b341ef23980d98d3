"""Errors a user can act on: each message is a sentence that says what was expected, what came and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
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
    """Text with what opens doors taken out of its URLs; of mappings and lists, of every text in them.

    `rtsp://me:pass@host/x?token=abc` becomes `rtsp://host/x?token=***`. It is for everything that is written, shown or
    logged; only who opens the address needs all of it. A password with a blank, or one that begins with digits and a
    slash, is no part of a URL and is not recognised: such characters are written as %20 and %2F.
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
    """Base of every error a user can mend; the command line prints it as one sentence and exits with 2.

    Sentences quote what was given, which may be an address with a password: that is taken out here, for all of them.
    """

    def __init__(self, *what: object) -> None:
        super().__init__(*map(without_secrets, what))


class ConfigError(DevmindError):
    """A configuration file, key or value is not what was expected."""


class PluginError(DevmindError):
    """A plugin is missing, broken, or shadowed by a folder of the same name."""


class MomentError(DevmindError):
    """A Moment or an Action breaks its law (dtype, shape or range)."""


class WorldError(DevmindError):
    """A world was asked for something it does not have."""


class SessionError(DevmindError):
    """A recording or a media file cannot be read or written."""


class CheckpointError(DevmindError):
    """A saved agent or checkpoint is damaged, incomplete, or of another version."""


class StoreError(DevmindError):
    """Long-term memory cannot be read or written, or was asked with keys of another encoder."""


class TracesError(StoreError):
    """What was to be forgotten is deleted, and traces of it may stay in files; the sentence says why and what to do."""


class KeptError(StoreError):
    """Some of what was to be forgotten could not be and stays, the rest is gone; `kept` is how many entries stay."""

    def __init__(self, sentence: str, kept: int) -> None:
        super().__init__(sentence)
        self.kept = kept


class ExamError(DevmindError):
    """A skill could not be examined (no data, overlap with what was trained on, missing part)."""


class SensorError(DevmindError):
    """A sensor cannot be used at all: its library, file or address is missing or wrong. Waiting would not mend it."""


class StaleReading(DevmindError):  # noqa: N818 - the name in the Sensor law
    """A sensor has nothing new enough, or its series has a gap."""


def bound(command: str, arguments: Mapping[str, Any], known: Mapping[str, Callable[..., T]]) -> Callable[[], T]:
    """A page's `command` with these arguments, ready to be called.

    Raises:
        ConfigError: it is not known, or takes other arguments.
    """
    if command not in known:
        raise ConfigError(f"There is no command '{command}'{nearest(command, known)}")
    try:
        signature(known[command]).bind(**arguments)
    except TypeError as error:
        raise ConfigError(f"'{command}' cannot be done with {', '.join(arguments) or 'nothing'}: {error}.") from error
    return partial(known[command], **arguments)


LISTED = 20
"""A sentence lists so many names at most; whole folders and catalogues are for other commands."""


def nearest(name: str, known: Iterable[str], listed: int = LISTED) -> str:
    """`; did you mean 'x'?`, or the list of what is known when nothing is near: the tail of an error sentence."""
    known = sorted(known)
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        return f"; did you mean '{close[0]}'?"
    more = f" and {len(known) - listed} more" if len(known) > listed else ""
    return f"; known are: {', '.join(known[:listed])}{more}." if known else "; none are known."
