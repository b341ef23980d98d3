"""Real media as sessions: videos, sound files and folders of pictures become Moments at the agent's tick."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from heapq import merge
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from devmind.errors import SessionError
from devmind.moment import SOUND_RATE_HZ, TICK_HZ, Moment, Sense
from devmind.sessions import pictures, sounds
from devmind.sessions.pictures import change_in_view, fovea
from devmind.sessions.recorder import Recorder, WriteError, why_not_written

__all__ = ["Imported", "change_in_view", "fovea", "import_media", "media_moments"]

MAX_GAP_S = 3600.0
"""A longer hole in a file's time stamps is taken for damage, not for an hour without pictures."""

Timed = Iterator[tuple[int, Any]]


@dataclass(frozen=True)
class Imported:
    """What an import made: the session's path, its ticks, and a sentence for everything that was left out."""

    path: Path
    ticks: int
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class _Episode:
    """Media that share one clock: one video, one sound file, or the pictures of one folder in order."""

    kind: str
    name: str
    files: tuple[Path, ...]


def import_media(
    paths: str | Path | Iterable[str | Path], out: str | Path, tick_hz: int = TICK_HZ, *, overwrite: bool = False
) -> Imported:
    """Write the media at `paths` to the new session `out`, one episode each, as `media_moments` gives them.

    The session appears under its name only when it is whole; each episode starts with a note `media` naming its file.

    Raises:
        SessionError: a file is missing, empty, damaged or of a kind that cannot be read, or `out` cannot be written;
            nothing is left behind.
    """
    out, warnings = Path(out), list[str]()
    episodes = _episodes(paths, warnings)
    if out.exists() and not overwrite:
        raise SessionError(why_not_written(out, FileExistsError()))
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    try:
        with Recorder(partial, source="media", tick_hz=tick_hz, overwrite=True) as recorder:
            for episode in episodes:
                recorder.note("media", {"kind": episode.kind, "name": episode.name})
                for moment in _moments(episode, tick_hz, warnings):
                    recorder.write(moment)
            for sentence in warnings:
                recorder.note("warning", sentence)
        os.replace(partial, out)
    except WriteError as error:
        raise SessionError(why_not_written(out, error.reason)) from error
    except OSError as error:
        raise SessionError(why_not_written(out, error)) from error
    finally:
        with suppress(OSError):
            partial.unlink()
    return Imported(out, recorder.ticks, tuple(warnings))


def media_moments(
    paths: str | Path | Iterable[str | Path], tick_hz: int = TICK_HZ, warnings: list[str] | None = None
) -> Iterator[Moment]:
    """Moments of videos, sound files, pictures and folders of pictures; `time_s` is each file's own clock.

    Tick k covers the seconds [k, k + 1) / tick_hz: `sight` uint8 [64, 64, 3] is the last picture in it, `periphery`
    float32 [1, 16, 16] the whole picture's change since the picture before, `sound` float32 [C, S] its samples at
    16 kHz. A sense without anything new in a tick is absent from it. Sentences on what was left out go to `warnings`.
    """
    warnings = [] if warnings is None else warnings
    for episode in _episodes(paths, warnings):
        yield from _moments(episode, tick_hz, warnings)


def _moments(episode: _Episode, tick_hz: int, warnings: list[str]) -> Iterator[Moment]:
    """The Moments of one episode, the first and the last marked."""
    if tick_hz <= 0 or SOUND_RATE_HZ % tick_hz:
        raise SessionError(
            f"tick_hz must divide {SOUND_RATE_HZ}, so that each tick holds whole samples; got {tick_hz}."
        )
    held: Moment | None = None
    for tick, senses in _every_tick(_sensed(episode, tick_hz, warnings), episode.name, tick_hz):
        if held is not None:
            yield held
        held = Moment(tick / tick_hz, senses, first=held is None)
    if held is None:
        raise SessionError(
            f"'{episode.name}' gives no Moment: it is shorter than one tick ({1 / tick_hz:g} s), is no media file, is "
            f"damaged, or its codec is unknown here; convert it to mp4 (H.264) or WAV."
        )
    yield replace(held, last=True)


def _sensed(episode: _Episode, tick_hz: int, warnings: list[str]) -> Iterator[tuple[int, dict[str, Sense]]]:
    """(tick, senses) for the ticks that have any, in order."""
    path, samples = episode.files[0], SOUND_RATE_HZ // tick_hz
    if episode.kind == "sound":
        streams = [_named("sound", sounds.file_ticks(path, samples, warnings.append))]
    elif episode.kind == "pictures":
        streams = [_named("picture", ((k, pictures.read_picture(file)) for k, file in enumerate(episode.files)))]
    else:
        seen = pictures.video_ticks(path, tick_hz, warnings.append)
        heard = sounds.container_ticks(path, samples, warnings.append)
        streams = [_named("picture", seen), _named("sound", heard)]
    previous: np.ndarray | None = None
    for tick, group in groupby(merge(*streams, key=itemgetter(0)), key=itemgetter(0)):
        senses: dict[str, Sense] = {}
        for _, name, value in group:
            if name == "picture":
                senses["sight"] = fovea(value)
                if previous is not None:
                    senses["periphery"] = change_in_view(value, previous)
                previous = value
            else:
                senses[name] = value
        yield tick, senses


def _every_tick(
    sensed: Iterator[tuple[int, dict[str, Sense]]], name: str, tick_hz: int
) -> Iterator[tuple[int, Mapping[str, Sense]]]:
    """Fill ticks without anything sensed with empty ones, from tick 0 on, so that the clock stays even."""
    following = 0
    for tick, senses in sensed:
        if tick - following > MAX_GAP_S * tick_hz:
            raise SessionError(
                f"The time stamps of '{name}' jump by over {MAX_GAP_S:g} s; it is damaged: convert it anew."
            )
        for empty in range(following, tick):
            yield empty, {}
        yield tick, senses
        following = tick + 1


def _named(name: str, values: Timed) -> Iterator[tuple[int, str, Any]]:
    return ((tick, name, value) for tick, value in values)


def _episodes(paths: str | Path | Iterable[str | Path], warnings: list[str]) -> list[_Episode]:
    """What each path holds; pictures given one after the other are one episode."""
    given = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    found: list[_Episode] = []
    for kind, group in groupby(given, key=_kind):
        files = tuple(group)
        if kind == "pictures":
            found.append(_Episode(kind, str(files[0]), files))
        elif kind == "folder":
            found += [_folder(folder, warnings) for folder in files]
        else:
            found += [_Episode(kind, str(file), (file,)) for file in files]
    if not found:
        raise SessionError("Nothing to import: give a video, a sound file, a picture or a folder of pictures.")
    return found


def _folder(folder: Path, warnings: list[str]) -> _Episode:
    files = sorted((f for f in folder.iterdir() if f.is_file() and not f.name.startswith(".")), key=_in_counting_order)
    shown = tuple(file for file in files if pictures.is_picture(file))
    if not shown:
        raise SessionError(f"There are no pictures in the folder '{folder}'; give other media one by one.")
    if len(shown) < len(files):
        warnings.append(f"{len(files) - len(shown)} of the {len(files)} files in '{folder}' are no pictures; left out.")
    return _Episode("pictures", str(folder), shown)


def _in_counting_order(path: Path) -> list[tuple[int, str]]:
    """picture2 before picture10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", path.name)]


def _kind(path: Path) -> str:
    """What a path is, by its content and not by its name."""
    if path.is_dir():
        return "folder"
    try:
        with path.open("rb") as file:
            if not file.read(1):
                raise SessionError(f"'{path}' is empty.")
    except OSError as error:
        raise SessionError(f"'{path}' cannot be read: {error.strerror}; check the path and its rights.") from error
    if pictures.is_picture(path):
        return "pictures"
    if sounds.is_sound(path):
        return "sound"
    return "video"
