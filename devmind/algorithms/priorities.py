"""Prioritised sampling: a sum tree, and the weights that correct for not drawing uniformly.

Schaul et al. 2016, "Prioritized experience replay", arXiv 1511.05952. NumPy float64. The sums depend only on the
leaves, so a tree restored from its saved leaves draws the same again.
"""

from __future__ import annotations

import numpy as np


class SumTree:
    """`capacity` priorities, each 0 until it is set; setting and finding take log2(capacity) steps for many at once."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"Expected a capacity of 1 or more; got {capacity}.")
        self.capacity = capacity
        self._leaves = 1 << (capacity - 1).bit_length()
        self._sums = np.zeros(2 * self._leaves)

    @property
    def total(self) -> float:
        """Sum of all priorities."""
        return float(self._sums[1])

    @property
    def values(self) -> np.ndarray:
        """The priorities, float64 [capacity], a copy."""
        return self._sums[self._leaves : self._leaves + self.capacity].copy()

    def __getitem__(self, index: np.ndarray) -> np.ndarray:
        return np.asarray(self._sums[self._leaves + index])

    def set(self, index: np.ndarray, priority: np.ndarray) -> None:
        """Set the places `index` int64 [n] to these priorities, 0 or more; if a place comes twice the last counts."""
        at = self._leaves + np.asarray(index)
        self._sums[at] = priority
        while at.size and at[0] > 1:
            at = np.unique(at // 2)
            self._sums[at] = self._sums[2 * at] + self._sums[2 * at + 1]

    def find(self, mass: np.ndarray) -> np.ndarray:
        """The places int64 [n] at which the running sum of priorities first exceeds `mass`, float [n] in [0, total)."""
        left, at = np.asarray(mass, np.float64).copy(), np.ones(len(mass), np.int64)
        while len(at) and at[0] < self._leaves:
            child = 2 * at
            # Rounding may leave a remainder as large as the left child: a child of sum 0 is never entered.
            right = (left >= self._sums[child]) & (self._sums[child + 1] > 0)
            left -= np.where(right, self._sums[child], 0.0)
            at = child + right
        return at - self._leaves

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """`n` places, drawn in proportion to their priorities, one from each of n equal shares of the total.

        Raises:
            ValueError: all priorities are 0.
        """
        if self.total <= 0:
            raise ValueError("Expected a priority above 0 to draw by; all are 0.")
        return self.find((np.arange(n) + rng.random(n)) * (self.total / n))


def importance(priority: np.ndarray, total: float, count: int, beta: float) -> np.ndarray:
    """Importance weights float [n] for a loss on prioritised samples, the largest 1: `(count * p) ** -beta`.

    Args:
        priority: of the samples, above 0.
        total: the sum of all `count` priorities.
        beta: 0 leaves the bias as it is, 1 removes it.
    """
    weight = (count * priority / total) ** -beta
    return np.asarray(weight / weight.max())
