"""Cosines of many keys with one, in float32 or in a quarter of the room."""

from __future__ import annotations

import numpy as np

_FULL_SCALE = 127
_BLOCK = 8192
"""Rows of int8 that become float32 at once, so that they stay in the processor's cache."""


def cosines(vectors: np.ndarray, vector: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Cosines float32 [m] of keys [m, 64] (float32, or int8 in units of `scales` [m]) with one key float32 [64]."""
    if vectors.dtype == np.float32:
        import torch  # here, since who asks by keys has it for the agent that made them, and others need not load it

        # Numpy's product of a matrix by rows takes half as long again.
        return np.asarray(torch.mv(torch.from_numpy(vectors), torch.from_numpy(np.array(vector, np.float32))))
    found = np.empty(len(vectors), np.float32)
    for start in range(0, len(vectors), _BLOCK):
        found[start : start + _BLOCK] = vectors[start : start + _BLOCK].astype(np.float32) @ vector
    return found * scales


def quantised(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keys float32 [m, 64] as int8 [m, 64] and their units float32 [m]: a 127th of each key's largest number."""
    scales = np.abs(vectors).max(1, initial=1e-12).astype(np.float32) / np.float32(_FULL_SCALE)
    return np.round(vectors / scales[:, None]).astype(np.int8), scales
