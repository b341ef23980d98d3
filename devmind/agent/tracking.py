"""The mathematics of tracking: measurement noise, the Kalman filter, gates, data association, projection.

Everything is plain NumPy over N rows at once. Positions are metres in the frame of a torso that does not lean:
x forward, y left, z up from the upright head. Sources: Kalman 1960 ("A new approach to linear filtering and prediction
problems"); Lerro and Bar-Shalom 1993 (converted measurements: a direction and a distance become a point with a
covariance); Blackman and Popoli 1999 ("Design and analysis of modern tracking systems", ch. 6: gates and greedy
assignment).
"""

from __future__ import annotations

import numpy as np


def point(azimuth_deg: np.ndarray, elevation_deg: np.ndarray, distance_m: np.ndarray) -> np.ndarray:
    """Points [..., 3] by azimuth (positive left), elevation (positive up) and distance."""
    a, e = np.deg2rad(azimuth_deg), np.deg2rad(elevation_deg)
    flat = np.cos(e)
    return distance_m[..., None] * np.stack([flat * np.cos(a), flat * np.sin(a), np.sin(e)], -1)


def direction(vector: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Azimuth and elevation in degrees, and distance, of vectors [..., 3]."""
    x, y, z = vector[..., 0], vector[..., 1], vector[..., 2]
    return np.rad2deg(np.arctan2(y, x)), np.rad2deg(np.arctan2(z, np.hypot(x, y))), np.linalg.norm(vector, axis=-1)


def polar_noise(vector: np.ndarray, angle_deg: float, log_distance: float) -> np.ndarray:
    """Covariances [..., 3, 3] of points seen at `vector` [..., 3], from the errors of angle and log distance."""
    far = np.maximum(np.linalg.norm(vector, axis=-1), 0.05)[..., None, None]
    along = vector[..., None] * vector[..., None, :] / far**2
    aside, radial = (np.deg2rad(angle_deg) * far) ** 2, (log_distance * far) ** 2
    return aside * (np.eye(3) - along) + radial * along


def process_noise(covariance: np.ndarray, step: np.ndarray, most: float) -> np.ndarray:
    """Covariances [..., 3, 3] after a random walk of variance `step` [...] (m^2), limited to a mean variance `most`."""
    full = np.trace(covariance, axis1=-2, axis2=-1) / (3 * most)
    return covariance + (step * np.clip(1 - full, 0, 1))[..., None, None] * np.eye(3)


def kalman_update(
    mean: np.ndarray, covariance: np.ndarray, seen: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Kalman's update of means [..., 3] and covariances [..., 3, 3] by points `seen` of covariance `noise`."""
    gain = covariance @ np.linalg.inv(covariance + noise)
    mean = mean + np.einsum("...ij,...j->...i", gain, seen - mean)
    covariance = covariance - gain @ covariance
    return mean, (covariance + covariance.swapaxes(-1, -2)) / 2


def squared_distance(offset: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Mahalanobis' squared distance of offsets [..., 3]."""
    solved = np.linalg.solve(covariance, offset[..., None])[..., 0]
    return (offset * solved).sum(-1)


def greedy_assignment(cost: np.ndarray, most: float) -> np.ndarray:
    """The track of each of M detections by cost [N, M, S], the cheapest pairs first; int64 [N, M], -1 for none.

    The cheapest remaining pair is taken until all cost more than `most`; each detection and each track is used once. It
    differs from the optimal assignment (Kuhn 1955) only where gates overlap, and runs for all rows at once.
    """
    n, m, s = cost.shape
    left, every = np.where(cost <= most, cost, np.inf), np.arange(n)
    track = np.full((n, m), -1)
    for _ in range(min(m, s)):
        best = left.reshape(n, -1).argmin(1)
        row, column = best // s, best % s
        found = np.isfinite(left[every, row, column])
        if not found.any():
            break
        track[every[found], row[found]] = column[found]
        left[every[found], row[found]] = np.inf
        left[every[found], :, column[found]] = np.inf
    return track


def project(
    offset: np.ndarray, pan_deg: np.ndarray, tilt_deg: np.ndarray, half_deg: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Project points [N, S, 3], relative to the eye, into the picture of a gaze [N].

    Returns:
        column and row in -1..1 (left to right, top to bottom; out of view beyond that) and metres along the axis,
        each [N, S]. Points behind the eye have an infinite column and row.
    """
    pan, tilt = np.deg2rad(pan_deg)[:, None], np.deg2rad(tilt_deg)[:, None]
    x, y, z = offset[..., 0], offset[..., 1], offset[..., 2]
    level = np.cos(pan) * x + np.sin(pan) * y
    left = np.cos(pan) * y - np.sin(pan) * x
    ahead, up = np.cos(tilt) * level + np.sin(tilt) * z, np.cos(tilt) * z - np.sin(tilt) * level
    scale = np.maximum(ahead, 1e-6) * np.tan(np.deg2rad(half_deg))
    behind = ahead <= 0.05
    return np.where(behind, np.inf, -left / scale), np.where(behind, np.inf, -up / scale), ahead


def depth_around(depth_m: np.ndarray, column: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Median depth of the 3 x 3 pixels around points [N, S] (-1..1) of depth maps [N, H, W]."""
    n, height, width = depth_m.shape
    x = np.clip(((np.nan_to_num(column, posinf=0) + 1) / 2 * width).astype(int), 1, width - 2)
    y = np.clip(((np.nan_to_num(row, posinf=0) + 1) / 2 * height).astype(int), 1, height - 2)
    every = np.arange(n)[:, None]
    around = [depth_m[every, y + i, x + j] for i in (-1, 0, 1) for j in (-1, 0, 1)]
    return np.asarray(np.median(np.stack(around, -1), -1))
