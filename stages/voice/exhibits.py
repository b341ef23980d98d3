"""Sounds for the report, with a picture of their spectrum."""

from __future__ import annotations

import cv2
import numpy as np

from devmind.moment import SOUND_RATE_HZ
from devmind.report.exhibits import wav

__all__ = ["spectra", "wav"]


def spectra(*sounds: np.ndarray) -> bytes:
    """A PNG of the log-mel of sounds float32 [S] side by side, with low frequencies below and loud parts bright."""
    import librosa

    shown = []
    for sound in sounds:
        mel = librosa.feature.melspectrogram(y=sound, sr=SOUND_RATE_HZ, n_fft=512, hop_length=160, n_mels=64)[::-1]
        level = np.clip((librosa.power_to_db(mel, amin=1e-6, top_db=None) + 32) / 40, 0, 1)
        shown += [np.full((level.shape[0], 4), 255, np.uint8), (255 * level).astype(np.uint8)]
    picture = cv2.applyColorMap(np.concatenate(shown[1:], 1), cv2.COLORMAP_MAGMA)
    return cv2.imencode(".png", cv2.resize(picture, None, fx=2, fy=2, interpolation=cv2.INTER_NEAREST))[1].tobytes()
