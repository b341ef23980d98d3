"""Games of two players who place marks on a board, as Rules; among them those of k in a row.

Tic-tac-toe is 3 x 3 with 3 in a row; Connect-4 is 6 x 7 with 4 in a row, where marks fall to the lowest free cell.
Othello is in `othello.py`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError
from devmind.worlds.rules import Outcome, Struct

NAMES: Mapping[str, str] = {"tictactoe": "3x3x3", "connect4": "6x7x4-falling"}
"""Levels with names of their own."""


@dataclass
class Board(Struct):
    """marks int8 [N, cells]: 1 of the player to move, -1 of the other; player int64 [N], whose turn it is; over bool
    [N]: the game had ended before the last move."""

    marks: np.ndarray
    player: np.ndarray
    over: np.ndarray


class BoardRules(ABC):
    """Base of such games: the player to move sees each position, and a win earns 1.

    The sense `position` is int8 [2, rows, columns], own marks and the opponent's; the effector is `place`.

    Attributes:
        choices: the number of moves.
        falling: a move is a column; else move i is cell i, and moves behind the last cell are no cell.
    """

    name: ClassVar[str]
    falling = False

    def __init__(self, level: str, rows: int, columns: int, choices: int, horizon: int) -> None:
        self.level, self.rows, self.columns = level, rows, columns
        self.cells, self.choices = rows * columns, choices
        self.horizon = horizon
        self.observation_space = spaces.Dict({"position": spaces.Box(0, 1, (2, rows, columns), np.int8)})
        self.action_space = spaces.Dict({"place": spaces.Discrete(choices)})

    @abstractmethod
    def free(self, marks: np.ndarray) -> np.ndarray:
        """Legal moves, bool [N, choices], in positions that have not ended."""

    @abstractmethod
    def placed(self, marks: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Marks int8 [N, cells] after legal moves int64 [N], still as seen by the player who moved."""

    @abstractmethod
    def finished(self, marks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whether the game is over, bool [N], and its result for the player who moved last, float32 [N]: 1, 0 or -1; 0
        if it is not over."""

    def ended(self, marks: np.ndarray) -> np.ndarray:
        """Whether the game is over, bool [N]."""
        return self.finished(marks)[0]

    def initial(self, seeds: np.ndarray) -> Board:
        """Empty boards; there is no chance."""
        return self.of(np.zeros((len(seeds), self.cells), np.int8))

    def of(self, marks: np.ndarray) -> Board:
        """Positions with these marks, int8 [N, cells], 1 of the player to move; player 0 began."""
        moves = np.count_nonzero(marks, -1)
        return Board(np.asarray(marks, np.int8).copy(), (moves % 2).astype(np.int64), np.zeros(len(marks), bool))

    def legal(self, state: Board) -> Mapping[str, np.ndarray]:
        """Legal moves; all moves once the game has ended."""
        return {"place": self.free(state.marks) | self.ended(state.marks)[:, None]}

    def step(self, state: Board, actions: Mapping[str, np.ndarray]) -> Board:
        """A move of the player to move, then the other's turn; a game that has ended does not change."""
        over, marks = self.ended(state.marks), state.marks.copy()
        if "place" not in actions:
            return Board(marks, state.player.copy(), over)
        moves, going = np.asarray(actions["place"]), np.flatnonzero(~over)
        known = ((moves >= 0) & (moves < self.choices)).all()
        if not known or not self.free(marks[going])[np.arange(len(going)), moves[going]].all():
            raise WorldError(
                f"A move of '{self.name}' is one of 0 to {self.choices - 1} that `legal` allows; this is none here."
            )
        marks[going] = -self.placed(marks[going], moves[going])
        return Board(marks, np.where(over, state.player, 1 - state.player), over)

    def outcome(self, state: Board) -> Outcome:
        """The result for the player who moved last; the discount of the other's turn is -1."""
        ended, result = self.finished(state.marks)
        reward = np.where(state.over, 0, result).astype(np.float32)
        discount = np.where(ended, 0, -1).astype(np.float32)
        return Outcome(reward, ended, np.zeros_like(ended), state.player.copy(), discount)

    def observe(self, state: Board) -> dict[str, Any]:
        """int8 [N, 2, rows, columns]."""
        planes = np.stack([state.marks == 1, state.marks == -1], 1).astype(np.int8)
        return {"position": planes.reshape(-1, 2, self.rows, self.columns)}

    def truth(self, state: Board) -> dict[str, np.ndarray]:
        """Nothing: both players see everything."""
        return {}


class MnkRules(BoardRules):
    """K in a row wins.

    The level is "rows x columns x k", such as "3x3x3". With "-falling" a choice is a column, and the mark falls to its
    lowest free cell. "tictactoe" and "connect4" are levels too.

    Raises:
        WorldError: the level is none of these, or a move is not legal.
    """

    name = "mnk"

    def __init__(self, level: str = "tictactoe") -> None:
        found = re.fullmatch(r"(\d+)x(\d+)x(\d+)(-falling)?", NAMES.get(level, level))
        rows, columns, k = (int(number) for number in found.groups()[:3]) if found else (0, 0, 0)
        if not found or not (2 <= k <= max(rows, columns) and max(rows, columns) <= 32 and min(rows, columns) > 0):
            raise WorldError(
                f"The level of the world 'mnk' is {', '.join(NAMES)} or rows x columns x k, such as '5x5x4' or "
                f"'4x5x4-falling', with up to 32 rows and columns and a k that fits; got '{level}'."
            )
        self.k, self.falling = k, bool(found[4])
        super().__init__(level, rows, columns, columns if self.falling else rows * columns, rows * columns)
        self.lines = lines(rows, columns, k)

    def free(self, marks: np.ndarray) -> np.ndarray:
        """Free cells, or columns that are not full: row 0 is the top."""
        return np.asarray(marks[:, : self.choices] == 0)

    def placed(self, marks: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """A mark in the cell, or in the lowest free one of the column."""
        rows = np.arange(len(marks))
        if self.falling:
            stacks = marks.reshape(-1, self.rows, self.columns)[rows, :, moves]
            moves = (np.count_nonzero(stacks == 0, -1) - 1) * self.columns + moves
        after = marks.copy()
        after[rows, moves] = 1
        return after

    def won(self, marks: np.ndarray) -> np.ndarray:
        """Whether the player who moved last has k in a row, bool [N]."""
        return np.asarray((marks[:, self.lines] == -1).all(-1).any(-1))

    def finished(self, marks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Over if the last player has a line, and wins, or if no cell is free."""
        won = self.won(marks)
        return won | (marks != 0).all(-1), won.astype(np.float32)


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
