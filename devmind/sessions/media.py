"""Real media as sessions: videos, sound files and folders of pictures become Moments at the agent's tick."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from devmind.errors import SessionError
from devmind.moment import TICK_HZ, Moment
from devmind.sessions import pictures, sounds
from devmind.sessions.importing import Event, Imported, episode_steps, samples_in_tick, write_session
from devmind.sessions.pictures import change_in_view, sight_of
from devmind.sessions.steps import Step

__all__ = ["Imported", "change_in_view", "import_media", "media_moments", "sight_of"]

Timed = Iterator[tuple[int, Any]]


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
    warnings: list[str] = []
    episodes = _episodes(paths, warnings)
    written = (
        ({"kind": episode.kind, "name": episode.name}, _steps(episode, tick_hz, warnings)) for episode in episodes
    )
    return write_session(out, "media", tick_hz, written, warnings, overwrite=overwrite)


def media_moments(
    paths: str | Path | Iterable[str | Path], tick_hz: int = TICK_HZ, warnings: list[str] | None = None
) -> Iterator[Moment]:
    """Moments of videos, sound files, pictures and folders of pictures; `time_s` is each file's own clock.

    Tick k covers the seconds [k, k + 1) / tick_hz: `sight` uint8 [64, 64, 3] is the last picture in it, `periphery`
    float32 [1, 16, 16] the whole picture's change since the picture before, `sound` float32 [C, S] its samples at 16
    kHz. A sense without new data in a tick is absent from it. Sentences on what was left out go to `warnings`.
    """
    warnings = [] if warnings is None else warnings
    for episode in _episodes(paths, warnings):
        yield from (moment for moment, _ in _steps(episode, tick_hz, warnings))


def _steps(episode: _Episode, tick_hz: int, warnings: list[str]) -> Iterator[Step]:
    """The Moments of one episode, without Actions."""
    samples_in_tick(tick_hz)
    before = len(warnings)
    events = _events(episode, tick_hz, warnings)
    first = next(events, None)
    if first is None:
        why = " ".join(warnings[before:]) or (
            f"It is shorter than one tick ({1 / tick_hz:g} s), is no media file, is damaged, or its codec is unknown "
            "here."
        )
        raise SessionError(f"'{episode.name}' gives no Moment. {why} Convert it to mp4 (H.264), WAV or PNG.")
    yield from episode_steps(chain((first,), events), tick_hz, episode.name, "")


def _events(episode: _Episode, tick_hz: int, warnings: list[str]) -> Iterator[Event]:
    """The contents of the episode's files, in order of ticks."""
    path, samples = episode.files[0], samples_in_tick(tick_hz)
    if episode.kind == "sound":
        return _heard(sounds.file_ticks(path, samples, warnings.append))
    if episode.kind == "pictures":
        shown = (pictures.read_picture(file) for file in episode.files)
        if len(episode.files) == 1:  # a photograph of a thing, not a camera's frame
            shown = (pictures.central_square(picture) for picture in shown)
        return _seen(enumerate(shown))
    seen = _seen(pictures.video_ticks(path, tick_hz, warnings.append))
    return merge(seen, _heard(sounds.container_ticks(path, samples, warnings.append)), key=attrgetter("tick"))


def _seen(frames: Timed) -> Iterator[Event]:
    return (Event(tick, "picture", value=lambda frame=frame: frame) for tick, frame in frames)


def _heard(samples: Timed) -> Iterator[Event]:
    return (Event(tick, "sense", "sound", value) for tick, value in samples)


def _episodes(paths: str | Path | Iterable[str | Path], warnings: list[str]) -> list[_Episode]:
    """The contents of each path; consecutive pictures are one episode."""
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
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", path.name)]


def _kind(path: Path) -> str:
    """The kind of a path, by its content and not by its name."""
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
    if what := _document(path):
        raise SessionError(
            f"'{path}' is {what} and no media file; it is not imported. Text goes to `text/*.txt` in a folder for "
            "--data, which the stage language reads; of a transcript, give the recording itself."
        )
    return "video"


_DOCUMENTS = {
    b"%PDF": "a PDF", b"\x89HDF": "an HDF5 file of tables", b"PAR1": "a Parquet table", b"PK\x03\x04": "a zip archive",
    b"ARROW1": "an Arrow table", b"\x1f\x8b": "a gzip archive",
}  # fmt: skip
"""By their first bytes."""
_WRITTEN = bytes({*range(32, 256), *b"\n\r\t\f"} - {127})
"""The bytes of a text, in UTF-8 or an older encoding."""
_TRANSCRIPTS = {
    ".textgrid": "a transcript of Praat", ".eaf": "a transcript of ELAN", ".cha": "a transcript of CHAT",
    ".opf": "a transcript of Datavyu", ".srt": "a file of subtitles", ".vtt": "a file of subtitles",
    ".tfrecord": "a TFRecord of examples", ".csv": "a table", ".tsv": "a table", ".json": "a JSON file",
    ".jsonl": "a JSON file",
}  # fmt: skip
"""By the ends of their names; whether it is one at all is seen by its content."""


def _document(path: Path) -> str | None:
    """What a file is that holds text or a table; None for what may be media."""
    with path.open("rb") as file:
        head = file.read(4096)
    wide = head[:2] in (b"\xff\xfe", b"\xfe\xff")  # UTF-16
    is_text = wide or (bool(head) and not head.translate(None, _WRITTEN))
    found = "text" if is_text else next((what for magic, what in _DOCUMENTS.items() if head.startswith(magic)), None)
    ending = path.suffix.lower()
    return _TRANSCRIPTS.get(ending, found) if found or ending == ".tfrecord" else None
