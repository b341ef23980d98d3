"""Arrays that grow at their end without being copied each time, and that readers keep while they grow."""

from __future__ import annotations

from typing import Any

import numpy as np

_ROOM = 1.25
"""Factor of spare room when an array is made longer."""


class Column:
    """An array [n, ...] that gets new rows at its end. Rows once returned by `rows` never change."""

    def __init__(self, rows: np.ndarray) -> None:
        self._all, self._n = rows, len(rows)

    def __len__(self) -> int:
        return self._n

    @property
    def rows(self) -> np.ndarray:
        """All rows so far; the view keeps its length when more are added."""
        return self._all[: self._n]

    def append(self, rows: np.ndarray) -> None:
        """Add rows at the end."""
        n = self._n + len(rows)
        if n > len(self._all):
            longer = np.empty((max(16, int(_ROOM * n)), *self._all.shape[1:]), self._all.dtype)
            longer[: self._n] = self.rows
            self._all = longer
        self._all[self._n : n] = rows
        self._n = n

    def keep(self, which: np.ndarray) -> None:
        """Keep only the rows of a mask bool [n], in a new array, because readers have the old one."""
        self._all = self.rows[which]
        self._n = len(self._all)


_GROUPS = 512


def _reached_by(scores: np.ndarray, k: int) -> float:
    """A score that at least k of `scores` reach, and few more.

    For many scores it is the k-th of the best of 512 groups, which are k different ones: this takes a twentieth of the
    time of partitioning all of them.
    """
    best = scores
    if len(scores) >= 8 * _GROUPS and k < _GROUPS // 8:
        best = scores[: len(scores) // _GROUPS * _GROUPS].reshape(-1, _GROUPS).max(0)
    return float(np.partition(best, len(best) - k)[len(best) - k])


def top(scores: np.ndarray, ids: np.ndarray, k: int) -> np.ndarray:
    """Places of the k highest scores [n], the highest first; of equal ones the higher id. -inf is never included."""
    k = min(k, len(scores))
    if k <= 0:
        return np.zeros(0, np.int64)
    least = _reached_by(scores, k)
    places = np.flatnonzero(scores >= least)
    places = places[scores[places] > -np.inf]
    order: Any = np.lexsort((-ids[places], -scores[places]))
    return places[order[:k]]
