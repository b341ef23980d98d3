"""Small compiled passes over rendered pictures: backdrops, brightness, change between ticks, visible boxes."""

from __future__ import annotations

import numpy as np
from numba import njit, prange


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


@njit(cache=True)
def _mirrored(degrees, side, texels, out):
    """Indices into a row of `texels`, `side` degrees wide, repeated with every second copy mirrored."""
    for i in range(degrees.shape[0]):
        place = np.int64(np.floor(degrees[i] / side * texels)) % (2 * texels)
        out[i] = place if place < texels else 2 * texels - 1 - place


@njit(cache=True, parallel=True)
def lay_backdrops(rgb, mask, backdrop, pictures, layers, gaze, aside):
    """Paint `layers` (see backdrop.layers) where `mask` is 0, in the children with a backdrop."""
    size, texels = rgb.shape[1], pictures.shape[1]
    for n in prange(rgb.shape[0]):
        if not backdrop[n]:
            continue
        left, up = gaze[n, 0] + aside, gaze[n, 1] + aside
        columns, rows = np.empty((2, size), np.int64), np.empty((2, size), np.int64)
        for k in range(2):
            _mirrored(left - layers[n, k, 1], layers[n, k, 3], texels, columns[k])
            _mirrored(up - layers[n, k, 2], layers[n, k, 3], texels, rows[k])
        far, patch = np.int64(layers[n, 0, 0]), np.int64(layers[n, 1, 0])
        across, above, radius = left - layers[n, 1, 4], up - layers[n, 1, 5], layers[n, 1, 6]
        for y in range(size):
            for x in range(size):
                if mask[n, y, x] != 0:
                    continue
                k = 1 if across[x] * across[x] + above[y] * above[y] < radius * radius else 0
                picture = patch if k else far
                for c in range(3):
                    rgb[n, y, x, c] = pictures[picture, rows[k, y], columns[k, x], c]
