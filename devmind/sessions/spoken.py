"""Labelled recordings of spoken digits, by speakers: `speech/*/{digit}_{speaker}_{take}.wav` in a folder of data.

Stages that listen share them: one speaker is held out of the lessons, the same one for all stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from devmind.bounds import data_files
from devmind.errors import ExamError
from devmind.moment import SOUND_RATE_HZ
from devmind.seeding import derive_seed
from devmind.sessions.sounds import mono_wave

CLIP_TICKS = 10
CLIP_SAMPLES = CLIP_TICKS * SOUND_RATE_HZ // 10


@dataclass(frozen=True)
class Clips:
    """waves float32 [N, 16000] (one second at 16 kHz, the speech in its middle), labels int64 [N], speakers str [N];
    lengths int64 [N], samples of the speech.
    """

    waves: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray
    speakers: np.ndarray

    def take(self, index: np.ndarray) -> Clips:
        """The rows `index` (int or bool)."""
        return Clips(self.waves[index], self.lengths[index], self.labels[index], self.speakers[index])

    def unmet(self, trained_on: Sequence[str]) -> Clips:
        """The clips of speakers that an agent with this `trained_on` never learned from.

        Raises:
            ExamError: it learned from all of them.
        """
        met = [speaker_group(name) in trained_on for name in self.speakers]
        if all(met):
            raise ExamError(
                "The agent learned from every speaker of the data, so none is left to examine it on; give other --data."
            )
        return self.take(~np.array(met))


@lru_cache(maxsize=2)
def clips(data: Path | None) -> Clips | None:
    """All spoken digits of the folder, resampled to 16 kHz, or None when it has none."""
    named = [(path, path.stem.split("_")) for path in data_files(data, "speech/*/*.wav")]
    named = [(path, parts) for path, parts in named if len(parts) >= 3 and parts[0].isdecimal() and int(parts[0]) < 10]
    if not named:
        return None
    waves, lengths = zip(*(_centred(mono_wave(path)) for path, _ in named), strict=True)
    labels = np.array([int(parts[0]) for _, parts in named], dtype=np.int64)
    speakers = np.array(["_".join(parts[1:-1]) for _, parts in named])
    return Clips(np.stack(waves), np.array(lengths), labels, speakers)


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
    """The speaker held out of the lessons: the named one, else by hash of seed and name.

    Raises:
        ExamError: the named speaker is not in the data.
    """
    known = sorted(set(speakers))
    if named is not None and named in known:
        return named
    if named is not None:
        raise ExamError(f"exam.holdout={named} is no speaker of the data; it has {', '.join(known)}.")
    return min(known, key=lambda name: derive_seed(seed, "holdout", name))


def speaker_group(name: str) -> str:
    """The entry of a speaker in the agent's `trained_on`."""
    return f"speaker:{name}"
