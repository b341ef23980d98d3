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
from devmind.algorithms.tree_search import Tree
from devmind.worlds.boards import Board
from stages.reasoning import parts
from stages.reasoning.explain.lookahead import looked_at
from stages.reasoning.games import SIMULATIONS, TICTACTOE, Judge, search
from stages.reasoning.solver import solve

QUESTION = "what now?"
GAME = TICTACTOE
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
"""Cells, row by row."""
BYTES = 40
"""Of a sentence, at most."""
HOPE, EXPECT, FEAR = "hope for", "expect", "fear"
SURE = 0.3
"""From what value on something is hoped for."""
_SENTENCE = re.compile(rf" ?i ({HOPE}|{EXPECT}|{FEAR}) ((?:{'|'.join(NUMBERS)})(?: (?:{'|'.join(NUMBERS)}))*)\.")


@dataclass(frozen=True)
class Moved:
    """Moves that ended no game and behind which a search has looked at an answer.

    Attributes:
        after: int8 [N, 9], the marks as they are then, 1 those of the other one, whose turn it is.
        line: int64 [N, 2], the answer that was searched most and one's own move behind it (`line_of`); -1 where the
            search knows no more.
        value: float [N], of the move to who made it, -1 to 1.
        lookahead: float32 [N, 3, 9, 9], what the search has looked at behind it (`looked_at`).
        tree: of all searches; row, node: int64 [N], where in them the moves have led.
    """

    after: np.ndarray
    line: np.ndarray
    value: np.ndarray
    lookahead: np.ndarray
    tree: Tree[Board]
    row: np.ndarray
    node: np.ndarray

    def take(self, index: np.ndarray) -> Moved:
        """Some of them."""
        after, line, value, lookahead = (each[index] for each in (self.after, self.line, self.value, self.lookahead))
        return Moved(after, line, value, lookahead, self.tree, self.row[index], self.node[index])

    def has_looked_at(self, at: int, line: Sequence[int]) -> bool:
        """Whether the search of one of them has met every move of a line behind its own; so all of them are legal."""
        row, node = int(self.row[at]), int(self.node[at])
        for move in line:
            node = int(self.tree.child[row, node, move])
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
    found = search(Judge(agent, GAME), GAME.rules.of(marks), SIMULATIONS)
    rows = np.arange(len(marks))
    return behind(found.tree, rows, found.tree.child[rows, 0, found.action], found.value)


def weighed(agent: Agent, marks: np.ndarray) -> Moved:
    """Every move that the agent's searches from positions int8 [N, 9] looked at, not only those it makes, and the
    positions themselves, as moves of the other one; less those where nothing follows."""
    tree = search(Judge(agent, GAME), GAME.rules.of(marks), SIMULATIONS).tree
    row, move = np.nonzero(tree.child[:, 0] >= 0)
    every = np.arange(len(marks))
    return behind(
        tree,
        np.concatenate((every, row)),
        np.concatenate((np.zeros_like(every), tree.child[row, 0, move])),
        np.concatenate((-tree.value[:, 0], tree.child_q[row, 0, move])),
    )


def behind(tree: Tree[Board], row: np.ndarray, node: np.ndarray, value: np.ndarray) -> Moved:
    """Those nodes int64 [N] of trees `row` int64 [N] behind which an answer was looked at, as moves worth `value`."""
    seen = looked_at(tree, row, node)
    some = np.flatnonzero(seen[:, 0].any((-1, -2)))
    row, node, seen = row[some], node[some], seen[some]
    after = tree.states.take(row * tree.child.shape[1] + node).marks
    return Moved(after, line_of(seen), value[some], seen, tree, row, node)


def line_of(lookahead: np.ndarray) -> np.ndarray:
    """The answers that were searched most, and the moves behind them, int64 [N, 2] of [N, 3, 9, 9]; -1 where no
    more was. Of those searched alike it is the one that is worth most, of these the first cell."""
    looked, share, worth = lookahead.swapaxes(0, 1)
    order = np.where(looked > 0, share + 1e-3 * worth, -np.inf)
    rows, diagonal = np.arange(len(order)), np.arange(order.shape[-1])
    answers = order[:, diagonal, diagonal]
    order[:, diagonal, diagonal] = -np.inf
    first = answers.argmax(-1)
    behind = order[rows, first]
    found = [(first, answers.max(-1)), (behind.argmax(-1), behind.max(-1))]
    return np.stack([np.where(np.isfinite(most), move, -1) for move, most in found], -1)


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


def asked(marks: np.ndarray, lookahead: np.ndarray, pages: list[str]) -> Batch:
    """Positions int8 [N, 9], what was looked at behind them [N, 3, 9, 9] and a page with each, as one Moment a row."""
    seen = GAME.rules.observe(GAME.rules.of(marks))
    return collate_tick({**seen, parts.LOOKAHEAD: lookahead, parts.TEXT: pages}, np.ones(len(marks), bool))


def said_of(agent: Agent, marks: np.ndarray, lookahead: np.ndarray) -> list[str]:
    """What the agent writes of each position int8 [N, 9] and of what it has looked at there [N, 3, 9, 9]."""
    return answered(agent, asked(marks, lookahead, [QUESTION] * len(marks)), BYTES, parts.TEXT)[0]
