"""A recording as a film that plays anywhere: an MKV with H.264 at the real capture times, FLAC, words as subtitles."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from heapq import merge
from pathlib import Path
from typing import Any

import numpy as np

from devmind.errors import SessionError
from devmind.moment import SOUND_RATE_HZ
from devmind.sessions.film.timeline import Picture, Stretch, Timeline, srt

MILLISECOND = Fraction(1, 1000)
"""The clock of an MKV."""
SIGHT_SCALE = 8
QUALITY = "20"


def export_mkv(paths: Sequence[Path], out: Path) -> list[str]:
    """Write the parts of one recording as the film `out`; returns sentences on what is missing.

    Its pictures are the camera's frames, or without them the agent's sight, each pixel 8x8.

    Raises:
        SessionError: there is neither a picture nor a sound, or PyAV is not installed.
    """
    try:
        import av
    except ImportError:
        raise SessionError("An MKV is written by PyAV; install it by: pip install 'devmind[video]'.") from None
    timeline = Timeline(paths)
    if not timeline.has_pictures and not timeline.channels:
        raise SessionError(f"'{paths[0]}' holds neither pictures nor sound; there is nothing to play.")
    words = srt(timeline.words())
    with av.open(str(out), "w", format="matroska") as film:
        tracks: list[Any] = [_Pictures(film, timeline)] if timeline.has_pictures else []
        tracks += [_Sound(film, timeline)] if timeline.channels else []
        write_words = _words(film, words) if words else None
        if write_words:
            write_words()
        for _, number, thing in merge(*(_timed(number, track) for number, track in enumerate(tracks))):
            tracks[number].add(thing)
        for track in tracks:
            track.finish()
    silent_s = sum(track.silent_s for track in tracks)
    return [f"{silent_s:.1f} s of the sound are silence, because nothing was heard then."] if silent_s else []


def _timed(number: int, track: Any) -> Iterator[tuple[float, int, Any]]:
    return ((thing.time_s, number, thing) for thing in track.things)


class _Pictures:
    """The film's pictures; all have the size of the first, rounded to even numbers for H.264."""

    silent_s = 0.0

    def __init__(self, film: Any, timeline: Timeline) -> None:
        self.things = timeline.pictures()
        self._film, self._timeline, self._last_ms = film, timeline, -1
        first = next(iter(timeline.pictures()))
        height, width = (side * (1 if timeline.has_camera else SIGHT_SCALE) for side in first.pixels().shape[:2])
        self._stream = film.add_stream(_codec(), rate=max(1, round(timeline.tick_hz)))
        self._stream.width, self._stream.height = max(2, width // 2 * 2), max(2, height // 2 * 2)
        self._stream.pix_fmt = "yuv420p"
        self._stream.codec_context.time_base = self._stream.time_base = MILLISECOND
        self._stream.options = {"crf": QUALITY, "preset": "veryfast"}

    def add(self, picture: Picture) -> None:
        """Add one picture; a second one in the same millisecond is skipped."""
        import av
        import cv2

        at_ms = round(picture.time_s * 1000)
        if at_ms <= self._last_ms:
            return
        self._last_ms = at_ms
        size = (self._stream.width, self._stream.height)
        pixels = picture.pixels()
        if pixels.shape[1::-1] != size:
            how = cv2.INTER_AREA if self._timeline.has_camera else cv2.INTER_NEAREST
            pixels = cv2.resize(pixels, size, interpolation=how)
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
        frame.pts, frame.time_base = at_ms, MILLISECOND
        self._film.mux(self._stream.encode(frame))

    def finish(self) -> None:
        """Flush the encoder."""
        self._film.mux(self._stream.encode())


class _Sound:
    """The film's sound, with gaps as silence."""

    def __init__(self, film: Any, timeline: Timeline) -> None:
        self.things = timeline.sound()
        self._film, self._at, self.silent_s = film, 0, 0.0
        self._layout = "mono" if timeline.channels == 1 else "stereo"
        self._stream = film.add_stream("flac", rate=SOUND_RATE_HZ)
        self._stream.layout, self._stream.format = self._layout, "s16"

    def add(self, stretch: Stretch) -> None:
        """Add one stretch, which begins at the end of the one before."""
        import av

        interleaved = np.ascontiguousarray(stretch.samples).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(interleaved, format="s16", layout=self._layout)
        frame.sample_rate, frame.pts, frame.time_base = SOUND_RATE_HZ, self._at, Fraction(1, SOUND_RATE_HZ)
        self._film.mux(self._stream.encode(frame))
        self._at += len(stretch.samples)
        self.silent_s += stretch.is_gap * len(stretch.samples) / SOUND_RATE_HZ

    def finish(self) -> None:
        """Flush the encoder."""
        self._film.mux(self._stream.encode())


def _words(film: Any, text: str) -> Callable[[], None]:
    """A stream of subtitles from a SubRip text; the returned function writes them all."""
    import av

    source = av.open(io.BytesIO(text.encode("utf-8", "replace")), "r", format="srt")
    stream = film.add_stream_from_template(source.streams.subtitles[0])

    def write() -> None:
        for packet in source.demux():
            if packet.dts is not None:
                packet.stream = stream
                film.mux(packet)
        source.close()

    return write


def _codec() -> str:
    """H.264 if this FFmpeg can write it, else MPEG-4."""
    import av

    try:
        return str(av.codec.Codec("libx264", "w").name)
    except ValueError:
        return "mpeg4"
