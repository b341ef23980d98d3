"""Games of k in a row as Rules: two players place marks on a board, each seen by the player whose turn it is.

Tic-tac-toe is 3 x 3 with 3 in a row; Connect-4 is 6 x 7 with 4 in a row, where marks fall to the lowest free cell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError
from devmind.worlds.rules import Outcome, Struct

NAMES: Mapping[str, str] = {"tictactoe": "3x3x3", "connect4": "6x7x4-falling"}
"""Levels that have a name of their own."""


@dataclass
class Board(Struct):
    """marks int8 [N, cells]: 1 of the player to move, -1 of the other; player int64 [N], whose turn it is; over bool
    [N]: the game had ended before the last move."""

    marks: np.ndarray
    player: np.ndarray
    over: np.ndarray


class MnkRules:
    """The sense `board` int8 [2, rows, columns] (own marks, the other's), the effector `place`; a line earns 1.

    The level is "rows x columns x k", such as "3x3x3": who has k marks in a row wins. With "-falling" a choice is a
    column, and the mark falls to its lowest free cell. "tictactoe" and "connect4" are levels too.

    Raises:
        WorldError: the level is none of these; or a move is made that is not legal.
    """

    name = "mnk"

    def __init__(self, level: str = "tictactoe") -> None:
        self.level = level
        found = re.fullmatch(r"(\d+)x(\d+)x(\d+)(-falling)?", NAMES.get(level, level))
        rows, columns, self.k = (int(number) for number in found.groups()[:3]) if found else (0, 0, 0)
        if not found or not (2 <= self.k <= max(rows, columns) and max(rows, columns) <= 32 and min(rows, columns) > 0):
            raise WorldError(
                f"The level of the world 'mnk' is {', '.join(NAMES)} or rows x columns x k, such as '5x5x4' or "
                f"'4x5x4-falling', with up to 32 rows and columns and a k that fits; got '{level}'."
            )
        self.rows, self.columns, self.falling = rows, columns, bool(found[4])
        self.cells = self.horizon = rows * columns
        self.choices = columns if self.falling else self.cells
        self.lines = lines(rows, columns, self.k)
        self.observation_space = spaces.Dict({"board": spaces.Box(0, 1, (2, rows, columns), np.int8)})
        self.action_space = spaces.Dict({"place": spaces.Discrete(self.choices)})

    def initial(self, seeds: np.ndarray) -> Board:
        """Empty boards: nothing is left to chance."""
        return self.of(np.zeros((len(seeds), self.cells), np.int8))

    def of(self, marks: np.ndarray) -> Board:
        """Positions with these marks, int8 [N, cells], 1 of the player to move; player 0 is who began."""
        moves = np.count_nonzero(marks, -1)
        return Board(np.asarray(marks, np.int8).copy(), (moves % 2).astype(np.int64), np.zeros(len(marks), bool))

    def legal(self, state: Board) -> Mapping[str, np.ndarray]:
        """Free cells, or columns that are not full; anything once the game has ended."""
        free = state.marks[:, : self.choices] == 0  # row 0 is the top, so a column is full when its first cell is
        return {"place": free | self._ended(state.marks)[:, None]}

    def step(self, state: Board, actions: Mapping[str, np.ndarray]) -> Board:
        """A mark of the player to move, and the other's turn; a game that has ended stays as it is."""
        over, marks, rows = self._ended(state.marks), state.marks.copy(), np.arange(len(state))
        if "place" not in actions:
            return Board(marks, state.player.copy(), over)
        cells = np.asarray(actions["place"])
        if not ((cells >= 0) & (cells < self.choices)).all() or (~over & (marks[rows, cells] != 0)).any():
            what = "column is full" if self.falling else "cell is taken"
            raise WorldError(f"A move of 'mnk' is one of 0 to {self.choices - 1} that `legal` allows: a {what} here.")
        if self.falling:
            stacks = marks.reshape(-1, self.rows, self.columns)[rows, :, cells]
            cells = (np.count_nonzero(stacks == 0, -1) - 1) * self.columns + cells
        moved = ~over
        marks[rows[moved], cells[moved]] = 1
        marks[moved] *= -1
        return Board(marks, np.where(over, state.player, 1 - state.player), over)

    def outcome(self, state: Board) -> Outcome:
        """1 to who made a line; the other's turn counts -1."""
        won, ended = self.won(state.marks), self._ended(state.marks)
        reward = (won & ~state.over).astype(np.float32)
        discount = np.where(ended, 0, -1).astype(np.float32)
        return Outcome(reward, ended, np.zeros_like(ended), state.player.copy(), discount)

    def observe(self, state: Board) -> dict[str, Any]:
        """int8 [N, 2, rows, columns]."""
        planes = np.stack([state.marks == 1, state.marks == -1], 1).astype(np.int8)
        return {"board": planes.reshape(-1, 2, self.rows, self.columns)}

    def truth(self, state: Board) -> dict[str, np.ndarray]:
        """Nothing: both players see all there is."""
        return {}

    def won(self, marks: np.ndarray) -> np.ndarray:
        """Whether who moved last has k in a row, bool [N]."""
        return np.asarray((marks[:, self.lines] == -1).all(-1).any(-1))

    def _ended(self, marks: np.ndarray) -> np.ndarray:
        return self.won(marks) | (marks != 0).all(-1)


def lines(rows: int, columns: int, k: int) -> np.ndarray:
    """The cells of every line of k, int64 [lines, k]."""
    found = []
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        for row in range(rows):
            for column in range(columns):
                last_row, last = row + down * (k - 1), column + right * (k - 1)
                if last_row < rows and 0 <= last < columns:
                    found.append([(row + down * i) * columns + column + right * i for i in range(k)])
    return np.array(found)
