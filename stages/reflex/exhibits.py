"""Exhibits for the report: pictures, and strips of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from devmind.curriculum.exam import Exhibit
from devmind.report.exhibits import png
from stages.reflex.trials import Played


def side_by_side(*pictures: np.ndarray) -> np.ndarray:
    """Pictures uint8 [H, W, 3] of one height as one, with a white gap of two pixels between them."""
    gap = np.full((pictures[0].shape[0], 2, 3), 255, np.uint8)
    parts = [part for picture in pictures for part in (gap, picture)]
    return np.concatenate(parts[1:], 1)


def picture_exhibits(
    kind: Literal["example", "failure"], pictures: np.ndarray, captions: Sequence[str]
) -> tuple[Exhibit, ...]:
    """One exhibit a picture; shown uint8 [N, H, W, 3]."""
    return tuple(Exhibit(kind, text, png=png(picture)) for picture, text in zip(pictures, captions, strict=True))


EDGES = ("first look", "last look")
"""Labels of the two pictures of a strip."""


def strips(
    kind: Literal["example", "failure"], played: Played, episodes: np.ndarray, captions: Sequence[str]
) -> tuple[Exhibit, ...]:
    """First and last sight of the episodes `episodes`, side by side."""
    strips = [side_by_side(played.first_sight[i], played.last_sight[i]) for i in episodes]
    return tuple(
        Exhibit(kind, text, png=png(strip), labels=EDGES) for strip, text in zip(strips, captions, strict=True)
    )
