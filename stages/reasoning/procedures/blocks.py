"""Blocks world for procedures: towers on a table, moved one clear block at a time; also a problem for Q*."""

from __future__ import annotations

from typing import Any

import numpy as np

from devmind.errors import WorldError
from stages.reasoning.procedures.beliefs import Beliefs
from stages.reasoning.procedures.terms import LIST
from stages.reasoning.q_star import q_star

TABLE = "table"
NODES = 20_000
"""States that the search may evaluate."""


class Blocks:
    """A table of blocks with its goal; its beliefs always say what is on what.

    Args:
        below: int64 [n], what each block stands on: a block's number, or -1 for the table.
        goal: int64 [n], what each block should stand on.

    Attributes:
        moves: moves made so far.

    Raises:
        WorldError: blocks stand on themselves, also in a circle, or two stand on one.
    """

    def __init__(self, below: np.ndarray, goal: np.ndarray) -> None:
        for stacks in (below, goal):
            if not _stands(stacks):
                raise WorldError(
                    f"Each of n blocks stands on the table (-1) or on a block that nothing else is on; got {stacks}."
                )
        self.below, self.goal, self.moves = np.array(below), np.array(goal), 0
        self.beliefs = Beliefs()
        for x, y in enumerate(self.below.tolist()):
            self.beliefs.add(("on", name(x), name(y)))
        for x, y in enumerate(self.goal.tolist()):
            self.beliefs.add(("wanted", name(x), name(y)))

    @classmethod
    def drawn(cls, n: int, rng: np.random.Generator) -> Blocks:
        """`n` blocks in random towers, with a random goal."""
        return cls(towers(n, rng), towers(n, rng))

    @property
    def solved(self) -> bool:
        """Whether all blocks stand where they should."""
        return bool((self.below == self.goal).all())

    @property
    def actions(self) -> dict[str, Any]:
        """The primitive actions of this world."""
        return {"move": self.move, "search_moves": self.search_moves}

    def move(self, x: str, y: str) -> bool:
        """Put a clear block on the table or on a clear block; False if that is impossible.

        Raises:
            LookupError: there is no such block.
        """
        numbers = {name(block): block for block in range(-1, len(self.below))}
        if x not in numbers or y not in numbers:
            raise LookupError(f"expected two of {', '.join(numbers)}")
        block, onto = numbers[x], numbers[y]
        if block < 0 or block == onto or block in self.below or (onto >= 0 and onto in self.below):
            return False
        self.beliefs.remove(("on", x, name(int(self.below[block]))))
        self.below[block] = onto
        self.beliefs.add(("on", x, y))
        self.moves += 1
        return True

    def search_moves(self) -> Any:
        """A shortest list of moves `to(X, Y)` by Q*; False if the budget ends first."""
        n = len(self.below)
        (way,) = q_star(
            self.below[None], lambda states, pairs: move_blocks(states, pairs, n), self._there, self._guide, nodes=NODES
        )
        if way.actions is None:
            return False
        pairs = [divmod(action, n + 1) for action in way.actions]
        return (LIST, *(("to", name(x), name(y - 1)) for x, y in pairs))

    def _there(self, states: np.ndarray) -> np.ndarray:
        return np.asarray((states == self.goal).all(-1))

    def _guide(self, states: np.ndarray) -> np.ndarray:
        """The cost of each move and all that follows, never overestimated: each misplaced block moves at least once."""
        n = states.shape[-1]
        pairs = np.tile(np.arange(n * (n + 1)), len(states))
        before = np.repeat(states, n * (n + 1), 0)
        after = move_blocks(before, pairs, n)
        cost = 1.0 + (after != self.goal).sum(-1)
        cost[(after == before).all(-1)] = np.inf
        return np.asarray(cost.reshape(len(states), -1))


def move_blocks(states: np.ndarray, pairs: np.ndarray, n: int) -> np.ndarray:
    """States int64 [N, n] after the moves `block * (n + 1) + place + 1` [N]; an impossible move changes nothing."""
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
    """Random towers [n]: blocks in random order, each on the one before or, as the first and one in three, on the
    table.
    """
    order, below = rng.permutation(n), np.full(n, -1)
    on = rng.random(n) > 1 / 3
    below[order[1:]] = np.where(on[1:], order[:-1], -1)
    return below


def name(block: int) -> str:
    """The name of a block in plans."""
    return TABLE if block < 0 else f"b{block}"


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
