"""A bank of synthetic and photographed surfaces, for backdrops of cluttered levels.

A third are pieces of the two photographs that come with scikit-learn, recoloured; the rest are coloured noise whose
power falls with frequency as it does in natural pictures (Field 1987, doi 10.1364/JOSAA.4.002379), gradients, stripes,
and overlapping shapes. It is made once a process from fixed seeds, in about a second.
"""

from __future__ import annotations

from functools import cache

import numpy as np

COUNT = 768
SIDE = 96


@cache
def bank() -> np.ndarray:
    """uint8 [COUNT, SIDE, SIDE, 3]."""
    from sklearn.datasets import load_sample_images

    photographs = load_sample_images().images
    makers = (_noise, _gradient, _stripes, _fallen)
    found = np.empty((COUNT, SIDE, SIDE, 3), np.uint8)
    for index in range(COUNT):
        rng = np.random.default_rng((2601, index))
        picture = _piece(photographs, rng) if index % 3 == 0 else makers[index % len(makers)](rng)
        found[index] = _recoloured(picture, rng)
    return found


def _piece(photographs: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    import cv2

    photograph = photographs[rng.integers(len(photographs))]
    side = int(rng.integers(SIDE, min(photograph.shape[:2])))
    top, left = (int(rng.integers(length - side + 1)) for length in photograph.shape[:2])
    piece = photograph[top : top + side, left : left + side][:, :: rng.choice((-1, 1))]
    return cv2.resize(np.ascontiguousarray(piece), (SIDE, SIDE), interpolation=cv2.INTER_AREA).astype(np.float32)


def _noise(rng: np.random.Generator) -> np.ndarray:
    frequency = np.hypot(np.fft.fftfreq(SIDE)[:, None], np.fft.rfftfreq(SIDE)[None])
    frequency[0, 0] = 1.0
    shape = (*frequency.shape, 3)
    wave = (rng.normal(size=shape) + 1j * rng.normal(size=shape)) / frequency[..., None] ** rng.uniform(0.8, 2.0)
    wave[0, 0] = 0.0
    flat = np.fft.irfft2(wave, (SIDE, SIDE), axes=(0, 1))
    mixed = flat @ (np.eye(3) + rng.uniform(0, 1.5, (3, 3)))
    return 128 + rng.uniform(25, 60) * mixed / mixed.std() + rng.uniform(-50, 50, 3)


def _gradient(rng: np.random.Generator) -> np.ndarray:
    down, across = np.meshgrid(*[np.linspace(0, 1, SIDE)] * 2, indexing="ij")
    corners = rng.uniform(0, 255, (2, 2, 3))
    weights = np.stack([(1 - down) * (1 - across), (1 - down) * across, down * (1 - across), down * across], -1)
    return weights @ corners.reshape(4, 3) + rng.normal(0, rng.uniform(0, 8), (SIDE, SIDE, 1))


def _stripes(rng: np.random.Generator) -> np.ndarray:
    down, across = np.meshgrid(*[np.arange(SIDE)] * 2, indexing="ij")
    turn, wave = rng.uniform(0, np.pi), rng.uniform(0.05, 0.6)
    share = 0.5 + 0.5 * np.tanh(rng.uniform(1, 6) * np.sin(wave * (np.cos(turn) * across + np.sin(turn) * down)))
    one, other = rng.uniform(0, 255, (2, 3))
    return share[..., None] * one + (1 - share[..., None]) * other


def _fallen(rng: np.random.Generator) -> np.ndarray:
    import cv2

    picture = np.broadcast_to(rng.uniform(0, 255, 3), (SIDE, SIDE, 3)).astype(np.float32).copy()
    for _ in range(rng.integers(5, 30)):
        colour = tuple(rng.uniform(0, 255, 3))
        middle = rng.uniform(0, SIDE, 2)
        if rng.random() < 0.5:
            axes = tuple(int(length) for length in rng.integers(3, 26, 2))
            at = (int(middle[0]), int(middle[1]))
            cv2.ellipse(picture, at, axes, float(rng.uniform(0, 180)), 0, 360, colour, -1, cv2.LINE_AA)
        else:
            corners = (middle + rng.uniform(-26, 26, (rng.integers(3, 6), 2))).astype(np.int32)
            cv2.fillConvexPoly(picture, cv2.convexHull(corners), colour, cv2.LINE_AA)
    return picture


def _recoloured(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The picture with other channels, saturation and brightness."""
    picture = picture[..., rng.permutation(3)]
    grey = picture.mean(-1, keepdims=True)
    picture = grey + rng.uniform(0.3, 1.6) * (picture - grey)
    return np.clip(rng.uniform(0.6, 1.2) * picture + rng.uniform(-25, 25), 0, 255).astype(np.uint8)
