"""Search by rules alone: compiled UCT (Kocsis and Szepesvári 2006) that judges each leaf by one random game.

It is a baseline for searches with a network, and the counterpart of OpenSpiel's MCTS in benchmarks. It plays games of k
in a row on boards that fit into 64 bits: a column takes rows + 1 bits, so that no line runs over an edge.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from devmind.errors import ConfigError
from devmind.seeding import numpy_rng
from devmind.worlds.boards import Board, MnkRules

Array = np.ndarray
ZERO, ONE = np.uint64(0), np.uint64(1)
EXPLORE = 1.0
"""Exploration constant of UCT, for results in -1 to 1."""
MOST = 10_000_000
"""Simulations of a search, at most: each takes a node."""


def visits(rules: MnkRules, board: Board, simulations: int, seed: int, explore: float = EXPLORE) -> Array:
    """The visits of each move that `search_positions` finds, int64 [N, choices]; the most visited move is the best."""
    return search_positions(rules, board, simulations, seed, explore)[0]


def search_positions(
    rules: MnkRules, board: Board, simulations: int, seed: int, explore: float = EXPLORE
) -> tuple[Array, Array]:
    """Search each of N unfinished positions; the same seed gives the same answer.

    Returns:
        visits int64 [N, choices] of each move; and the mean result of the most visited one, float [N] in -1..1 to the
        player to move.

    Raises:
        ConfigError: the board is too large, or the number of simulations is less than one or too large.
    """
    height = rules.rows + 1
    if height * rules.columns > 64:
        raise ConfigError(
            f"A search by random games takes boards of up to 64 bits, (rows + 1) x columns; got '{rules.level}' with "
            f"{height * rules.columns}."
        )
    if not 1 <= simulations <= MOST:
        raise ConfigError(f"A search takes 1 to {MOST:,} simulations; got {simulations}.")
    own, others = (bits(rules, board.marks == player) for player in (1, -1))
    seeds = numpy_rng("random games", seed).integers(1, 2**63, len(own), dtype=np.uint64)
    cells = _cells(rules)
    n_visits, value = np.zeros((len(own), rules.choices), np.int64), np.zeros(len(own))
    for row in range(len(own)):
        n_visits[row], earned = _search(
            own[row], others[row], cells, rules.falling, height, rules.k, simulations, explore, seeds[row]
        )
        best = n_visits[row].argmax()
        value[row] = earned[best] / n_visits[row, best]
    return n_visits, value


def bits(rules: MnkRules, marked: Array) -> Array:
    """Cells bool [N, cells] as numbers uint64 [N]: bit column * (rows + 1) + height above the floor."""
    row, column = np.divmod(np.arange(rules.cells), rules.columns)
    places = (column * (rules.rows + 1) + rules.rows - 1 - row).astype(np.uint64)
    return np.asarray((marked.astype(np.uint64) << places).sum(-1, dtype=np.uint64))


def _cells(rules: MnkRules) -> Array:
    """The bits that each move may set, uint64 [choices]: a whole column in falling games, else one cell."""
    masks = bits(rules, np.eye(rules.cells, dtype=bool))
    if not rules.falling:
        return masks
    columns = masks.reshape(rules.rows, rules.columns)
    return np.asarray(np.bitwise_or.reduce(columns, 0))


@njit(cache=True, error_model="numpy")
def _won(marks: np.uint64, height: int, k: int) -> bool:
    """Whether there are k in a row: up, across, and along both diagonals."""
    if k == 4:  # the same without a loop, which took a good part of every game's time
        up, across = marks & (marks >> ONE), marks & (marks >> np.uint64(height))
        falls, rises = marks & (marks >> np.uint64(height - 1)), marks & (marks >> np.uint64(height + 1))
        up &= up >> np.uint64(2)
        across &= across >> np.uint64(2 * height)
        falls &= falls >> np.uint64(2 * (height - 1))
        rises &= rises >> np.uint64(2 * (height + 1))
        return (up | across | falls | rises) != ZERO
    for step in (1, height, height - 1, height + 1):
        runs, have = marks, 1
        while have < k:
            more = min(have, k - have)
            runs &= runs >> np.uint64(more * step)
            have += more
        if runs:
            return True
    return False


@njit(cache=True, error_model="numpy")
def _place(taken: np.uint64, cells: np.uint64, falling: bool) -> np.uint64:
    """The bit that a move sets: in falling games the lowest free one of its column; 0 if there is none."""
    free = cells & ~taken
    return free & (~free + ONE) if falling else free


@njit(cache=True, error_model="numpy")
def _game(
    own: np.uint64,
    others: np.uint64,
    cells: Array,
    board: np.uint64,
    falling: bool,
    height: int,
    k: int,
    draw: Array,
) -> float:
    """Play a random game to its end: 1, 0 or -1 to the first player to move. `draw` is the generator's state."""
    sign, x, choices = 1.0, draw[0], np.uint64(len(cells))
    while True:
        taken = own | others
        if taken == board:
            break
        bit = np.uint64(0)
        while not bit:  # moves that cannot be made are drawn again, so those that can be are all as likely
            # xorshift64* (Vigna 2016); the high half times the choices is even enough for so few.
            x ^= x >> np.uint64(12)
            x ^= x << np.uint64(25)
            x ^= x >> np.uint64(27)
            high = (x * np.uint64(2685821657736338717)) >> np.uint64(32)
            bit = _place(taken, cells[(high * choices) >> np.uint64(32)], falling)
        own |= bit
        if _won(own, height, k):
            draw[0] = x
            return sign
        own, others, sign = others, own, -sign
    draw[0] = x
    return 0.0


@njit(cache=True, error_model="numpy", fastmath=True)
def _best(n_visits: Array, won: Array, count: float, explore: float) -> int:
    """The first untried move, else the move of the highest upper confidence bound; `n_visits` -1 is illegal."""
    best, chosen, log = np.float32(-1e30), 0, np.float32(np.log(count) * explore * explore)
    for a in range(len(n_visits)):
        if n_visits[a] == 0:
            return a
        if n_visits[a] > 0:
            share = np.float32(1) / n_visits[a]
            score = won[a] * share + np.sqrt(log * share)
            if score > best:
                best, chosen = score, a
    return chosen


@njit(cache=True, error_model="numpy")
def _search(
    own: np.uint64,
    others: np.uint64,
    cells: Array,
    falling: bool,
    height: int,
    k: int,
    simulations: int,
    explore: float,
    seed: np.uint64,
) -> tuple[Array, Array]:
    """Visits of the root's moves, int64 [A], and the sums of their results, float32 [A]."""
    actions, nodes, board = len(cells), simulations + 1, np.uint64(0)
    for a in range(actions):
        board |= cells[a]
    child, n_visits = np.zeros((nodes, actions), np.int32), np.zeros((nodes, actions), np.float32)
    won, count, ended = np.zeros((nodes, actions), np.float32), np.zeros(nodes, np.int32), np.zeros(nodes, np.int8)
    draw, way_nodes, way_moves = np.array([seed]), np.empty(65, np.int32), np.empty(65, np.int32)
    size = 1
    for a in range(actions):
        if not _place(own | others, cells[a], falling):
            n_visits[0, a] = -1
    for _ in range(simulations):
        mine, theirs, node, depth = own, others, 0, 0
        while True:
            move = _best(n_visits[node], won[node], max(count[node], 1), explore)
            way_nodes[depth], way_moves[depth] = node, move
            depth += 1
            mine |= _place(mine | theirs, cells[move], falling)
            below = child[node, move]
            if below and not ended[below]:
                mine, theirs, node = theirs, mine, below
                continue
            if below:
                result = 1.0 if ended[below] == 1 else 0.0
                break
            child[node, move] = size
            if _won(mine, height, k):
                ended[size], result = 1, 1.0
            elif mine | theirs == board:
                ended[size], result = 2, 0.0
            else:
                for a in range(actions):
                    if not _place(mine | theirs, cells[a], falling):
                        n_visits[size, a] = -1
                result = -_game(theirs, mine, cells, board, falling, height, k, draw)
            size += 1
            break
        for d in range(depth - 1, -1, -1):
            count[way_nodes[d]] += 1
            n_visits[way_nodes[d], way_moves[d]] += 1
            won[way_nodes[d], way_moves[d]] += result
            result = -result
    return np.maximum(n_visits[0], 0).astype(np.int64), won[0]
