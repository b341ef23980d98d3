"""Looking ahead in games, for exams only: a small game solved exactly, the ends of a longer one, or a fixed depth.

Minimax to a fixed depth on open lines is a search without learning: a baseline.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from devmind.worlds.boards import Board, BoardRules, MnkRules

TOGETHER = 32
"""Positions that minimax searches at once: at depth 5 with seven moves each has 16,807 leaves."""


@dataclass(frozen=True)
class SolvedGame:
    """All n reachable positions; the starts come first, positions after more moves later.

    Attributes:
        board: the positions, finished ones included.
        ply: int64 [n], moves made since the start.
        ended: bool [n].
        child: int64 [n, choices], the position after a move; -1 for an illegal one.
        q: float [n, choices], the value of a move to the player who makes it, with perfect play on both sides: 1, 0 or
            -1; -inf for an illegal one.
        value: float [n], to the player to move; in a finished game to the player who would be next.
    """

    rules: BoardRules
    board: Board
    ply: np.ndarray
    ended: np.ndarray
    child: np.ndarray
    q: np.ndarray
    value: np.ndarray

    def __len__(self) -> int:
        return len(self.ply)

    @property
    def best(self) -> np.ndarray:
        """Moves that lose no value, bool [n, choices]; none in finished games."""
        return np.asarray((self.q == self.value[:, None]) & ~self.ended[:, None])

    def endings(self, moves: np.ndarray | None = None, side: int = 0) -> np.ndarray:
        """Every game from the first position: `side` (0: the first player) plays `moves` int64 [n], the other side
        anything.

        Returns:
            float [games]: 1 won, 0 drawn, -1 lost for `side`; without `moves` both sides play anything.
        """
        ways = np.zeros(len(self), np.int64)
        ways[0] = 1
        for ply in range(self.rules.horizon):
            here = np.flatnonzero((self.ply == ply) & ~self.ended & (ways > 0))
            if moves is not None and ply % 2 == side:
                rows, to = here, self.child[here, moves[here]]
            else:
                at, choice = np.nonzero(self.child[here] >= 0)
                rows, to = here[at], self.child[here[at], choice]
            np.add.at(ways, to, ways[rows])
        last = np.flatnonzero(self.ended & (ways > 0))
        to_side = np.where(self.ply[last] % 2 == side, self.value[last], -self.value[last])
        return np.repeat(to_side, ways[last])


def solve(rules: BoardRules, starts: Board | None = None) -> SolvedGame:
    """Find every reachable position ply by ply, then the values backwards (Zermelo 1913); for up to some 10^6
    positions.

    Args:
        starts: different positions to start from; by default the game's first.
    """
    levels, children, n_states = [(rules.initial(np.zeros(1)) if starts is None else starts).marks], [], 0
    while True:
        board = rules.of(levels[-1])
        ended, legal = rules.outcome(board).terminal, rules.legal(board)["place"]
        child = np.full(legal.shape, -1)
        rows, choices = np.nonzero(legal & ~ended[:, None])
        n_states += len(board)
        children.append(child)
        if not len(rows):
            break
        reached = rules.step(board.take(rows), {"place": choices}).marks
        further, inverse = np.unique(reached, axis=0, return_inverse=True)
        child[rows, choices] = n_states + inverse.ravel()
        levels.append(further)
    sizes = [len(level) for level in levels]
    board, child = rules.of(np.concatenate(levels)), np.concatenate(children)
    ply = np.repeat(np.arange(len(sizes)), sizes)
    ended = rules.outcome(board).terminal
    value, q = 0.0 - rules.finished(board.marks)[1], np.full(child.shape, -np.inf)
    for at in range(len(sizes) - 1, -1, -1):
        here = np.flatnonzero((ply == at) & ~ended)
        q[here] = np.where(child[here] >= 0, 0.0 - value[child[here]], -np.inf)
        value[here] = q[here].max(-1, initial=-np.inf)
    return SolvedGame(rules, board, ply, ended, child, q, value)


def minimax(rules: MnkRules, board: Board, depth: int) -> np.ndarray:
    """The value of each move by minimax of `depth` moves, float [N, choices]: -inf for an illegal one.

    A finished game is worth 1, 0 or -1; a leaf has the value of `open_lines`.
    """
    values = [_values(rules, board.take(slice(at, at + TOGETHER)), depth) for at in range(0, len(board), TOGETHER)]
    return np.concatenate(values)


def open_lines(rules: MnkRules, marks: np.ndarray) -> np.ndarray:
    """Score of the lines with marks of only one player, float [N] in -1..1 to the player to move; a further mark counts
    tenfold.
    """
    in_line = np.zeros((rules.cells, len(rules.lines)), np.float32)
    np.put_along_axis(in_line, rules.lines.T, 1, 0)
    own, others = ((marks == player).astype(np.float32) @ in_line for player in (1, -1))
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
