"""Minimax to a fixed depth on open lines: what a search knows that has learned nothing; a floor of exams."""

from __future__ import annotations

import numpy as np

from devmind.worlds.boards import Board, MnkRules

TOGETHER = 32
"""Positions that are looked ahead from at once: at depth 5 of seven moves each has 16,807 leaves."""


def minimax(rules: MnkRules, board: Board, depth: int) -> np.ndarray:
    """What each move is worth, `depth` moves looked ahead, float [N, choices]: -inf where it is not legal.

    A game that is over is worth 1, 0 or -1; a leaf what `open_lines` says.
    """
    found = [_values(rules, board.take(slice(at, at + TOGETHER)), depth) for at in range(0, len(board), TOGETHER)]
    return np.concatenate(found)


def open_lines(rules: MnkRules, marks: np.ndarray) -> np.ndarray:
    """Lines that only one player has marks in, float [N] in -1..1 to the player to move; each mark more, ten-fold."""
    in_line = np.zeros((rules.cells, len(rules.lines)), np.float32)
    np.put_along_axis(in_line, rules.lines.T, 1, 0)
    own, others = ((marks == who).astype(np.float32) @ in_line for who in (1, -1))
    worth = np.where(others == 0, 10.0**own, 0) - np.where(own == 0, 10.0**others, 0)
    return np.asarray(np.tanh(worth.sum(-1) / 10.0**rules.k))


def _values(rules: MnkRules, board: Board, depth: int) -> np.ndarray:
    legal = rules.legal(board)["place"]
    rows, moves = np.nonzero(legal)
    reached = rules.step(board.take(rows), {"place": moves})
    outcome = rules.outcome(reached)
    going = np.flatnonzero(~outcome.terminal)
    value = outcome.reward.astype(float)
    if len(going):
        further = reached.take(going)
        value[going] = -(_values(rules, further, depth - 1).max(-1) if depth > 1 else open_lines(rules, further.marks))
    q = np.full(legal.shape, -np.inf)
    q[rows, moves] = value
    return q
