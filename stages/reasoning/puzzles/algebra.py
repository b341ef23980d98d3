"""Lights Out by algebra mod 2: which patterns have a solution, and the fewest presses; a reference for exams only.

Presses and lights are vectors over GF(2), and a press matrix maps presses to lights. A pattern has a solution if it is
orthogonal to the matrix's null space (the matrix is symmetric). All solutions differ by null vectors, so trying those
finds the shortest (Anderson and Feil 1998, "Turning lights out with linear algebra").
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from devmind.worlds.lights_out import turns


@dataclass(frozen=True)
class Algebra:
    """The elimination for one board size.

    Attributes:
        inverse: int8 [n, n]: lights @ inverse are presses that solve them, if any do.
        null: int8 [d, n], a basis of the presses that change nothing.
    """

    inverse: np.ndarray
    null: np.ndarray

    @classmethod
    def of(cls, side: int) -> Algebra:
        """Gauss-Jordan over GF(2) on the press matrix of a board of this side."""
        matrix = turns(side).astype(np.int64)
        n = len(matrix)
        work, pivots = np.concatenate([matrix, np.eye(n, dtype=np.int64)], 1), list[int]()
        for column in range(n):
            row = len(pivots)
            below = np.flatnonzero(work[row:, column])
            if not len(below):
                continue
            work[[row, row + below[0]]] = work[[row + below[0], row]]
            others = np.flatnonzero(work[:, column])
            work[others[others != row]] ^= work[row]
            pivots.append(column)
        # Free presses are left out: row r of the reduced system says press pivots[r].
        inverse = np.zeros((n, n), np.int64)
        inverse[:, pivots] = work[: len(pivots), n:].T
        free = [column for column in range(n) if column not in pivots]
        null = np.zeros((len(free), n), np.int64)
        for number, column in enumerate(free):
            null[number, column] = 1
            null[number, pivots] = work[: len(pivots), column]
        return cls(inverse.astype(np.int8), null.astype(np.int8))

    def solvable(self, lit: np.ndarray) -> np.ndarray:
        """Which lights int8 [N, n] have a solution, bool [N]."""
        return np.asarray(~((lit.astype(np.int64) @ self.null.T) % 2).any(-1))

    def shortest(self, lit: np.ndarray) -> np.ndarray:
        """One of the smallest sets of presses, int8 [N, n]; meaningless for lights that are not `solvable`."""
        presses = (lit.astype(np.int64) @ self.inverse) % 2
        kernel = np.array(list(product((0, 1), repeat=len(self.null))), np.int64) @ self.null.astype(np.int64) % 2
        best = presses
        for way in kernel.reshape(-1, lit.shape[1]):
            other = (presses + way) % 2
            best = np.where((other.sum(-1) < best.sum(-1))[:, None], other, best)
        return best.astype(np.int8)
