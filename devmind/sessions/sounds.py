"""Sound of any file as whole ticks [C, S] at 16 kHz on the file's own clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from devmind.errors import ExamError, SessionError
from devmind.moment import SOUND_RATE_HZ, TICK_HZ, TICK_SAMPLES
from devmind.sessions.messages import from_s16

Warn = Callable[[str], None]
Part = tuple[float | None, int, np.ndarray]
"""Its start in seconds (None: at the end of the last one), its rate in Hz, float32 [n, C]."""

_BLOCK = 4096
"""Samples read at a time; a damaged file loses at most so many before the damage."""

LOWEST_RATE_HZ, HIGHEST_RATE_HZ = 2_000, 768_000
"""Below, a small file would become hours of sound; above there are no microphones."""

NO_NUMBERS = "no numbers (NaN or infinite); save it anew as 16-bit WAV"
"""Of samples, as a file of float32 may hold."""

_GAP_S = 0.005
"""Containers round their time stamps to about a millisecond; more than this is a gap."""


def file_ticks(path: Path, tick_samples: int, warn: Warn) -> Iterator[tuple[int, np.ndarray]]:
    """(tick, float32 [C, tick_samples]) of a sound file that libsndfile reads; an incomplete last tick is dropped.

    One or two channels stay, more are mixed to one. Missing parts of a cut file are reported to `warn`.

    Raises:
        SessionError: nothing of it can be read, or a sample is no finite number.
    """
    import soundfile

    try:
        with soundfile.SoundFile(path) as file:
            cutter = _TickCutter(0.0, file.samplerate, file.channels if file.channels < 3 else 1, tick_samples)
            try:
                for block in file.blocks(_BLOCK, dtype="float32", always_2d=True):
                    yield from cutter.feed(block if file.channels < 3 else block.mean(1, keepdims=True))
            except soundfile.LibsndfileError as error:
                warn(f"'{path}' is damaged and was read only in part ({error}).")
            if _declared_bytes(path) > path.stat().st_size:
                warn(f"'{path}' ends early and was read only in part: its header promises more.")
            yield from cutter.finish()
    except soundfile.LibsndfileError as error:
        raise SessionError(f"'{path}' cannot be read as sound ({error}); convert it to WAV or FLAC.") from error


def mono_wave(path: Path, seconds: float | None = None) -> np.ndarray:
    """A labelled recording, or its first `seconds`, float32 [S] at 16 kHz, channels mixed.

    Raises:
        ExamError: it cannot be read, its rate is not one of sound, or a sample is no finite number.
    """
    import soundfile
    import soxr

    try:
        with soundfile.SoundFile(path) as file:
            rate_hz = file.samplerate
            frames = -1 if seconds is None else round(seconds * rate_hz)
            wave = file.read(frames, dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise ExamError(
            f"The recording {path} cannot be read ({error}); remove it or replace it by a sound file."
        ) from error
    if not LOWEST_RATE_HZ <= rate_hz <= HIGHEST_RATE_HZ:
        raise ExamError(f"The recording {path} has {_no_rate(rate_hz)}")
    if not np.isfinite(wave).all():
        raise ExamError(f"The recording {path} has samples that are {NO_NUMBERS}.")
    mixed = wave.mean(axis=1)
    return mixed if rate_hz == SOUND_RATE_HZ else soxr.resample(mixed, rate_hz, SOUND_RATE_HZ)


def is_sound(path: Path) -> bool:
    """True when libsndfile reads the file's header."""
    import soundfile

    try:
        return bool(soundfile.info(path).channels)
    except soundfile.LibsndfileError:
        return False


def container_ticks(path: Path, tick_samples: int, warn: Warn) -> Iterator[tuple[int, np.ndarray]]:
    """The same for the sound in a video's container, through PyAV, on the clock of its pictures.

    A tick with a gap in its sound is left out. Without PyAV there is no sound, and `warn` gets a sentence.
    """
    try:
        import av
    except ImportError:
        warn(
            f"The sound of '{path}', if it has any, is left out: reading it needs PyAV (pip install 'devmind[video]')."
        )
        return
    try:
        with av.open(str(path)) as container:
            if not container.streams.audio:
                return
            yield from _stream_ticks(container, tick_samples)
    except av.error.FFmpegError as error:
        warn(f"The sound of '{path}' was read only in part ({error.strerror}).")


def _stream_ticks(container, tick_samples: int) -> Iterator[tuple[int, np.ndarray]]:  # type: ignore[no-untyped-def]
    import av

    stream = container.streams.audio[0]
    channels = min(stream.codec_context.channels, 2)
    to_float = av.AudioResampler(format="flt", layout="stereo" if channels == 2 else "mono")

    def parts() -> Iterator[Part]:
        for frame in container.decode(stream):
            start_s = frame.time - _pictures_start_s(container) if frame.time is not None else None
            made = [part.to_ndarray().reshape(-1, channels) for part in to_float.resample(frame)]
            yield start_s, frame.sample_rate, np.concatenate([np.zeros((0, channels), np.float32), *made])

    yield from timed_ticks(parts(), tick_samples, _GAP_S)


def timed_ticks(parts: Iterator[Part], tick_samples: int, gap_s: float) -> Iterator[tuple[int, np.ndarray]]:
    """(tick, float32 [C, tick_samples]) of the parts of one series; a tick with a gap over `gap_s` is left out.

    Time within a series follows from the parts' lengths: the stamps of messages jitter by more than their samples last.
    """
    cutter, heard_s, kind = None, 0.0, (0, 0)
    for start_s, rate_hz, block in parts:
        start_s = heard_s if start_s is None else start_s
        if cutter is None or start_s - heard_s > gap_s or kind != (rate_hz, block.shape[1]):
            if cutter is not None:
                yield from cutter.finish()
            kind, heard_s = (rate_hz, block.shape[1]), start_s
            cutter = _TickCutter(start_s, *kind, tick_samples)
        yield from cutter.feed(block)
        heard_s += len(block) / rate_hz
    if cutter is not None:
        yield from cutter.finish()


def _pictures_start_s(container) -> float:  # type: ignore[no-untyped-def]
    """Start of the pictures: OpenCV counts times from the first picture stream's own start, and sound must use the same
    zero.
    """
    for stream in container.streams.video:
        return float((stream.start_time or 0) * stream.time_base)
    return float((container.streams.audio[0].start_time or 0) * container.streams.audio[0].time_base)


class _TickCutter:
    """Resamples an unbroken series to 16 kHz and cuts it at the ticks of the source's clock."""

    def __init__(self, start_s: float, rate_hz: int, channels: int, tick_samples: int) -> None:
        import soxr

        if not LOWEST_RATE_HZ <= rate_hz <= HIGHEST_RATE_HZ:
            raise SessionError(f"Its sound has {_no_rate(rate_hz)}")
        start = round(start_s * SOUND_RATE_HZ)
        self._size = tick_samples
        self._tick = max(0, math.ceil(start / tick_samples))
        self._skip = self._tick * tick_samples - start
        self._resampler = soxr.ResampleStream(rate_hz, SOUND_RATE_HZ, channels, dtype="float32")
        self._held = np.zeros((0, channels), np.float32)

    def feed(self, block: np.ndarray, last: bool = False) -> Iterator[tuple[int, np.ndarray]]:
        """The ticks completed by `block` [n, C].

        Raises:
            SessionError: a sample is no finite number.
        """
        if not np.isfinite(block).all():
            raise SessionError(f"Its sound has samples that are {NO_NUMBERS}.")
        held = np.concatenate([self._held, self._resampler.resample_chunk(block, last=last)])
        skipped = min(self._skip, len(held))
        self._skip -= skipped
        held = held[skipped:]
        while len(held) >= self._size:
            yield self._tick, _quantised(held[: self._size])
            held = held[self._size :]
            self._tick += 1
        self._held = held

    def finish(self) -> Iterator[tuple[int, np.ndarray]]:
        """The ticks still in the resampler; an incomplete one is dropped, because padding would be invented sound."""
        yield from self.feed(self._held[:0], last=True)


def _no_rate(rate_hz: int) -> str:
    return (
        f"{rate_hz:,} samples a second, and {LOWEST_RATE_HZ:,} to {HIGHEST_RATE_HZ:,} are read; convert it to WAV of "
        "16,000."
    )


def _quantised(samples: np.ndarray) -> np.ndarray:
    """float32 [n, C] as [C, n] on the 16-bit grid, so that it is stored as plain PCM without loss."""
    steps = np.clip(np.rint(samples.T * 32768), -32768, 32767)
    return np.ascontiguousarray(from_s16(steps.astype(np.int16)))


def _declared_bytes(path: Path) -> int:
    """The file size in a WAV or AIFF header; 0 without one (libsndfile hides that a file is cut)."""
    with path.open("rb") as file:
        head = file.read(8)
    order = {b"RIFF": "little", b"FORM": "big"}.get(head[:4])
    size = int.from_bytes(head[4:8], order) if order else 0  # type: ignore[arg-type]
    return size + 8 if 0 < size < 0xFFFFFFFF else 0


SILENT = 1e-4
"""A file whose peak is below this is silent: 80 dB below full scale."""
CLIPPED, MOST_CLIPPED = 0.999, 0.01
"""A sample from CLIPPED on is at the limit; if more than this share are, the recording is reported as clipped."""


def moments_of(path: Path, seconds: float, warn: Warn) -> list[np.ndarray]:
    """The first `seconds` of a sound file as Moments of one ear, float32 [1600] each at 16 kHz.

    A last part of a Moment is left out.

    Raises:
        SessionError: nothing can be read, it is shorter than a Moment, or all of it is silence.
    """
    most, chunks, loudest, peak, clipped = round(seconds * TICK_HZ), list[np.ndarray](), 0.0, 0.0, 0
    for _, sound in file_ticks(path, TICK_SAMPLES, warn):
        if len(chunks) == most:
            warn(f"'{path}' is longer than {seconds:g} s, and the rest is not heard; give more --seconds.")
            break
        chunks.append(sound.mean(0))
        size = np.abs(chunks[-1])
        loudest, peak = max(loudest, float(np.abs(sound).max())), max(peak, float(size.max()))
        clipped += int((size >= CLIPPED).sum())
    if not chunks:
        raise SessionError(f"'{path}' is shorter than a Moment, which is 0.1 s; give a longer recording.")
    if peak < SILENT <= loudest:
        raise SessionError(f"The channels of '{path}' cancel each other out; give a recording of one of them.")
    if peak < SILENT:
        raise SessionError(f"'{path}' is silent: its peak is {peak:.1e} of full scale; give a louder recording.")
    if clipped > MOST_CLIPPED * TICK_SAMPLES * len(chunks):
        warn(f"'{path}' is clipped, so words may be missed; record it more softly.")
    return chunks
