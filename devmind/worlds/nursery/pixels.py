"""Small compiled passes over rendered pictures: brightness, change between ticks, boxes of what is visible."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def brightness(rgb, gray):
    """Integer luma of uint8 [N, S, S, 3] into uint8 [N, S, S]."""
    flat, out = rgb.reshape(-1, 3), gray.reshape(-1)
    for i in range(out.shape[0]):
        out[i] = (np.int32(77) * flat[i, 0] + np.int32(150) * flat[i, 1] + np.int32(29) * flat[i, 2]) >> 8


@njit(cache=True)
def pooled_change(now, before, out):
    """Mean absolute change of two uint8 [N, S, S] over blocks into float32 [N, 1, S / k, S / k], 0..1."""
    size = out.shape[2]
    k = now.shape[1] // size
    for n in range(now.shape[0]):
        for i in range(size):
            for j in range(size):
                total = np.int32(0)
                for y in range(i * k, i * k + k):
                    for x in range(j * k, j * k + k):
                        total += abs(np.int32(now[n, y, x]) - np.int32(before[n, y, x]))
                out[n, 0, i, j] = np.float32(total) / np.float32(255 * k * k)


@njit(cache=True)
def visible_boxes(mask, boxes, counts):
    """Box [N, O, 4] (x0, y0, x1, y1; x1 and y1 exclusive; zeros when unseen) and pixel count [N, O] of ids 1..O."""
    boxes[:] = 0
    counts[:] = 0
    for n in range(mask.shape[0]):
        for y in range(mask.shape[1]):
            for x in range(mask.shape[2]):
                i = np.int64(mask[n, y, x]) - 1
                if 0 <= i < counts.shape[1]:
                    if counts[n, i] == 0:
                        boxes[n, i, 0], boxes[n, i, 1] = x, y
                    boxes[n, i, 0] = min(boxes[n, i, 0], x)
                    boxes[n, i, 2] = max(boxes[n, i, 2], x + 1)
                    boxes[n, i, 3] = y + 1
                    counts[n, i] += 1
