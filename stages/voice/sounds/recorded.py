"""Recorded sounds by kinds, `sounds/*/{kind}/*.wav` in a folder of data; folds keep takes of one source together.

A source is one recording from which several clips were cut. ESC-50 (Piczak 2015) names clips `{fold}-{source}-{take}-
{kind}`; with other names each file is a source of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from devmind.bounds import data_files
from devmind.curriculum.stage import Context
from devmind.moment import TICK_SAMPLES
from devmind.seeding import derive_seed
from devmind.sessions.sounds import mono_wave
from stages.voice.sounds.kinds import KINDS, UNKNOWN

FOLDS = 3
SECONDS = 5.0
"""Of a recording, at most."""
SOURCE = "sound:"
"""Prefix of a source's entry in an agent's `trained_on`."""
_TAKE_PARTS = 4
"""Parts of an ESC-50 name."""


@dataclass(frozen=True)
class Recorded:
    """N recordings: waves float32 [S] at 16 kHz; kinds int64 [N], in KINDS (others count as UNKNOWN); sources str [N];
    names str [N] of their folders.
    """

    waves: tuple[np.ndarray, ...]
    kinds: np.ndarray
    sources: np.ndarray
    names: np.ndarray

    def take(self, index: np.ndarray) -> Recorded:
        """The rows `index` (int or bool)."""
        rows = np.arange(len(self.waves))[index]
        waves = tuple(self.waves[row] for row in rows)
        return Recorded(waves, self.kinds[rows], self.sources[rows], self.names[rows])


@lru_cache(maxsize=2)
def read_recordings(data: Path | None) -> Recorded | None:
    """All recordings of the folder of at least a Moment; None if it has none of a kind in KINDS."""
    files = data_files(data, "sounds/*/*/*.wav")
    read = [(path, wave) for path in files if len(wave := _read(path)) >= TICK_SAMPLES]
    kinds = np.array([_kind(path.parent.name) for path, _ in read], dtype=np.int64)
    if not (kinds != UNKNOWN).any():
        return None
    sources = np.array([source_of(path) for path, _ in read])
    names = np.array([path.parent.name for path, _ in read])
    return Recorded(tuple(wave for _, wave in read), kinds, sources, names)


def source_of(path: Path) -> str:
    """The source of a clip."""
    parts = path.stem.split("-")
    return "-".join(parts[:-2]) if len(parts) >= _TAKE_PARTS else path.stem


def _kind(folder: str) -> int:
    return KINDS.index(folder) if folder in KINDS else UNKNOWN


def _read(path: Path) -> np.ndarray:
    """Whole Moments of at most SECONDS, float32 [S] at 16 kHz."""
    wave = mono_wave(path, SECONDS)
    return np.ascontiguousarray(wave[: len(wave) // TICK_SAMPLES * TICK_SAMPLES])


def folds(recordings: Recorded) -> np.ndarray:
    """The fold of each recording, int64 [N]: the same for every seed, with kinds as even as their sources allow.

    All takes of a source are in one fold. Of each kind the source with the most takes goes first, into the fold with
    the fewest of this kind, then the fewest of all.
    """
    where: dict[str, int] = {}
    total = np.zeros(FOLDS, np.int64)
    for kind in np.unique(recordings.kinds):
        here = recordings.sources[recordings.kinds == kind]
        of_kind = np.zeros(FOLDS, np.int64)
        takes = {str(source): int((here == source).sum()) for source in np.unique(here)}
        for source in sorted(takes, key=lambda name: (-takes[name], derive_seed("folds", name))):
            fold = where.setdefault(source, int(np.lexsort((total, of_kind))[0]))
            of_kind[fold] += takes[source]
            total[fold] += takes[source]
    return np.array([where[str(source)] for source in recordings.sources], dtype=np.int64)


def source_group(source: str) -> str:
    """A source's entry in the agent's `trained_on`."""
    return f"{SOURCE}{source}"


def lesson_recordings(context: Context) -> Recorded | None:
    """Recordings of known kinds in two of the folds; the third, by seed, is held out. None without recordings."""
    return recordings_of_lessons(context.data, context.seed)


@lru_cache(maxsize=2)
def recordings_of_lessons(data: Path | None, seed: int) -> Recorded | None:
    """The same of a folder and a seed."""
    recordings = read_recordings(data)
    if recordings is None:
        return None
    found = recordings.take((folds(recordings) != seed % FOLDS) & (recordings.kinds != UNKNOWN))
    return found if len(found.waves) else None


def groups(context: Context) -> tuple[str, ...]:
    """The sources that are learned from."""
    known = lesson_recordings(context)
    return tuple(source_group(str(name)) for name in np.unique(known.sources)) if known is not None else ()
