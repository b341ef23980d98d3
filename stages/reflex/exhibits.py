"""Exhibits for the report: pictures and strips of them as PNG, sounds as WAV."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Literal

import cv2
import numpy as np

from devmind.curriculum.exam import Exhibit
from devmind.moment import SOUND_RATE_HZ
from stages.reflex.trials import Played


def png(picture: np.ndarray, scale: int = 3) -> bytes:
    """An RGB picture uint8 [H, W, 3] enlarged without smoothing, as PNG."""
    size = (picture.shape[1] * scale, picture.shape[0] * scale)
    large = cv2.resize(np.ascontiguousarray(picture[..., ::-1]), size, interpolation=cv2.INTER_NEAREST)
    return cv2.imencode(".png", large)[1].tobytes()


def side_by_side(*pictures: np.ndarray) -> np.ndarray:
    """Pictures uint8 [H, W, 3] of one height as one, with a white gap of two pixels between them."""
    gap = np.full((pictures[0].shape[0], 2, 3), 255, np.uint8)
    parts = [part for picture in pictures for part in (gap, picture)]
    return np.concatenate(parts[1:], 1)


def wav(sound: np.ndarray) -> bytes:
    """A sound float32 [C, S] at 16 kHz as 16-bit WAV, its peak at 0.8."""
    import soundfile

    peak = max(1e-6, float(np.abs(sound).max()))
    file = io.BytesIO()
    soundfile.write(file, (0.8 / peak * sound).T, SOUND_RATE_HZ, format="WAV", subtype="PCM_16")
    return file.getvalue()


def picture_exhibits(
    kind: Literal["example", "failure"], shown: np.ndarray, captions: Sequence[str]
) -> tuple[Exhibit, ...]:
    """One exhibit a picture; shown uint8 [N, H, W, 3]."""
    return tuple(Exhibit(kind, text, png=png(picture)) for picture, text in zip(shown, captions, strict=True))


EDGES = ("first look", "last look")
"""What the two pictures of a strip show."""


def strips(
    kind: Literal["example", "failure"], played: Played, which: np.ndarray, captions: Sequence[str]
) -> tuple[Exhibit, ...]:
    """First and last sight of the episodes `which`, side by side."""
    strips = [side_by_side(played.first_sight[i], played.last_sight[i]) for i in which]
    return tuple(Exhibit(kind, text, png=png(one), labels=EDGES) for one, text in zip(strips, captions, strict=True))
