"""Random numbers as a function of (child seed, purpose, tick): no generator is advanced, so no order matters.

The mixing function is SplitMix64's finaliser (Steele, Lea, Flood 2014), applied along the key.
"""

from __future__ import annotations

import math
import zlib
from functools import cache

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@cache
def _purpose_key(purpose: str) -> np.ndarray:
    return np.array([zlib.crc32(purpose.encode())], np.uint64)


def uniform(
    seeds: np.ndarray,
    purpose: str,
    low: float = 0.0,
    high: float = 1.0,
    shape: tuple[int, ...] = (),
    tick: np.ndarray | int = 0,
) -> np.ndarray:
    """Uniform numbers in [low, high), float64 [N, *shape]; seeds int64 [N], tick a number or int [N]."""
    ticks = np.broadcast_to(np.asarray(tick), seeds.shape).astype(np.uint64)
    with np.errstate(over="ignore"):
        key = _mix(_mix(seeds.astype(np.uint64) + _GOLDEN * _purpose_key(purpose)) ^ (ticks * _GOLDEN))
        counter = np.arange(1, math.prod(shape) + 1, dtype=np.uint64) * _GOLDEN
        bits = _mix(key[:, None] + counter) >> np.uint64(11)
    return low + (high - low) * (bits.astype(np.float64) * 2.0**-53).reshape(len(seeds), *shape)


def integers(
    seeds: np.ndarray, purpose: str, n: np.ndarray | int, shape: tuple[int, ...] = (), tick: np.ndarray | int = 0
) -> np.ndarray:
    """Integers in [0, n), int64 [N, *shape]; n is a number or an array that broadcasts against them."""
    return (uniform(seeds, purpose, shape=shape, tick=tick) * n).astype(np.int64)


def permutations(seeds: np.ndarray, purpose: str, n: int) -> np.ndarray:
    """A permutation of 0..n-1 for each child, int64 [N, n]."""
    return np.argsort(uniform(seeds, purpose, shape=(n,)), axis=1, kind="stable")
