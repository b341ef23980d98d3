"""The common part of all imports: events on another clock become Moments at the agent's tick, in one whole session.

Tick k covers the seconds [k, k + 1) / tick_hz. Of several pictures or numbers in a tick the last counts, words are
joined, rewards are added. A sense without new data in a tick is absent from it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from devmind.checkpointing.files import take_place
from devmind.errors import SessionError, without_library
from devmind.moment import SOUND_RATE_HZ, Action, Moment, Sense
from devmind.sessions.mcap_file import WriteError, why_not_written
from devmind.sessions.pictures import change_in_view, sight_of
from devmind.sessions.recorder import Recorder
from devmind.sessions.steps import Step
from devmind.sessions.turning import unwritten

PRIVATE = 0o600
MAX_GAP_S = 3600.0
"""A longer hole in a file's time stamps counts as damage, not as an hour of nothing."""

ROUNDED = "Whole numbers over 16,777,216 in 'body' are rounded: it is float32 everywhere."

Picture = Callable[[], np.ndarray | None]
"""Decodes a picture RGB uint8 [H, W, 3] when it is needed; None: it is damaged, and the warnings say so."""


class Event(NamedTuple):
    """The content of a file for one tick.

    For kind "sense" and "effector" the value is one; "picture" has a Picture, which gives `sight` and `periphery`;
    "reward" has the number that the tick's Moment receives; "acted" and "terminal" need no value.
    """

    tick: int
    kind: Literal["sense", "effector", "picture", "reward", "acted", "terminal"]
    name: str = ""
    value: Any = None


@dataclass(frozen=True)
class Imported:
    """The result of an import: the session's path, its ticks, and a sentence for everything that was left out."""

    path: Path
    ticks: int
    warnings: tuple[str, ...]


def tick_of(time_s: float, tick_hz: int) -> int:
    """The tick of a time since the start; 0.1999999 s belongs to the tick that begins at 0.2 s."""
    return int(time_s * tick_hz + 1e-3)


def samples_in_tick(tick_hz: int) -> int:
    """Samples of sound in a tick.

    Raises:
        SessionError: they are no whole number, so sound would run away from everything else.
    """
    if tick_hz <= 0 or SOUND_RATE_HZ % tick_hz:
        raise SessionError(
            f"tick_hz must divide {SOUND_RATE_HZ}, so that each tick holds whole samples; got {tick_hz}."
        )
    return SOUND_RATE_HZ // tick_hz


def episode_steps(events: Iterable[Event], tick_hz: int, name: str, empty: str) -> Iterator[Step]:
    """The (Moment, Action or None) of one episode, with the first and the last marked, from its events in order of
    ticks.

    Ticks between events come without senses, so that the clock stays even.

    Raises:
        SessionError: `empty`, when there are no events; the ticks of '`name`' jump by over an hour or go back.
    """
    held: Step | None = None
    previous: np.ndarray | None = None
    following = 0
    for tick, group in groupby(events, key=attrgetter("tick")):
        if tick < following:
            raise SessionError(f"The time stamps of '{name}' go back by {(following - tick) / tick_hz:.1f} s.")
        if tick - following > MAX_GAP_S * tick_hz:
            raise SessionError(f"The time stamps of '{name}' jump by over {MAX_GAP_S:g} s; it is damaged.")
        for absent in range(following, tick):
            if held is not None:
                yield held
            held = Moment(absent / tick_hz, first=held is None), None
        if held is not None:
            yield held
        step, previous = _step(tick / tick_hz, list(group), previous)
        held = replace(step[0], first=held is None), step[1]
        following = tick + 1
    if held is None:
        raise SessionError(empty)
    yield replace(held[0], last=True), held[1]


def write_session(
    out: str | Path,
    source: str,
    tick_hz: int,
    episodes: Iterable[tuple[Any, Iterable[Step]]],
    warnings: list[str],
    *,
    names: Mapping[str, list[str]] | None = None,
    overwrite: bool = False,
) -> Imported:
    """Write (the first note of the episode, its steps) to the new session `out`.

    The session appears under its name only when it is whole, for its owner only. `warnings` and `names` (the numbers of
    a sense or an effector by name) may grow while the episodes are read; they become notes at its end.

    Raises:
        SessionError: `out` exists, is being recorded or cannot be written, or an episode cannot be read; nothing is
            left behind.
    """
    out = Path(out)
    if out.exists() and not overwrite:
        raise SessionError(why_not_written(out, FileExistsError()))
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    try:
        with Recorder(partial, source=source, tick_hz=tick_hz, overwrite=True, names=names, mode=PRIVATE) as recorder:
            for about, steps in episodes:
                recorder.note(source, about)
                for moment, action in steps:
                    recorder.write(moment, action)
            if names:
                recorder.note("names", dict(names))
            for sentence in warnings:
                recorder.note("warning", sentence)
        with unwritten(out):
            take_place(partial, out)
    except WriteError as error:
        raise SessionError(why_not_written(out, error.reason)) from error
    except OSError as error:
        raise SessionError(why_not_written(out, error)) from error
    finally:
        with suppress(OSError):
            partial.unlink()
    return Imported(out, recorder.ticks, tuple(warnings))


@contextmanager
def robots_extra(what: str) -> Iterator[None]:
    """Turn a missing library of the extra `robots` into one sentence.

    Raises:
        SessionError: `what` needs it.
    """
    try:
        yield
    except ImportError as error:
        needs = f"{what} needs '{error.name}': pip install 'devmind[robots]'."
        raise SessionError(without_library(error) or needs) from error


def _step(time_s: float, events: list[Event], previous: np.ndarray | None) -> tuple[Step, np.ndarray | None]:
    """One tick's Moment and Action, and the picture for measuring the next one's change."""
    senses: dict[str, Sense] = {}
    effectors: dict[str, np.ndarray] = {}
    words = " ".join(event.value for event in events if event.kind == "sense" and event.name == "words")
    shown = [event.value for event in events if event.kind == "picture"]
    picture = shown[-1]() if shown else None
    if picture is not None:
        senses["sight"] = sight_of(picture)
        if previous is not None:
            senses["periphery"] = change_in_view(picture, previous)
    for event in events:
        if event.kind in ("sense", "effector"):
            (senses if event.kind == "sense" else effectors)[event.name] = event.value
    if words:
        senses["words"] = words
    reward = float(sum(event.value for event in events if event.kind == "reward"))
    kinds = {event.kind for event in events}
    terminal = "terminal" in kinds
    moment = Moment(time_s, senses, reward, last=terminal, terminal=terminal)
    acted = bool(kinds & {"effector", "acted"})
    return (moment, Action(effectors) if acted else None), picture if picture is not None else previous
