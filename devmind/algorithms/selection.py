"""The next action of a tree search at one node: Gumbel with sequential halving and completed Q; compiled.

Every function gets one node with A actions, as rows of the tree's arrays, so each node is decided by itself. Constants
and formulas are those of mctx (https://github.com/google-deepmind/mctx), so that published settings carry over
(Danihelka et al. 2022, "Policy improvement by planning with Gumbel").

The rows are: prior float [A], the softmax of logits float [A] over legal bool [A]; visits int64 [A]; q float [A], the
value to the player who acts, meaningless for unvisited actions; open bool [A]. An action is open if it is legal, its
value is not known exactly, and it is not known to be no better than another one. The numbers are: raw, the estimate of
the node before any search; value, after it; low and high, the least and the greatest possible value. If these are
infinite, values are scaled by those of the other actions at the same node.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numba import njit

Array = np.ndarray
TINY = float(np.finfo(np.float32).tiny)
"""The least probability of a prior that weights a mean."""


def softmax(logits: Array, legal: Array) -> Array:
    """Probabilities float [N, A]; 0 where not legal."""
    finite = np.where(legal, logits, -np.inf)
    powers = np.exp(finite - finite.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@njit(cache=True, error_model="numpy")
def completed_q(
    prior: Array,
    legal: Array,
    visits: Array,
    q: Array,
    raw: float,
    low: float,
    high: float,
    value_scale: float,
    visit_offset: float,
    out: Array,
) -> None:
    """Write Q of visited actions and a mixed value for the others into `out` [A], in 0..1 and scaled to be added to
    logits.

    The mixed value combines the raw estimate with the visited actions' Q, weighted by prior (appendix D). The scale is
    (visit_offset + most visits) * value_scale (equation 8).
    """
    count, most, weight, mean = 0, 0, 0.0, 0.0
    for a in range(len(prior)):
        if visits[a] > 0:
            share = max(prior[a], TINY)
            weight += share
            mean += share * q[a]
            count += visits[a]
            most = max(most, visits[a])
    mixed = (raw + count * (mean / max(weight, 1e-300))) / (count + 1)
    if not (math.isfinite(low) and math.isfinite(high)):
        low, high = np.inf, -np.inf
        for a in range(len(prior)):
            if legal[a]:
                completed = q[a] if visits[a] > 0 else mixed
                low, high = min(low, completed), max(high, completed)
    for a in range(len(prior)):
        completed = q[a] if visits[a] > 0 else mixed
        out[a] = (visit_offset + most) * value_scale * ((completed - low) / max(high - low, 1e-8))


@njit(cache=True, error_model="numpy")
def improve(logits: Array, legal: Array, out: Array) -> None:
    """Replace completed Q in `out` [A] by softmax(logits + completed Q) (equation 11), 0 for illegal actions.

    This is the policy target of a search.
    """
    top, total = -np.inf, 0.0
    for a in range(len(out)):
        if legal[a]:
            top = max(top, logits[a] + out[a])
    for a in range(len(out)):
        out[a] = math.exp(logits[a] + out[a] - top) if legal[a] else 0.0
        total += out[a]
    for a in range(len(out)):
        out[a] /= total


@njit(cache=True, error_model="numpy")
def select_improving(improved: Array, open_: Array, visits: Array) -> int:
    """Below the root: the open action whose visits lag most behind the improved policy (equation 14)."""
    count, best, chosen = 0, -np.inf, -1
    for a in range(len(improved)):
        count += visits[a]
    for a in range(len(improved)):
        score = improved[a] - visits[a] / (1 + count)
        if open_[a] and (chosen < 0 or score > best):
            best, chosen = score, a
    return max(chosen, 0)


@njit(cache=True, error_model="numpy")
def select_halving(
    logits: Array,
    noise: Array,
    completed: Array,
    legal: Array,
    open_: Array,
    visits: Array,
    before: Array,
    table: Array,
) -> int:
    """At the root: sequential halving over the actions of highest noise + logits + completed Q.

    If no action whose turn it is is open, the best open one is taken.

    Args:
        before: int64 [A], visits from before this search, which are not part of its budget.
        table: int64 [considered + 1, simulations], `considered_visits` of each number of actions.
    """
    able = count = 0
    for a in range(len(logits)):
        able += legal[a]
        count += visits[a] - before[a]
    turn = table[min(able, len(table) - 1), min(count, table.shape[1] - 1)]
    best, chosen, due = -np.inf, -1, False
    for a in range(len(logits)):
        score, mine = logits[a] + noise[a] + completed[a], visits[a] - before[a] == turn
        if open_[a] and (chosen < 0 or (mine and not due) or (mine == due and score > best)):
            best, chosen, due = score, a, mine
    return max(chosen, 0)


@lru_cache(maxsize=256)
def considered_visits(considered: int, simulations: int) -> tuple[int, ...]:
    """Sequential halving as a sequence: the visits of the action due at each simulation (algorithm 2)."""
    if considered <= 1:
        return tuple(range(simulations))
    halvings, visits, sequence = math.ceil(math.log2(considered)), [0] * considered, list[int]()
    left = considered
    while len(sequence) < simulations:
        for _ in range(max(1, int(simulations / (halvings * left)))):
            sequence += visits[:left]
            visits[:left] = [count + 1 for count in visits[:left]]
        left = max(2, left // 2)
    return tuple(sequence[:simulations])


@lru_cache(maxsize=64)
def halving_table(considered: int, simulations: int) -> Array:
    """`considered_visits` of 0 to `considered` actions, int64 [considered + 1, simulations]; read-only."""
    table = np.array([considered_visits(m, simulations) for m in range(considered + 1)], np.int64)
    table = table.reshape(considered + 1, simulations)
    table.flags.writeable = False
    return table
