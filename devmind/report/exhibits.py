"""What exams show in a report: pictures as PNG, sounds as WAV."""

from __future__ import annotations

import io

import numpy as np

from devmind.moment import SOUND_RATE_HZ


def png(picture: np.ndarray, scale: int = 3) -> bytes:
    """An RGB picture uint8 [H, W, 3] enlarged without smoothing, as PNG."""
    import cv2

    size = (picture.shape[1] * scale, picture.shape[0] * scale)
    large = cv2.resize(np.ascontiguousarray(picture[..., ::-1]), size, interpolation=cv2.INTER_NEAREST)
    return cv2.imencode(".png", large)[1].tobytes()


def wav(sound: np.ndarray) -> bytes:
    """A sound float32 [S] or [C, S] at 16 kHz as 16-bit WAV, its peak at 0.8."""
    import soundfile

    peak = max(1e-6, float(np.abs(sound).max(initial=0.0)))
    file = io.BytesIO()
    soundfile.write(file, (0.8 / peak * sound).T, SOUND_RATE_HZ, format="WAV", subtype="PCM_16")
    return file.getvalue()
