"""Boards of the 15-puzzle far from the goal, with solutions: lessons learn from these, and no exam uses them.

Random moves hardly lead farther than some 40 moves away, and half of all boards take 53 and more. So boards are drawn
uniformly from all solvable ones, and weighted IDA* (Korf 1985) solves each in some 5 ms, with some 4 % more moves than
the fewest. Its guide is a set of pattern databases. Each gives the fewest moves of five tiles, by a search backwards
from the goal in which all other tiles look alike. Three such patterns have no tile in common, so their moves may be
added (Korf and Felner 2002). Everything is compiled at first use; the tables take some seconds.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit

from devmind.worlds.sliding import SlidingRules

SIDE = 4
PATTERNS = ((1, 2, 3, 4, 7), (5, 6, 9, 10, 13), (8, 11, 12, 14, 15))
"""Tiles of each table."""
TILES = len(PATTERNS[0])
WEIGHT = 1.3
"""Weight of the tables' estimate beside the moves made: above 1 solutions are found sooner and are a little longer."""
NODES = 1_000_000
"""Boards that one search may evaluate; harder boards are left out."""
LONGEST = 200
"""Moves of a solution, at most."""


class Ways(NamedTuple):
    """Boards on solutions.

    Attributes:
        tiles: int8 [N, 16].
        moves: int64 [N], moves from here to the goal.
        first: int64 [N], the next move.
        way: int64 [N], the search that found the solution.
    """

    tiles: np.ndarray
    moves: np.ndarray
    first: np.ndarray
    way: np.ndarray


@lru_cache
def tables() -> np.ndarray:
    """The fewest moves of a pattern's tiles alone, by pattern and by the places of its tiles, int8 [3, 16 ** 5]."""
    rules = SlidingRules(str(SIDE))
    return np.stack([_backwards(_homes(pattern, rules), rules.leads) for pattern in PATTERNS])


def moves_left(tiles: np.ndarray) -> np.ndarray:
    """A lower bound on the moves to the goal, int64 [N], for tiles int8 [N, 16]; 0 only at the goal.

    The larger one of a board's and of its mirror image's at the diagonal, whose tiles lie in other patterns.
    """
    return np.maximum(_bound(tiles), _bound(mirrored(tiles)))


def mirrored(tiles: np.ndarray) -> np.ndarray:
    """Boards int8 [N, 16] mirrored at the diagonal on which the goal's free place is; they take as many moves."""
    across = np.arange(SIDE**2).reshape(SIDE, SIDE).T.ravel()
    names = np.concatenate(([0], 1 + across[:-1])).astype(np.int8)
    return names[tiles[:, across]]


def _bound(tiles: np.ndarray) -> np.ndarray:
    """What the tables say of tiles int8 [N, 16], int64 [N]."""
    at = np.argsort(tiles, -1, kind="stable")  # where each tile is
    places = np.array([[list(pattern) for pattern in PATTERNS]])
    index = (at[:, places[0]] * 16 ** np.arange(TILES)).sum(-1)
    return np.asarray(tables()[np.arange(len(PATTERNS)), index].sum(-1, dtype=np.int64))


def ways(n: int, rng: np.random.Generator) -> Ways:
    """All boards on the solutions of `n` boards drawn uniformly from all solvable ones; searches that gave up have
    none.
    """
    rules = SlidingRules(str(SIDE))
    starts = rng.permuted(np.tile(np.arange(SIDE**2, dtype=np.int8), (n, 1)), axis=1)
    wrong = ~rules.solvable(starts)
    # Swapping two tiles changes the parity; the free place stays.
    rows, pair = np.flatnonzero(wrong), np.argsort(starts[wrong] == 0, axis=1, kind="stable")[:, :2]
    first, second = starts[rows, pair[:, 0]], starts[rows, pair[:, 1]]
    starts[rows, pair[:, 0]], starts[rows, pair[:, 1]] = second, first
    parts: list[Ways] = []
    for number, start in enumerate(starts):
        moves = _solve(start.astype(np.int64), tables(), _of_tile(), _power(), rules.leads, WEIGHT, NODES)
        if len(moves):
            parts.append(_along(rules, start, moves, number))
    if not parts:
        return Ways(starts[:0], *(np.zeros(0, np.int64) for _ in range(3)))
    return Ways(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _along(rules: SlidingRules, start: np.ndarray, moves: np.ndarray, number: int) -> Ways:
    """The boards of one solution, without the goal."""
    tiles = [start[None]]
    for move in moves[:-1]:
        tiles.append(rules.slid(tiles[-1], np.array([move])))
    return Ways(np.concatenate(tiles), np.arange(len(moves), 0, -1), moves, np.full(len(moves), number))


def _homes(pattern: tuple[int, ...], rules: SlidingRules) -> np.ndarray:
    """The places of these tiles and of the free place at the goal, int64 [6]."""
    at = np.argsort(rules.goal, kind="stable")
    return at[[*pattern, 0]].astype(np.int64)


def _of_tile() -> np.ndarray:
    """The pattern of each tile, int64 [16]; -1 for the free place."""
    pattern_of = np.full(SIDE**2, -1)
    for number, pattern in enumerate(PATTERNS):
        pattern_of[list(pattern)] = number
    return pattern_of


def _power() -> np.ndarray:
    """The factor of each tile's place in its pattern's index, int64 [16]."""
    powers = np.zeros(SIDE**2, np.int64)
    for pattern in PATTERNS:
        powers[list(pattern)] = 16 ** np.arange(len(pattern))
    return powers


@njit(cache=True, error_model="numpy")
def _backwards(homes: np.ndarray, leads: np.ndarray) -> np.ndarray:
    """Breadth-first search from the goal; a move of a pattern's tile counts 1, any other move 0."""
    size = 16**5
    best, visited = np.full(size, 127, np.int8), np.zeros(size * 16, np.bool_)
    power = np.array([1, 16, 256, 4096, 65536])
    start = homes[5] * size
    for tile in range(5):
        start += homes[tile] * power[tile]
    level, depth = [start], 0
    visited[start] = True
    while level:
        following, at = [0 for _ in range(0)], 0
        while at < len(level):
            state = level[at]
            at += 1
            index, free = state % size, state // size
            best[index] = min(best[index], depth)
            for move in range(4):
                to = leads[free, move]
                if to < 0:
                    continue
                own = -1
                for tile in range(5):
                    if (index // power[tile]) % 16 == to:
                        own = tile
                if own < 0:
                    reached = index + to * size
                    if not visited[reached]:
                        visited[reached] = True
                        level.append(reached)  # as near as this one
                else:
                    following.append(index + (free - to) * power[own] + to * size)
        depth += 1
        level = [0 for _ in range(0)]
        for state in following:
            if not visited[state]:
                visited[state] = True
                level.append(state)
    return best


@njit(cache=True, error_model="numpy")
def _solve(
    tiles: np.ndarray,
    tables: np.ndarray,
    of_tile: np.ndarray,
    power: np.ndarray,
    leads: np.ndarray,
    weight: float,
    nodes: int,
) -> np.ndarray:
    """The moves of a solution int64 [k]; none if `nodes` boards were not enough, or at the goal."""
    index, free = np.zeros(len(tables), np.int64), 0
    for at in range(16):
        if tiles[at]:
            index[of_tile[tiles[at]]] += at * power[tiles[at]]
        else:
            free = at
    least = 0
    for pattern in range(len(tables)):
        least += tables[pattern, index[pattern]]
    moves, last_tried = np.full(LONGEST, -1), np.full(LONGEST + 1, -1)
    bound, looked = weight * least, 0
    while least:
        further, depth = 1e9, 0
        last_tried[0] = -1
        while depth >= 0:
            last_tried[depth] += 1
            move = last_tried[depth]
            if move > 3:  # back to the board before
                depth -= 1
                if depth >= 0:
                    move = moves[depth] ^ 1
                    free, least = _move(tiles, index, free, move, tables, of_tile, power, leads, least)
                continue
            if leads[free, move] < 0 or (depth and move == moves[depth - 1] ^ 1):
                continue
            free, least = _move(tiles, index, free, move, tables, of_tile, power, leads, least)
            moves[depth] = move
            looked += 1
            cost = depth + 1 + weight * least
            if not least:
                return moves[: depth + 1].copy()
            if cost > bound or depth + 2 > LONGEST:
                further = min(further, cost)
                free, least = _move(tiles, index, free, move ^ 1, tables, of_tile, power, leads, least)
                continue
            if looked > nodes:
                return moves[:0].copy()
            depth += 1
            last_tried[depth] = -1
        bound = further
    return moves[:0].copy()


@njit(cache=True, error_model="numpy", inline="always")
def _move(
    tiles: np.ndarray,
    index: np.ndarray,
    free: int,
    move: int,
    tables: np.ndarray,
    of_tile: np.ndarray,
    power: np.ndarray,
    leads: np.ndarray,
    least: int,
) -> tuple[int, int]:
    """Slide a tile in place; returns the new free place and the tables' estimate."""
    at = leads[free, move]
    tile = tiles[at]
    pattern = of_tile[tile]
    before = tables[pattern, index[pattern]]
    index[pattern] += (free - at) * power[tile]
    tiles[free], tiles[at] = tile, 0
    return at, least + tables[pattern, index[pattern]] - before
