"""Sound of any file as whole ticks [C, S] at 16 kHz on the file's own clock."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from devmind.errors import ExamError, SessionError
from devmind.moment import SOUND_RATE_HZ, TICK_HZ, TICK_SAMPLES
from devmind.sessions.messages import from_s16
from devmind.sessions.pictures import film_start_s, open_film

Warn = Callable[[str], None]
Part = tuple[float | None, int, np.ndarray]
"""Its start in seconds (None: at the end of the last one), its rate in Hz, float32 [n, C]."""

_HEAD_BYTES = 1 << 16
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
        with _opened(path, warn) as file:
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
        with _opened(path) as file:
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


def check_sound(path: Path) -> None:
    """Open a file without decoding it.

    Raises:
        SessionError: it has no sound that can be read here.
    """
    if is_sound(path):
        return
    try:
        import av
    except ImportError:
        raise SessionError(
            f"'{path}' cannot be read as sound; what is no WAV, FLAC, OGG or MP3 needs PyAV (pip install "
            "'devmind[video]'), or convert it to WAV or FLAC."
        ) from None
    with suppress(av.error.FFmpegError), open_film(path) as film:
        if any(stream.codec_context is not None for stream in film.streams.audio):
            return
    raise SessionError(
        f"'{path}' cannot be read as sound: it has none, is damaged, or its codec is unknown here; convert it to WAV "
        "or FLAC."
    )


def sound_ticks(path: Path, tick_samples: int, warn: Warn) -> Iterator[tuple[int, np.ndarray]]:
    """`file_ticks` of a sound file, and `container_ticks` of anything else.

    Raises:
        SessionError: nothing of it can be read as sound, or a sample is no finite number.
    """
    check_sound(path)
    yield from (file_ticks if is_sound(path) else container_ticks)(path, tick_samples, warn)


def container_ticks(path: Path, tick_samples: int, warn: Warn) -> Iterator[tuple[int, np.ndarray]]:
    """The same for the sound in a video's container, through PyAV, on the clock of its pictures.

    A tick with a gap in its sound is left out. A film keeps its pictures whatever its sound is like: sound that cannot
    be read is left out, and `warn` gets a sentence, also without PyAV.
    """
    try:
        import av
    except ImportError:
        warn(
            f"The sound of '{path}', if it has any, is left out: reading it needs PyAV (pip install 'devmind[video]')."
        )
        return
    try:
        film = open_film(path)
    except av.error.FFmpegError:
        return  # no container: nothing of it can be read, neither pictures nor sound
    try:
        with film:
            if not film.streams.audio:
                return
            stream = next((stream for stream in film.streams.audio if stream.codec_context is not None), None)
            if stream is None:
                warn(f"The sound of '{path}' is left out: its codec is unknown here.")
                return
            damaged: list[Any] = []
            yield from timed_ticks(_parts(film, stream, damaged), tick_samples, _GAP_S)
            if damaged:
                warn(f"{len(damaged)} parts of the sound of '{path}' are damaged and left out.")
    except SessionError as error:
        warn(f"The sound of '{path}' is left out from where it cannot be read. {error}")
    except (av.error.FFmpegError, ValueError) as error:
        warn(f"The sound of '{path}' was read only in part ({getattr(error, 'strerror', None) or error}).")


def _parts(film: Any, stream: Any, damaged: list[Any]) -> Iterator[Part]:
    """The stream's sound with the rate of its first frame and its channels, two at most: broadcasts change both at an
    advertisement. Packets that cannot be decoded are appended to `damaged`.

    A bare stream has no stamps (`start_time` is None), and FFmpeg makes up some from the first frame's rate.
    """
    import av

    kind, to_float, rate_hz, channels, zero_s = None, None, 0, 0, film_start_s(film)
    stamped = stream.start_time is not None

    def part(at_s: float | None, frame: Any) -> Part:
        blocks: Any = to_float.resample(frame) if to_float else ()
        made: list[np.ndarray] = [block.to_ndarray().reshape(-1, channels) for block in blocks]
        return at_s, rate_hz, np.concatenate([np.zeros((0, channels), np.float32), *made])

    for packet in film.demux(stream):
        try:
            frames = packet.decode()
        except av.error.FFmpegError:
            damaged.append(packet)
            continue
        for frame in frames:
            if kind != (kind := (frame.format.name, frame.layout.name, frame.sample_rate)):
                if to_float is not None:
                    yield part(None, None)
                rate_hz = rate_hz or frame.sample_rate
                channels = channels or min(frame.layout.nb_channels, 2)
                layout = "stereo" if channels == 2 else "mono"
                to_float = av.AudioResampler(format="flt", layout=layout, rate=rate_hz)
            yield part(frame.time - zero_s if stamped and frame.time is not None else None, frame)


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
    return size + 8 if size and not any(size in unknown for unknown in _UNKNOWN) else 0


_UNKNOWN = (range(0x7FFFF000, 0x80001000), range(0xFFFFF000, 0x100000000))
"""Sizes that programs write into the header of a pipe, whose end they do not know."""


def _opened(path: Path, warn: Warn | None = None) -> Any:
    """The soundfile.SoundFile of a path; a WAV whose recorder was killed before it wrote the sizes is read to its end.

    Raises:
        soundfile.LibsndfileError: it is no sound.
    """
    import soundfile

    head = _head_without_sizes(path)
    if not head:
        return soundfile.SoundFile(path)
    if warn is not None:
        warn(f"'{path}' does not say how long it is, as after a recorder was killed; it was read to its end.")
    return soundfile.SoundFile(_Headed(path, head))


def _head_without_sizes(path: Path) -> bytes:
    """The head of a WAV with its sizes filled in, if its data says that it is empty and is not; else nothing."""
    with path.open("rb") as file:
        head, whole = file.read(_HEAD_BYTES), path.stat().st_size
    if head[:4] != b"RIFF" or head[8:12] != b"WAVE" or int.from_bytes(head[4:8], "little") + 8 == whole:
        return b""
    at = 12
    while at + 8 <= len(head):
        size = int.from_bytes(head[at + 4 : at + 8], "little")
        if head[at : at + 4] == b"data":
            filled = [min(rest, 0xFFFFFFFF).to_bytes(4, "little") for rest in (whole - 8, whole - at - 8)]
            return b"" if size else b"RIFF" + filled[0] + head[8 : at + 4] + filled[1]
        at += 8 + size + size % 2
    return b""


class _Headed(io.FileIO):
    """A file that is read with another head."""

    def __init__(self, path: Path, head: bytes) -> None:
        super().__init__(path, "rb")
        self._head = head

    def readinto(self, buffer: Any) -> int:
        """As in a file; `soundfile` reads by nothing else."""
        at = self.tell()
        count = super().readinto(buffer) or 0
        place = self._head[at : at + count]
        memoryview(buffer).cast("B")[: len(place)] = place
        return count


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
    for _, sound in sound_ticks(path, TICK_SAMPLES, warn):
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
