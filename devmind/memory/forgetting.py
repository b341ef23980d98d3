"""Which entries go first when memory is full: old, unimportant, seldom recalled ones.

value = 0.5^(hours since it was written or last recalled / half-life) x (1 + importance) x (1 + times recalled) x luck

Luck is a number between 1/2 and 2 that depends on the entry's number. Without it, of many Moments of nearly equal
value, those of the same time were deleted together, and the remaining tenth of the entries answered half as many
questions as a random tenth (docs/log.md, "What memory costs"). An entry worth four times as much always stays longer.

Examples of names are never deleted automatically, because somebody has taught them; only `forget` deletes them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from devmind.memory.scoring import recency
from devmind.memory.tables import Facts, Sizes

SLACK = 0.05
"""Excess entries are deleted together with this share of the budget, so that not every write has to search for the
least valuable."""


@dataclass(frozen=True)
class Budget:
    """Limits of a memory; None: as much as the disk holds.

    Args:
        entries: number of entries.
        bytes: of payloads, keys and features together, as `Sizes.bytes` counts them.
        half_life_h: hours after which the value of an entry that was not recalled has halved.
    """

    entries: int | None = None
    bytes: int | None = None
    half_life_h: float = 138.0

    def exceeded(self, sizes: Sizes) -> bool:
        """Whether something has to be deleted."""
        over = self.entries is not None and sizes.entries > self.entries
        return over or (self.bytes is not None and sizes.bytes > self.bytes)


def values(facts: Facts, now_s: float, half_life_h: float) -> np.ndarray:
    """The value of each entry [n], from 0 on; infinity for examples of names."""
    touched = np.fmax(facts.time_s, facts.recalled_s)
    worth = recency(touched, now_s, half_life_h) * (1 + facts.importance) * (1 + facts.recalled)
    return np.where([name is not None for name in facts.names], np.inf, worth)


def random_factor(ids: np.ndarray) -> np.ndarray:
    """A factor [n] in [1/2, 2), uniform on a logarithmic scale; always the same for the same number.

    The numbers are hashed by the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
    """
    x = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    even = ((x ^ (x >> np.uint64(31))) >> np.uint64(11)) / float(1 << 53)
    return np.exp2(2 * even - 1)


def surplus(facts: Facts, sizes: Sizes, budget: Budget, now_s: float, newest: int | None = None) -> np.ndarray:
    """Numbers int64 of entries to delete, so that the budget holds with some room to spare.

    They may be too few: examples of names stay, whatever the budget. Keys count as their mean over all entries. The
    entry `newest` is included only if the budget would not hold without it.
    """
    if not budget.exceeded(sizes):
        return np.zeros(0, np.int64)
    worth = values(facts, now_s, budget.half_life_h) * random_factor(facts.ids)
    last = facts.ids == (0 if newest is None else newest)
    order = np.lexsort((facts.ids, worth, last))  # of equal ones the older number first
    order = order[worth[order] < np.inf]
    size = facts.payload_bytes[order] + sizes.key_bytes / max(1, sizes.entries)
    over_entries = 0.0 if budget.entries is None else sizes.entries - (1 - SLACK) * budget.entries
    over_bytes = 0.0 if budget.bytes is None else sizes.bytes - (1 - SLACK) * budget.bytes
    enough = (np.arange(len(order)) >= over_entries) & (np.cumsum(size) - size >= over_bytes)
    gone = order[: int(np.argmax(enough)) if enough.any() else len(order)]
    others = gone[~last[gone]]
    left = sizes.bytes - int(np.ceil(size[: len(others)].sum()))
    if len(others) < len(gone) and not budget.exceeded(Sizes(sizes.entries - len(others), left, 0)):
        return facts.ids[others]  # `newest` has room, and the next one takes the slack
    return facts.ids[gone]
