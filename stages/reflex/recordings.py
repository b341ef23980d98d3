"""Labelled recordings: handwritten digits and spoken digits, in groups, with one group held out of the lessons.

Layout of `--data DIR`: `images/*.npz` with `images` uint8 [N, H, W] and `labels` [N];
`speech/*/{digit}_{speaker}_{take}.wav`.
Without a folder the pictures are scikit-learn's digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from devmind.errors import ExamError
from devmind.moment import SOUND_RATE_HZ
from devmind.seeding import derive_seed, numpy_rng

CLIP_TICKS = 10
CLIP_SAMPLES = CLIP_TICKS * SOUND_RATE_HZ // 10
HELD_OUT_PICTURES = 0.2
SKLEARN_HELD_OUT = 600


@dataclass(frozen=True)
class Pictures:
    """images uint8 [N, H, W], labels int64 [N]; `source` names the set in the agent's `trained_on`."""

    images: np.ndarray
    labels: np.ndarray
    source: str

    def take(self, index: np.ndarray) -> Pictures:
        """The rows `index`."""
        return Pictures(self.images[index], self.labels[index], self.source)


@dataclass(frozen=True)
class Clips:
    """waves float32 [N, 16000] (one second at 16 kHz, the speech in its middle), labels int64 [N], speakers str [N]."""

    waves: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray
    speakers: np.ndarray

    def take(self, index: np.ndarray) -> Clips:
        """The rows `index` (int or bool)."""
        return Clips(self.waves[index], self.lengths[index], self.labels[index], self.speakers[index])


@lru_cache(maxsize=4)
def has_pictures(data: Path | None) -> bool:
    """Whether the folder holds labelled pictures."""
    return data is not None and any(data.glob("images/*.npz"))


@lru_cache(maxsize=4)
def pictures(data: Path | None) -> Pictures:
    """All labelled pictures of the folder, or scikit-learn's digits (8 x 8, from 13 writers).

    Raises:
        ExamError: a file is not in the layout.
    """
    files = sorted(data.glob("images/*.npz")) if data else []
    if not files:
        from sklearn.datasets import load_digits

        digits = load_digits()
        images = np.round(digits.images * (255 / 16)).astype(np.uint8)
        return Pictures(images, digits.target.astype(np.int64), "scikit-learn digits")
    loaded = [_read_npz(path) for path in files]
    size = max(images.shape[1] for images, _ in loaded)
    if any(images.shape[1:] != (size, size) for images, _ in loaded):
        raise ExamError(
            f"All pictures in {data}/images must have one square size; got {[i.shape[1:] for i, _ in loaded]}."
        )
    images = np.concatenate([images for images, _ in loaded])
    labels = np.concatenate([labels for _, labels in loaded])
    return Pictures(images, labels, "+".join(path.stem for path in files))


def _read_npz(path: Path) -> tuple[np.ndarray, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            images, labels = file["images"], file["labels"].astype(np.int64)
    except (OSError, EOFError, ValueError, KeyError, BadZipFile) as error:
        raise ExamError(f"{path} must be an .npz with 'images' and 'labels'; {error}.") from error
    fits = images.dtype == np.uint8 and images.ndim == 3 and len(images) == len(labels)
    if not fits or labels.min(initial=0) < 0 or labels.max(initial=0) > 9:
        raise ExamError(
            f"{path} must hold 'images' uint8 [N, H, W] and as many 'labels' 0..9; got {images.dtype} {images.shape}, "
            f"labels {labels.shape} {labels.min(initial=0)}..{labels.max(initial=0)}."
        )
    return images, labels


def split_pictures(every: Pictures, seed: int) -> tuple[Pictures, Pictures]:
    """(for lessons, held out). scikit-learn's last 600 are held out together: its rows come writer by writer.

    Other sets have no groups: a fifth is held out, drawn by the seed.
    """
    n = len(every.labels)
    if every.source == "scikit-learn digits":
        order, cut = np.arange(n), n - SKLEARN_HELD_OUT
    else:
        order, cut = numpy_rng(seed, "pictures", every.source).permutation(n), n - round(n * HELD_OUT_PICTURES)
    return every.take(order[:cut]), every.take(order[cut:])


@lru_cache(maxsize=2)
def clips(data: Path | None) -> Clips | None:
    """All spoken digits of the folder, resampled to 16 kHz, or None when it has none."""
    files = sorted(data.glob("speech/*/*.wav")) if data else []
    named = [(path, path.stem.split("_")) for path in files]
    named = [(path, parts) for path, parts in named if len(parts) >= 3 and parts[0].isdigit() and int(parts[0]) < 10]
    if not named:
        return None
    waves, lengths = zip(*(_centred(_read_wave(path)) for path, _ in named), strict=True)
    labels = np.array([int(parts[0]) for _, parts in named], dtype=np.int64)
    speakers = np.array(["_".join(parts[1:-1]) for _, parts in named])
    return Clips(np.stack(waves), np.array(lengths), labels, speakers)


def _read_wave(path: Path) -> np.ndarray:
    """float32 [S] at 16 kHz, channels mixed."""
    import soundfile
    import soxr

    try:
        wave, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise ExamError(
            f"The recording {path} cannot be read ({error}); remove it or replace it by a sound file."
        ) from error
    mono = wave.mean(axis=1)
    return mono if rate_hz == SOUND_RATE_HZ else soxr.resample(mono, rate_hz, SOUND_RATE_HZ)


def _centred(mono: np.ndarray) -> tuple[np.ndarray, int]:
    """One second around the speech [16000], peak at 0.5, and the speech's length in samples; mono is float32 [S]."""
    loud = np.flatnonzero(np.abs(mono) > 0.02 * np.abs(mono).max(initial=1e-9))
    if len(loud):
        mono = mono[loud[0] : loud[-1] + 1]
    mono = mono[:CLIP_SAMPLES]
    wave = np.zeros(CLIP_SAMPLES, dtype=np.float32)
    start = (CLIP_SAMPLES - len(mono)) // 2
    wave[start : start + len(mono)] = 0.5 * mono / max(1e-6, float(np.abs(mono).max(initial=0)))
    return wave, len(mono)


def held_out_speaker(speakers: Sequence[str], seed: int, named: str | None) -> str:
    """The speaker kept out of the lessons: the one named, else by hash of seed and name.

    Raises:
        ExamError: the named one does not speak here.
    """
    known = sorted(set(speakers))
    if named is not None and named in known:
        return named
    if named is not None:
        raise ExamError(f"exam.holdout={named} is no speaker of the data; it has {', '.join(known)}.")
    return min(known, key=lambda name: derive_seed(seed, "holdout", name))


def speaker_group(name: str) -> str:
    """How a speaker is listed in the agent's `trained_on`."""
    return f"speaker:{name}"
