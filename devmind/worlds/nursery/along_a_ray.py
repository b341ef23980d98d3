"""Baseline of two stages: reaching for a blob of a colour, by the ray to it and the hand's way along it."""

from __future__ import annotations

import cv2
import numpy as np

from devmind.moment import SIGHT_SIZE
from devmind.worlds.nursery.state import COLOURS, MAX_REACH_M

SIGHT_HALF = np.tan(np.deg2rad(30.0))
HAND_SCALE_M, CLEAR_M, IN_FRONT_M = 0.75, 0.33, 0.03
"""Metres of a 1 in proprioception; the least distance of things from the body; how close to the ray a hand must be,
seen from the front, before it goes forwards."""
UNLIKE_COLOUR, LEAST_PX = 0.1, 6
"""The largest distance of a pixel's colour from the named one, both at full brightness, chosen on 200 rooms of lesson
seeds; the fewest pixels of a thing."""


def ray_to(colour: str, picture: np.ndarray, pan: float, tilt: float, unlike: float = UNLIKE_COLOUR) -> np.ndarray:
    """The direction (1, left, up) from an eye turned by `pan` and `tilt` (radians) to the largest blob of the colour in
    `picture`, uint8 [H, W, 3]: float64 [3]; NaN without a blob.
    """
    wanted, seen = np.array(COLOURS[colour], np.float64), picture.astype(np.float64)
    far = np.abs(seen / np.maximum(seen.max(-1, keepdims=True), 1) - wanted / wanted.max()).sum(-1)
    _, _, blobs, middles = cv2.connectedComponentsWithStats((far < unlike).astype(np.uint8))
    if len(blobs) < 2 or blobs[1:, cv2.CC_STAT_AREA].max() < LEAST_PX:
        return np.full(3, np.nan)
    x, y = (middles[1 + blobs[1:, cv2.CC_STAT_AREA].argmax()] + 0.5) / SIGHT_SIZE * 2 - 1
    left, up = -x * SIGHT_HALF, -y * SIGHT_HALF
    ahead, up = np.cos(tilt) - up * np.sin(tilt), np.sin(tilt) + up * np.cos(tilt)
    ahead, left = ahead * np.cos(pan) - left * np.sin(pan), ahead * np.sin(pan) + left * np.cos(pan)
    return np.array([1.0, left / ahead, up / ahead])


def along(ray: np.ndarray, body: np.ndarray) -> np.ndarray:
    """`reach` float32 [N, 4] for hands that first come to rays [N, 3] near the body, by proprioception [N, K], and then
    follow them; where a ray is NaN, the hand rests.
    """
    hand = body[:, 3:6].astype(np.float64) * HAND_SCALE_M
    off = hand[:, :1] * ray - hand
    on_the_ray = np.abs(off[:, 1:]).max(1) < IN_FRONT_M / 2
    off[:, 0] = np.where(on_the_ray, MAX_REACH_M, CLEAR_M - hand[:, 0])
    off[on_the_ray, 1:] += MAX_REACH_M * ray[on_the_ray, 1:]
    way = off / MAX_REACH_M
    way /= np.maximum(1.0, np.abs(way).max(1, keepdims=True))
    way[np.isnan(way).any(1)] = 0.0
    return np.concatenate([way, -np.ones((len(way), 1))], 1).astype(np.float32)
