"""Recognisers that are independent of the agent: ridge on time-normalised log-mel, and nearest neighbours.

They are baselines of `hear_words`, and ridge judges `echo`, `say` and `speak_answer`. It is fitted on original
recordings, never on the output of a codec.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch

from devmind.agent.features import log_mel
from devmind.algorithms.ridge import Ridge, fit_ridge_classifier

NORMAL_FRAMES, MELS = 32, 40
PENALTY = 3000.0
"""Of ridge: the best of 300, 3,000 and 10,000 for spoken digits of speakers left out."""
DITHER = 0.005
"""Noise that is added to everything, 40 dB below the peak. Recordings at 8 kHz hold nothing above 4 kHz, and ridge
scales features by their spread, so the little that a vocoder adds there would dominate."""
LEAST = 160
"""Samples: 10 ms. Shorter sound is padded."""


def time_normalised(waves: Sequence[np.ndarray]) -> np.ndarray:
    """Log-mel of sounds float32 [S], without silence at the ends, stretched to 32 frames: [N, 1280]."""
    return np.stack([_stretched(wave) for wave in waves])


def with_changes(waves: Sequence[np.ndarray]) -> np.ndarray:
    """Time-normalised log-mel at mean 0 and deviation 1, and beside it its change from frame to frame, [N, 2560]."""
    mel = time_normalised(waves).reshape(len(waves), NORMAL_FRAMES, MELS)
    mel = mel - mel.mean((1, 2), keepdims=True)
    mel = mel / (mel.std((1, 2), keepdims=True) + 1e-3)
    changes = np.zeros_like(mel)
    changes[:, 1:-1] = mel[:, 2:] - mel[:, :-2]
    return np.concatenate((mel, changes), 2).reshape(len(waves), -1)


def _stretched(wave: np.ndarray) -> np.ndarray:
    loud = np.flatnonzero(np.abs(wave) > 0.03 * np.abs(wave).max(initial=1e-9))
    wave = wave[loud[0] : loud[-1] + 1] if len(loud) else wave
    wave = np.pad(wave, (0, max(0, LEAST - len(wave))))
    wave = 0.5 * wave / max(1e-6, float(np.abs(wave).max()))
    noise = np.random.Generator(np.random.PCG64(0)).standard_normal(len(wave))
    mel = log_mel(torch.from_numpy((wave + DITHER * noise).astype(np.float32)), 512, 160, MELS).numpy()
    return cv2.resize(mel, (MELS, NORMAL_FRAMES), interpolation=cv2.INTER_LINEAR).ravel()


@dataclass(frozen=True)
class Recogniser:
    """Which word a sound is, by ridge on time-normalised log-mel."""

    ridge: Ridge
    n: int
    """Sounds it was fitted on."""

    @staticmethod
    def of(waves: Sequence[np.ndarray], labels: np.ndarray) -> Recogniser:
        """Fitted on sounds and their labels [N], in closed form."""
        return Recogniser(fit_ridge_classifier(time_normalised(waves), labels, penalty=PENALTY), len(waves))

    def named(self, waves: Sequence[np.ndarray]) -> np.ndarray:
        """The label of each, [N]."""
        return self.ridge.predict(time_normalised(waves))

    def save(self, path: Path) -> None:
        """Write weights, intercept and labels as NumPy's .npz without pickles."""
        path.parent.mkdir(parents=True, exist_ok=True)
        assert self.ridge.classes is not None
        np.savez(path, weights=self.ridge.weights, intercept=self.ridge.intercept, labels=self.ridge.classes)

    @property
    def sha256(self) -> str:
        """Of its weights."""
        return hashlib.sha256(self.ridge.weights.tobytes() + self.ridge.intercept.tobytes()).hexdigest()


def nearest(known: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The row of `known` [M, D] that is nearest to each row of `queries` [N, D], int64 [N]."""
    squares = (known**2).sum(1)[None] - 2 * queries @ known.T
    return np.asarray(squares.argmin(1))
