"""A recording as a folder that needs no player: sound.wav, words.srt, pictures, and two CSV files with the times."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from devmind.moment import SOUND_RATE_HZ
from devmind.sessions.film.timeline import Picture, Stretch, Timeline, srt

SOUND, SOUND_TIMES, WORDS, PICTURES, PICTURE_TIMES = "sound.wav", "sound.csv", "words.srt", "images", "images.csv"


def export_files(paths: Sequence[Path], out: Path) -> list[str]:
    """Write the parts of one recording into the new folder `out`; returns sentences on what is missing.

    The camera's JPEGs are copied; without them the agent's sight becomes lossless PNGs.

    Raises:
        SessionError: a part cannot be read.
    """
    timeline = Timeline(paths)
    out.mkdir(parents=True)
    missing = []
    if timeline.channels:
        _write_sound(timeline, out)
    else:
        missing.append("There was no sound.")
    if timeline.has_pictures:
        _write_pictures(timeline, out)
    else:
        missing.append("There were no pictures.")
    words = timeline.words()
    if words:
        (out / WORDS).write_text(srt(words), encoding="utf-8", errors="replace")
    return missing


def _write_sound(timeline: Timeline, out: Path) -> None:
    import soundfile

    kinds: list[tuple[bool, float, float]] = []
    with soundfile.SoundFile(out / SOUND, "w", SOUND_RATE_HZ, timeline.channels, "PCM_16") as file:
        for stretch in timeline.sound():
            file.write(stretch.samples)
            kinds.append((stretch.is_gap, stretch.time_s, _end_s(stretch)))
    with (out / SOUND_TIMES).open("w", newline="", encoding="utf-8") as table:
        rows = csv.writer(table)
        rows.writerow(("from_s", "to_s", "what"))
        for is_gap, group in groupby(kinds, key=lambda kind: kind[0]):
            same = list(group)
            what = "silence: nothing was heard here" if is_gap else "heard"
            rows.writerow((f"{same[0][1]:.4f}", f"{same[-1][2]:.4f}", what))


def _end_s(stretch: Stretch) -> float:
    return stretch.time_s + len(stretch.samples) / SOUND_RATE_HZ


def _write_pictures(timeline: Timeline, out: Path) -> None:
    (out / PICTURES).mkdir()
    with (out / PICTURE_TIMES).open("w", newline="", encoding="utf-8") as table:
        rows = csv.writer(table)
        rows.writerow(("file", "time_s"))
        for number, picture in enumerate(timeline.pictures()):
            file = f"{PICTURES}/{number:06d}.{'jpg' if picture.frame else 'png'}"
            (out / file).write_bytes(picture.frame.jpeg if picture.frame else _png(picture))
            rows.writerow((file, f"{picture.time_s:.4f}"))


def _png(picture: Picture) -> bytes:
    import cv2

    return bytes(cv2.imencode(".png", cv2.cvtColor(picture.pixels(), cv2.COLOR_RGB2BGR))[1])
