"""Errors a user can act on: each message is a sentence that says what was expected, what came and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class DevmindError(Exception):
    """Base of every error a user can mend; the command line prints it as one sentence and exits with 2."""


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


class ExamError(DevmindError):
    """A skill could not be examined (no data, overlap with what was trained on, missing part)."""


class SensorError(DevmindError):
    """A sensor cannot be used at all: its library, file or address is missing or wrong. Waiting would not mend it."""


class StaleReading(DevmindError):  # noqa: N818 - the name in the Sensor law
    """A sensor has nothing new enough, or its series has a gap."""


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
