"""Lines of play: what a search expects behind its own move, said in a sentence, and sentences held against searches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate_tick
from devmind.agent.writing import answered
from devmind.algorithms.tree_search import Found, Tree
from devmind.worlds.boards import Board
from stages.reasoning import parts
from stages.reasoning.games import SIMULATIONS, TICTACTOE, Judge, search
from stages.reasoning.solver import solve

QUESTION, FREE, ENDS = "what now?", "which are free?", "what ends it?"
"""What exams ask, and what lessons ask besides."""
GAME = TICTACTOE
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
"""Cells, row by row."""
SIDE = 3
_CELLS = np.arange(SIDE**2).reshape(SIDE, SIDE)
ROWS = np.concatenate((_CELLS, _CELLS.T, [_CELLS.diagonal(), np.fliplr(_CELLS).diagonal()]))
"""Cells of each row, column and diagonal, [8, 3]."""
MOVES = 2
"""Of a line, at most: the answer to one's move, and one's own behind it."""
BYTES = 40
"""Of a sentence, at most."""
HOPE, EXPECT, FEAR = "hope for", "expect", "fear"
SURE = 0.3
"""From what value on something is hoped for."""
_SENTENCE = re.compile(rf" ?i ({HOPE}|{EXPECT}|{FEAR}) ((?:{'|'.join(NUMBERS)})(?: (?:{'|'.join(NUMBERS)}))*)\.")


@dataclass(frozen=True)
class Moved:
    """Own moves of an agent that ended no game and whose search has looked at an answer.

    Attributes:
        after: int8 [N, 9], the marks as they are then, 1 those of the other one, whose turn it is.
        line: int64 [N, MOVES], what was searched most behind it; -1 where the search knows no more.
        value: float [N], of the move to the agent, -1 to 1.
        found: the searches, of all positions; row: int64 [N], which of them each is of.
    """

    after: np.ndarray
    line: np.ndarray
    value: np.ndarray
    found: Found[Board]
    row: np.ndarray

    def take(self, index: np.ndarray) -> Moved:
        """Some of them."""
        return Moved(self.after[index], self.line[index], self.value[index], self.found, self.row[index])

    def has_looked_at(self, at: int, line: Sequence[int]) -> bool:
        """Whether the search of one of them has met every move of a line behind its own; so all of them are legal."""
        tree, row = self.found.tree, int(self.row[at])
        node = int(tree.child[row, 0, self.found.action[row]])
        for move in line:
            node = int(tree.child[row, node, move])
            if node < 0:
                return False
        return bool(line)


@lru_cache(maxsize=1)
def positions() -> np.ndarray:
    """Marks int8 [N, 9] of all positions that go on, one of all its images."""
    game = solve(GAME.rules)
    marks = game.board.marks[~game.ended]
    keys, which = GAME.canonical(marks)
    _, first = np.unique(keys, return_index=True)
    return np.take_along_axis(marks, GAME.symmetries[0][which], 1)[first]


def moved(agent: Agent, marks: np.ndarray) -> Moved:
    """What the agent does in positions int8 [N, 9], by search, and expects to follow; less those where nothing does."""
    board = GAME.rules.of(marks)
    found = search(Judge(agent, GAME), board, SIMULATIONS)
    reached = GAME.rules.step(board, {"place": found.action})
    rows = np.arange(len(marks))
    line = _behind(found.tree, found.tree.child[rows, 0, found.action])
    goes_on = ~GAME.rules.outcome(reached).terminal & (line[:, 0] >= 0)
    return Moved(reached.marks[goes_on], line[goes_on], found.value[goes_on], found, np.flatnonzero(goes_on))


def expected(agent: Agent, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What follows positions int8 [N, 9] by searches of the agent that begin there: lines int64 [N, MOVES], and values
    float [N] to who has just moved."""
    found = search(Judge(agent, GAME), GAME.rules.of(after), SIMULATIONS)
    return _behind(found.tree, np.zeros(len(after), np.int64), found.action), -found.value


def _behind(tree: Tree[Board], node: np.ndarray, first: np.ndarray | None = None) -> np.ndarray:
    """The moves that were searched most behind nodes int64 [N], or behind their moves `first`; -1 where no more was."""
    rows, line = np.arange(len(node)), np.full((len(node), MOVES), -1)
    for at in range(MOVES):
        met = (tree.child[rows, node] >= 0) & (node >= 0)[:, None]
        worth = np.where(met, tree.child_visits[rows, node] + 1e-3 * tree.child_q[rows, node], -np.inf)
        move = worth.argmax(-1) if first is None or at else first
        on = met[rows, move]
        line[:, at] = np.where(on, move, -1)
        node = np.where(on, tree.child[rows, node, move], -1)
    return line


def due(value: float) -> str:
    """The verb of who values a position so, -1 to 1."""
    return HOPE if value > SURE else FEAR if value < -SURE else EXPECT


def sentence(line: Sequence[int], value: float) -> str:
    """How a line is said by who values the position so."""
    return f" i {due(value)} {' '.join(NUMBERS[move] for move in line if move >= 0)}."


def understood(text: str) -> tuple[str, list[int]] | None:
    """The verb of a sentence and the moves of its line; None where it is none."""
    said = _SENTENCE.fullmatch(text)
    return (said[1], [NUMBERS.index(word) for word in said[2].split()]) if said else None


def named(cells: Sequence[int]) -> str:
    """Cells in words, "none" where there are none."""
    return " ".join(NUMBERS[cell] for cell in cells) or "none"


def free_told(marks: np.ndarray) -> str:
    """Which cells of a position int8 [9] are free, in a sentence."""
    return f" {named(np.flatnonzero(marks == 0).tolist())}."


def ends_told(marks: np.ndarray) -> str:
    """Which cells would end the game for who is to move, and which for the other one, in a sentence."""
    mine, other = (_winning(marks * side) for side in (1, -1))
    return f" {named(mine)}, {named(other)}."


def _winning(marks: np.ndarray) -> list[int]:
    """The free cells that would complete a row of 1."""
    free = np.flatnonzero(marks == 0)
    after = np.repeat(marks[None], len(free), 0)
    after[np.arange(len(free)), free] = 1
    rows = after[:, ROWS].sum(-1) == SIDE
    return [int(cell) for cell in free[rows.any(-1)]]


def asked(marks: np.ndarray, pages: list[str]) -> Batch:
    """Positions int8 [N, 9] and a page with each, as one Moment a row."""
    seen = GAME.rules.observe(GAME.rules.of(marks))
    return collate_tick({**seen, parts.TEXT: pages}, np.ones(len(marks), bool))


def said_of(agent: Agent, marks: np.ndarray) -> list[str]:
    """What the agent writes of each position int8 [N, 9]."""
    return answered(agent, asked(marks, [QUESTION] * len(marks)), BYTES, parts.TEXT)[0]
