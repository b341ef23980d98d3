"""Boards near the goal with their fewest moves, by breadth-first search backwards from it; for lessons only.

Costs inside such a perimeter (Dillenburg and Nelson 1994, "Perimeter search") are known, so value iteration need not
find them. It covers all 8-puzzles, and 15-puzzles within 15 moves. No exam's search uses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from devmind.worlds.sliding import MOVES, SlidingRules


@dataclass(frozen=True)
class Perimeter:
    """Every board within `depth` moves of the goal.

    Attributes:
        tiles: int8 [N, side * side], the nearest first.
        fewest: int64 [N], their fewest moves.
        depth: moves of the farthest.
    """

    side: int
    tiles: np.ndarray
    fewest: np.ndarray
    depth: int

    @classmethod
    def of(cls, side: int, most: int) -> Perimeter:
        """As many whole levels as have at most `most` boards together."""
        rules, level = SlidingRules(str(side)), SlidingRules(str(side)).goal[None]
        levels, before, here = list[np.ndarray](), np.zeros(0, np.int64), np.zeros(0, np.int64)
        while len(level) and sum(map(len, levels)) + len(level) <= most:
            levels.append(level)
            before, here = here, np.sort(keys(level, side))
            reached = rules.slid(np.repeat(level, len(MOVES), 0), np.tile(np.arange(len(MOVES)), len(level)))
            new_keys, first = np.unique(keys(reached, side), return_index=True)
            new = ~np.isin(new_keys, before, assume_unique=True) & ~np.isin(new_keys, here, assume_unique=True)
            level = reached[first[new]]
        fewest = np.repeat(np.arange(len(levels)), [len(one) for one in levels])
        return cls(side, np.concatenate(levels), fewest, len(levels) - 1)

    def distance(self, tiles: np.ndarray) -> np.ndarray:
        """The fewest moves int64 [N] of tiles int8 [N, cells]; -1 if they are farther than `depth`."""
        ordered, fewest = self._by_key
        queries = keys(tiles, self.side)
        at = np.searchsorted(ordered, queries).clip(max=len(ordered) - 1)
        return np.where(ordered[at] == queries, fewest[at], -1)

    @cached_property
    def _by_key(self) -> tuple[np.ndarray, np.ndarray]:
        all_keys = keys(self.tiles, self.side)
        order = np.argsort(all_keys)
        return all_keys[order], self.fewest[order]


def keys(tiles: np.ndarray, side: int) -> np.ndarray:
    """A number for each board, int64 [N], of a side up to 4; the last place follows from the others."""
    cells = side**2
    return np.asarray(tiles[:, :-1].astype(np.int64) @ cells ** np.arange(cells - 1, dtype=np.int64))
