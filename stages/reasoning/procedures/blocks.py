"""Blocks world for procedures: towers on a table, moved one clear block at a time; also as a problem for Q*."""

from __future__ import annotations

from typing import Any

import numpy as np

from devmind.errors import WorldError
from stages.reasoning.procedures.beliefs import Beliefs
from stages.reasoning.procedures.terms import LIST
from stages.reasoning.q_star import q_star

TABLE = "table"
NODES = 20_000
"""States that the search may ask about."""


class Blocks:
    """One table of blocks, with what is wanted; what is on what is believed as it is seen.

    Args:
        below, wanted: int64 [n], what each block stands on, and should: the number of a block, or -1 for the table.

    Attributes:
        moves: how many were made.

    Raises:
        WorldError: blocks stand on themselves, or two on one.
    """

    def __init__(self, below: np.ndarray, wanted: np.ndarray) -> None:
        for given in (below, wanted):
            if not _stands(given):
                raise WorldError(
                    f"Each of n blocks stands on the table (-1) or on a block that nothing else is on; got {given}."
                )
        self.below, self.wanted, self.moves = np.array(below), np.array(wanted), 0
        self.beliefs = Beliefs()
        for x, y in enumerate(self.below.tolist()):
            self.beliefs.add(("on", name(x), name(y)))
        for x, y in enumerate(self.wanted.tolist()):
            self.beliefs.add(("wanted", name(x), name(y)))

    @classmethod
    def drawn(cls, n: int, rng: np.random.Generator) -> Blocks:
        """N blocks in towers by chance, and as many wanted."""
        return cls(towers(n, rng), towers(n, rng))

    @property
    def solved(self) -> bool:
        """Whether all stands as it is wanted."""
        return bool((self.below == self.wanted).all())

    @property
    def actions(self) -> dict[str, Any]:
        """What a plan can do here."""
        return {"move": self.move, "search_moves": self.search_moves}

    def move(self, x: str, y: str) -> bool:
        """Put a clear block on the table or on a clear block; False where it cannot be."""
        block, onto = number(x), number(y)
        if block < 0 or block == onto or block in self.below or (onto >= 0 and onto in self.below):
            return False
        self.beliefs.remove(("on", x, name(int(self.below[block]))))
        self.below[block] = onto
        self.beliefs.add(("on", x, y))
        self.moves += 1
        return True

    def search_moves(self) -> Any:
        """A shortest list of moves `to(X, Y)` by Q*; False where the budget ends first."""
        n = len(self.below)
        (way,) = q_star(
            self.below[None], lambda states, pairs: moved(states, pairs, n), self._there, self._guide, nodes=NODES
        )
        if way.actions is None:
            return False
        pairs = [divmod(action, n + 1) for action in way.actions]
        return (LIST, *(("to", name(x), name(y - 1)) for x, y in pairs))

    def _there(self, states: np.ndarray) -> np.ndarray:
        return np.asarray((states == self.wanted).all(-1))

    def _guide(self, states: np.ndarray) -> np.ndarray:
        """What each move costs with all that follows, never too much: a block not where it is wanted moves once."""
        n = states.shape[-1]
        pairs = np.tile(np.arange(n * (n + 1)), len(states))
        before = np.repeat(states, n * (n + 1), 0)
        after = moved(before, pairs, n)
        cost = 1.0 + (after != self.wanted).sum(-1)
        cost[(after == before).all(-1)] = np.inf
        return np.asarray(cost.reshape(len(states), -1))


def moved(states: np.ndarray, pairs: np.ndarray, n: int) -> np.ndarray:
    """States int64 [N, n] after the moves `block * (n + 1) + place + 1` [N]; one that cannot be changes nothing."""
    block, place = np.divmod(pairs, n + 1)
    place = place - 1
    covered = (
        (states == block[:, None]).any(-1) | ((place >= 0) & (states == place[:, None]).any(-1)) | (block == place)
    )
    after = states.copy()
    rows = np.flatnonzero(~covered)
    after[rows, block[rows]] = place[rows]
    return after


def towers(n: int, rng: np.random.Generator) -> np.ndarray:
    """Blocks in an order by chance, each on the one before or, one time in three and at first, on the table: [n]."""
    order, below = rng.permutation(n), np.full(n, -1)
    on = rng.random(n) > 1 / 3
    below[order[1:]] = np.where(on[1:], order[:-1], -1)
    return below


def name(block: int) -> str:
    """As plans call it."""
    return TABLE if block < 0 else f"b{block}"


def number(block: str) -> int:
    """The reverse of `name`."""
    return -1 if block == TABLE else int(block[1:])


def _stands(below: np.ndarray) -> bool:
    stood_on = below[below >= 0]
    if len(np.unique(stood_on)) != len(stood_on) or (below >= len(below)).any() or (below < -1).any():
        return False
    for block in range(len(below)):
        at, seen = block, 0
        while at >= 0 and seen <= len(below):
            at, seen = int(below[at]), seen + 1
        if at >= 0:
            return False
    return True
