"""What goes first when memory is full: what is old, unimportant and was hardly ever recalled.

value = 0.5^(hours since it was written or last recalled / half-life) x (1 + importance) x (1 + times recalled)

Examples of names never go by themselves: somebody has taught them, and `forget` is how they go.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from devmind.memory.scoring import recency
from devmind.memory.tables import Facts, Sizes

SLACK = 0.05
"""What is over goes together with this share of the budget, so that not every writing has to look for the least."""


@dataclass(frozen=True)
class Budget:
    """How much memory may hold; None: as much as the disk.

    Args:
        entries: how many.
        bytes: of payloads, keys and features together, as `Sizes.bytes` counts them.
        half_life_h: hours after which the value of what was not recalled has halved.
    """

    entries: int | None = None
    bytes: int | None = None
    half_life_h: float = 138.0

    def exceeded(self, sizes: Sizes) -> bool:
        """Whether something has to go."""
        over = self.entries is not None and sizes.entries > self.entries
        return over or (self.bytes is not None and sizes.bytes > self.bytes)


def values(facts: Facts, now_s: float, half_life_h: float) -> np.ndarray:
    """What each entry is worth keeping [n], from 0 on; infinity for examples of names."""
    touched = np.fmax(facts.time_s, facts.recalled_s)
    worth = recency(touched, now_s, half_life_h) * (1 + facts.importance) * (1 + facts.recalled)
    return np.where([name is not None for name in facts.names], np.inf, worth)


def surplus(facts: Facts, sizes: Sizes, budget: Budget, now_s: float) -> np.ndarray:
    """Numbers int64 of what has to go, so that the budget holds with some room to spare.

    They may be too few: examples of names stay, whatever the budget. Keys count as their mean over all entries.
    """
    if not budget.exceeded(sizes):
        return np.zeros(0, np.int64)
    worth = values(facts, now_s, budget.half_life_h)
    order = np.lexsort((facts.ids, worth))  # of equal ones the older number first
    order = order[worth[order] < np.inf]
    size = facts.payload_bytes[order] + sizes.key_bytes / max(1, sizes.entries)
    over_entries = 0.0 if budget.entries is None else sizes.entries - (1 - SLACK) * budget.entries
    over_bytes = 0.0 if budget.bytes is None else sizes.bytes - (1 - SLACK) * budget.bytes
    enough = (np.arange(len(order)) >= over_entries) & (np.cumsum(size) - size >= over_bytes)
    return facts.ids[order[: int(np.argmax(enough)) if enough.any() else len(order)]]
