"""The score of a recalled entry, and the selection of rows of a table.

score = relevance x cosine + recency x 0.5^(age / half-life) + importance x i / (1 + i)

after Park et al. 2023, "Generative Agents", arXiv 2304.03442, section 4.1, with two differences. They rescale each part
to 0..1 over all stored entries, so that one strange entry changes the order of all others; here each part has a range
of its own. They count recency from the last recall, which brings just recalled entries back again and again; here it
counts from the writing. Their decay of 0.995 an hour is a half-life of 138 hours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from devmind.memory.entry import Filters
from devmind.memory.index import Table

HOUR_S = 3600.0


@dataclass(frozen=True)
class Weights:
    """Weights of the parts of a score; the default is the cosine alone.

    Args:
        relevance: of the cosine, -1..1.
        recency: of the decay since it was written, 0..1.
        importance: of i / (1 + i) for an importance i, 0..1.
        half_life_h: hours after which recency has halved.
    """

    relevance: float = 1.0
    recency: float = 0.0
    importance: float = 0.0
    half_life_h: float = 138.0


def recency(time_s: np.ndarray, now_s: float, half_life_h: float) -> np.ndarray:
    """0.5^(age / half-life) [n]; a time in the future counts as now."""
    return np.exp2(-np.maximum(now_s - time_s, 0) / (HOUR_S * half_life_h))


def weight_of(importance: np.ndarray) -> np.ndarray:
    """i / (1 + i) [n], 0..1: grows with importance, and no single entry can outweigh everything."""
    return importance / (1 + importance)


def scores(table: Table, relevance: np.ndarray, weights: Weights, now_s: float) -> np.ndarray:
    """Scores [n] of a table's rows from their relevance [n]; -inf stays -inf, because times 0 it would be NaN."""
    total = relevance
    if weights.relevance != 1:
        total = np.multiply(relevance, weights.relevance, out=relevance.copy(), where=relevance > -np.inf)
    if weights.recency:
        total = total + weights.recency * recency(table.time_s, now_s, weights.half_life_h)
    if weights.importance:
        total = total + weights.importance * weight_of(table.importance)
    return total


def passing(table: Table, filters: Filters) -> np.ndarray:
    """Rows bool [n] that exist and pass; only the store can check `words`, `session` and `says`."""
    mask = table.alive
    if filters.name is not None:
        mask = mask & (table.names == table.known.get(filters.name, -2))
    if filters.named is not None:
        mask = mask & ((table.names >= 0) == filters.named)
    if filters.since_s is not None:
        mask = mask & (table.time_s >= filters.since_s)
    if filters.until_s is not None:
        mask = mask & (table.time_s < filters.until_s)
    return mask
