"""Overlap of masks and of boxes: intersection over union of all pairs."""

from __future__ import annotations

import math

import numpy as np


def mask_iou(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Intersection over union [A, B] of masks bool [A, H, W] and [B, H, W]."""
    left, right = (masks.reshape(len(masks), math.prod(masks.shape[1:])).astype(np.float32) for masks in (a, b))
    shared = left @ right.T
    return shared / np.maximum(left.sum(1)[:, None] + right.sum(1)[None] - shared, 1)


def box_iou(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Intersection over union [A, B] of boxes [A, 4] and [B, 4]."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(-1)
    area = lambda boxes: (boxes[:, 2:] - boxes[:, :2]).prod(-1)  # noqa: E731
    return shared / np.maximum(area(a)[:, None] + area(b)[None] - shared, 1e-6)
