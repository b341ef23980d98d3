"""Sounds for the report, with a picture of their spectrum."""

from __future__ import annotations

import io

import cv2
import numpy as np
import torch

from devmind.agent.features import log_mel
from devmind.moment import SOUND_RATE_HZ


def wav(sound: np.ndarray) -> bytes:
    """A sound float32 [S] at 16 kHz as 16-bit WAV, its peak at 0.8."""
    import soundfile

    file = io.BytesIO()
    peak = max(1e-6, float(np.abs(sound).max(initial=0.0)))
    soundfile.write(file, 0.8 / peak * sound, SOUND_RATE_HZ, format="WAV", subtype="PCM_16")
    return file.getvalue()


def spectra(*sounds: np.ndarray) -> bytes:
    """Log-mel of sounds float32 [S] one beside the other, low tones below, loud light: a PNG."""
    shown = []
    for sound in sounds:
        mel = log_mel(torch.from_numpy(np.ascontiguousarray(sound, dtype=np.float32))).numpy().T[::-1]
        level = np.clip((mel + 0.6) / 2.0, 0, 1)
        shown += [np.full((level.shape[0], 4), 255, np.uint8), (255 * level).astype(np.uint8)]
    picture = cv2.applyColorMap(np.concatenate(shown[1:], 1), cv2.COLORMAP_MAGMA)
    return cv2.imencode(".png", cv2.resize(picture, None, fx=2, fy=2, interpolation=cv2.INTER_NEAREST))[1].tobytes()
