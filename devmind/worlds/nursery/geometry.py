"""Angles and directions. Every transcendental call gets contiguous float64, so one child equals one row of many."""

from __future__ import annotations

import numpy as np


def _contiguous(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x, np.float64)


def sin_deg(angle_deg: np.ndarray) -> np.ndarray:
    """Sine of degrees."""
    return np.sin(_contiguous(angle_deg) * (np.pi / 180))


def cos_deg(angle_deg: np.ndarray) -> np.ndarray:
    """Cosine of degrees."""
    return np.cos(_contiguous(angle_deg) * (np.pi / 180))


def wrap_deg(angle_deg: np.ndarray) -> np.ndarray:
    """The same angle in (-180, 180]."""
    return 180.0 - np.mod(180.0 - angle_deg, 360.0)


def direction(azimuth_deg: np.ndarray, elevation_deg: np.ndarray) -> np.ndarray:
    """Unit vectors [..., 3] of azimuth (positive left) and elevation (positive up)."""
    flat = cos_deg(elevation_deg)
    return np.stack([flat * cos_deg(azimuth_deg), flat * sin_deg(azimuth_deg), sin_deg(elevation_deg)], axis=-1)


def angles_deg(vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Azimuth and elevation of vectors [..., 3]."""
    x, y, z = (_contiguous(vector[..., axis]) for axis in range(3))
    return np.arctan2(y, x) * (180 / np.pi), np.arctan2(z, np.sqrt(x * x + y * y)) * (180 / np.pi)


def length(vector: np.ndarray) -> np.ndarray:
    """Euclidean length over the last axis of [..., 3], summed in a fixed order."""
    x, y, z = vector[..., 0], vector[..., 1], vector[..., 2]
    return np.sqrt(x * x + y * y + z * z)


def between_deg(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Angle between the directions of vectors [..., 3]."""
    cross = length(
        np.stack(
            [
                a[..., 1] * b[..., 2] - a[..., 2] * b[..., 1],
                a[..., 2] * b[..., 0] - a[..., 0] * b[..., 2],
                a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0],
            ],
            axis=-1,
        )
    )
    dot = a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1] + a[..., 2] * b[..., 2]
    return np.arctan2(_contiguous(cross), _contiguous(dot)) * (180 / np.pi)


def camera_axes(pan_deg: np.ndarray, tilt_deg: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Forward, left and up of a head turned by pan and tilt, each [..., 3]."""
    forward = direction(pan_deg, tilt_deg)
    left = np.stack([-sin_deg(pan_deg), cos_deg(pan_deg), np.zeros_like(sin_deg(pan_deg))], axis=-1)
    return forward, left, direction(pan_deg, np.asarray(tilt_deg) + 90.0)
