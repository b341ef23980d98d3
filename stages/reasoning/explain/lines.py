"""Lines of play: what a search expects after its own move, as a sentence, and sentences compared with searches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate_tick
from devmind.agent.writing import answer_questions
from devmind.algorithms.tree_search import Tree
from devmind.worlds.boards import Board
from stages.reasoning import parts
from stages.reasoning.explain.lookahead import looked_at
from stages.reasoning.games import SIMULATIONS, TICTACTOE, Judge, search
from stages.reasoning.solver import solve

QUESTION = "what now?"
GAME = TICTACTOE
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
"""Names of the cells, row by row."""
BYTES = 40
"""Bytes of a sentence, at most."""
HOPE, EXPECT, FEAR = "hope for", "expect", "fear"
SURE = 0.3
"""Values above SURE are hoped for, values below -SURE are feared."""
_SENTENCE = re.compile(rf" ?i ({HOPE}|{EXPECT}|{FEAR}) ((?:{'|'.join(NUMBERS)})(?: (?:{'|'.join(NUMBERS)}))*)\.")


@dataclass(frozen=True)
class Moved:
    """Moves after which the game goes on and a search has looked at an answer.

    Attributes:
        after: int8 [N, 9], the marks after the move; 1 are those of the opponent, who is to move.
        line: int64 [N, 2], the most visited answer and the most visited own move after it (`line_of`); -1 if the search
            knows none.
        value: float [N], of the move to the player who made it, -1 to 1.
        lookahead: float32 [N, 3, 9, 9], the search tree behind the move (`looked_at`).
        tree: of all searches.
        row, node: int64 [N], the nodes of `tree` that the moves lead to.
    """

    after: np.ndarray
    line: np.ndarray
    value: np.ndarray
    lookahead: np.ndarray
    tree: Tree[Board]
    row: np.ndarray
    node: np.ndarray

    def take(self, index: np.ndarray) -> Moved:
        """The moves `index`."""
        after, line, value, lookahead = (each[index] for each in (self.after, self.line, self.value, self.lookahead))
        return Moved(after, line, value, lookahead, self.tree, self.row[index], self.node[index])

    def has_looked_at(self, at: int, line: Sequence[int]) -> bool:
        """Whether the search behind move `at` has met every move of a line; these are legal then."""
        row, node = int(self.row[at]), int(self.node[at])
        for move in line:
            node = int(self.tree.nodes.child[row, node, move])
            if node < 0:
                return False
        return bool(line)


@lru_cache(maxsize=1)
def positions() -> np.ndarray:
    """Marks int8 [N, 9] of all unfinished positions, one image of each."""
    game = solve(GAME.rules)
    marks = game.board.marks[~game.ended]
    keys, symmetry = GAME.canonical(marks)
    _, first = np.unique(keys, return_index=True)
    return np.take_along_axis(marks, GAME.symmetries[0][symmetry], 1)[first]


def searched_moves(agent: Agent, marks: np.ndarray) -> Moved:
    """The agent's moves by search in positions int8 [N, 9]; moves without a searched answer are left out."""
    searched = search(Judge(agent, GAME), GAME.rules.of(marks), SIMULATIONS)
    rows = np.arange(len(marks))
    return behind(searched.tree, rows, searched.tree.nodes.child[rows, 0, searched.action], searched.value)


def weighed_moves(agent: Agent, marks: np.ndarray) -> Moved:
    """Every move that the agent's searches from positions int8 [N, 9] looked at, not only the best ones.

    The positions themselves come first, as moves of the opponent. Moves without a searched answer are left out.
    """
    tree = search(Judge(agent, GAME), GAME.rules.of(marks), SIMULATIONS).tree
    row, move = np.nonzero(tree.nodes.child[:, 0] >= 0)
    roots = np.arange(len(marks))
    return behind(
        tree,
        np.concatenate((roots, row)),
        np.concatenate((np.zeros_like(roots), tree.nodes.child[row, 0, move])),
        np.concatenate((-tree.nodes.value[:, 0], tree.nodes.child_q[row, 0, move])),
    )


def behind(tree: Tree[Board], row: np.ndarray, node: np.ndarray, value: np.ndarray) -> Moved:
    """The nodes int64 [N] of trees `row` int64 [N] that have a searched answer, as moves of worth `value`."""
    looked = looked_at(tree, row, node)
    rows = np.flatnonzero(looked[:, 0].any((-1, -2)))
    row, node, looked = row[rows], node[rows], looked[rows]
    after = tree.states.take(row * tree.nodes.child.shape[1] + node).marks
    return Moved(after, line_of(looked), value[rows], looked, tree, row, node)


def line_of(lookahead: np.ndarray) -> np.ndarray:
    """The most visited answers and the most visited moves behind them, int64 [N, 2], from [N, 3, 9, 9]; -1 if there is
    none.

    Among equal visits the greatest value decides, then the first cell.
    """
    looked, share, worth = lookahead.swapaxes(0, 1)
    order = np.where(looked > 0, share + 1e-3 * worth, -np.inf)
    rows, diagonal = np.arange(len(order)), np.arange(order.shape[-1])
    answers = order[:, diagonal, diagonal]
    order[:, diagonal, diagonal] = -np.inf
    first = answers.argmax(-1)
    behind = order[rows, first]
    moves = [(first, answers.max(-1)), (behind.argmax(-1), behind.max(-1))]
    return np.stack([np.where(np.isfinite(most), move, -1) for move, most in moves], -1)


def due(value: float) -> str:
    """The verb for a position of this value, -1 to 1."""
    return HOPE if value > SURE else FEAR if value < -SURE else EXPECT


def sentence(line: Sequence[int], value: float) -> str:
    """The sentence for a line in a position of this value."""
    return f" i {due(value)} {' '.join(NUMBERS[move] for move in line if move >= 0)}."


def parse_sentence(text: str) -> tuple[str, list[int]] | None:
    """The verb of a sentence and the moves of its line; None if the text is no such sentence."""
    matched = _SENTENCE.fullmatch(text)
    return (matched[1], [NUMBERS.index(word) for word in matched[2].split()]) if matched else None


def question_batch(marks: np.ndarray, lookahead: np.ndarray, pages: list[str]) -> Batch:
    """Positions int8 [N, 9], search trees [N, 3, 9, 9] and a page with each, as one Moment a row."""
    senses = GAME.rules.observe(GAME.rules.of(marks))
    return collate_tick({**senses, parts.LOOKAHEAD: lookahead, parts.TEXT: pages}, np.ones(len(marks), bool))


def said_of(agent: Agent, marks: np.ndarray, lookahead: np.ndarray) -> list[str]:
    """The agent's sentences about positions int8 [N, 9] and search trees [N, 3, 9, 9]."""
    return answer_questions(agent, question_batch(marks, lookahead, [QUESTION] * len(marks)), BYTES, parts.TEXT)[0]
