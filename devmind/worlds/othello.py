"""Othello as Rules: a disc flips all opposing discs that it encloses; the player with more discs at the end wins.

With perfect play the second player wins on 6 x 6 by four (Feinstein 1993), on 4 x 4 by eight.
"""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np
from numba import njit

from devmind.errors import WorldError
from devmind.worlds.boards import Board, BoardRules

NAMES = {"othello": "6x6"}
"""Levels with names of their own."""
SIDES = (4, 6, 8)


class OthelloRules(BoardRules):
    """The level is the board, "4x4", "6x6" (also "othello") or "8x8"; the last move, after the cells, is to pass.

    A player passes if and only if no disc can be placed; if neither player can, the game is over. For a board without
    its history (`of`) passes are not known, so `player` is right only if nobody has passed.

    Raises:
        WorldError: the level is none of these, or a move is not legal.
    """

    name = "othello"

    def __init__(self, level: str = "6x6") -> None:
        found = re.fullmatch(r"(\d+)x\1", NAMES.get(level, level))
        if not found or int(found[1]) not in SIDES:
            boards = ", ".join(f"'{side}x{side}'" for side in SIDES)
            raise WorldError(f"The level of the world 'othello' is one of {boards}; got '{level}'.")
        side = int(found[1])
        self.passing = side**2
        # Each pass is followed by a placed disc, so there are at most as many passes as discs.
        super().__init__(level, side, side, choices=side**2 + 1, horizon=2 * (side**2 - 4))

    @cached_property
    def rays(self) -> np.ndarray:
        """From each cell in eight directions, the cells up to the edge, padded with `cells`: int64 [cells, 8, side]."""
        grid = np.full((3 * self.rows, 3 * self.columns), self.cells)
        grid[self.rows : 2 * self.rows, self.columns : 2 * self.columns] = np.arange(self.cells).reshape(self.rows, -1)
        found = np.empty((self.cells, 8, self.rows), np.int64)
        ways = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1) if down or right]
        for cell in range(self.cells):
            row, column = divmod(cell, self.columns)
            for number, (down, right) in enumerate(ways):
                for far in range(self.rows):
                    at = self.rows + row + down * (far + 1), self.columns + column + right * (far + 1)
                    found[cell, number, far] = grid[at]
        return found

    def initial(self, seeds: np.ndarray) -> Board:
        """Four discs in the middle, two of each."""
        marks = np.zeros((len(seeds), self.rows, self.columns), np.int8)
        middle = self.rows // 2
        marks[:, [middle - 1, middle], [middle, middle - 1]] = 1
        marks[:, [middle - 1, middle], [middle - 1, middle]] = -1
        return self.of(marks.reshape(-1, self.cells))

    def free(self, marks: np.ndarray) -> np.ndarray:
        """Free cells that enclose at least one disc; the pass, if there is none."""
        able = _closing(marks, self.rays)
        return np.concatenate([able, ~able.any(-1, keepdims=True)], -1)

    def placed(self, marks: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """The placed disc, with all enclosed discs flipped."""
        return np.asarray(_turned(marks, moves.astype(np.int64), self.rays))

    def finished(self, marks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Over if neither player can place a disc; the player with more discs has won."""
        over = self.free(marks)[:, self.passing]
        left = np.flatnonzero(over)
        over[left] = self.free(-marks[left])[:, self.passing]
        return over, np.where(over, np.sign(-marks.sum(-1, dtype=np.int64)), 0).astype(np.float32)


# Compiled, as a search calls these for every position, and NumPy would walk all rays of all cells to their ends.
@njit(cache=True, error_model="numpy")
def _closed(marks: np.ndarray, ray: np.ndarray) -> int:
    """How many opposing discs a disc before this ray would flip; the ray ends in a number that is no cell."""
    far = 0
    while ray[far] < len(marks) and marks[ray[far]] == -1:
        far += 1
    return far if ray[far] < len(marks) and marks[ray[far]] == 1 else 0


@njit(cache=True, error_model="numpy")
def _closing(marks: np.ndarray, rays: np.ndarray) -> np.ndarray:
    """Free cells in which a disc flips others, bool [N, cells]."""
    able = np.zeros(marks.shape, np.bool_)
    for row in range(marks.shape[0]):
        for cell in range(marks.shape[1]):
            for way in range(rays.shape[1] if marks[row, cell] == 0 else 0):
                if _closed(marks[row], rays[cell, way]):
                    able[row, cell] = True
                    break
    return able


@njit(cache=True, error_model="numpy")
def _turned(marks: np.ndarray, moves: np.ndarray, rays: np.ndarray) -> np.ndarray:
    """Marks int8 [N, cells] after these moves; the pass places nothing."""
    after = marks.copy()
    for row in range(marks.shape[0]):
        cell = moves[row]
        if cell == marks.shape[1]:
            continue
        after[row, cell] = 1
        for way in range(rays.shape[1]):
            for far in range(_closed(marks[row], rays[cell, way])):
                after[row, rays[cell, way, far]] = 1
    return after
