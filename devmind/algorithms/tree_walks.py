"""The compiled loops of a tree search: down from each root to something new, and back up with the result."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from devmind.algorithms.selection import (
    completed_q,
    improve,
    select_halving,
    select_improving,
)

Array = np.ndarray


class Arrays(NamedTuple):
    """The arrays of `Tree`, with the same field names; [B, M, ...]."""

    terminal: Array
    visits: Array
    value: Array
    raw_value: Array
    lower: Array
    upper: Array
    logits: Array
    prior: Array
    legal: Array
    reward: Array
    discount: Array
    parent: Array
    way: Array
    child: Array
    child_visits: Array
    child_q: Array
    child_lower: Array
    child_upper: Array


class Manner(NamedTuple):
    """How a search chooses actions.

    Attributes:
        low, high: bounds of values, or infinite.
        value_scale, visit_offset: weight of values beside the prior.
        noise: float [B, A], at the roots.
        table: int64 [considered + 1, simulations].
        before: int64 [B, A], visits at the roots from before this search, which sequential halving leaves out.
    """

    low: float
    high: float
    value_scale: float
    visit_offset: float
    noise: Array
    table: Array
    before: Array


@njit(cache=True, error_model="numpy")
def descend(of: Arrays, trees: Array, manner: Manner) -> tuple[Array, Array]:
    """For each of `trees` int64 [N], the last node int64 [N] of a walk down, and the action int64 [N] chosen there.

    A walk ends at an untried action, or at one that leads to a terminal or to a node of known value.
    """
    actions = of.logits.shape[2]
    open_, scores = np.empty(actions, np.bool_), np.empty(actions)
    nodes, chosen = np.empty(len(trees), np.int64), np.empty(len(trees), np.int64)
    for n in range(len(trees)):
        tree, node = trees[n], 0
        while True:
            action = _choose(of, tree, node, manner, open_, scores)
            child = of.child[tree, node, action]
            if child < 0 or of.terminal[tree, child] or of.lower[tree, child] >= of.upper[tree, child]:
                break
            node = child
        nodes[n], chosen[n] = node, action
    return nodes, chosen


@njit(cache=True, error_model="numpy")
def _choose(of: Arrays, tree: int, node: int, manner: Manner, open_: Array, scores: Array) -> int:
    legal, visits, q = of.legal[tree, node], of.child_visits[tree, node], of.child_q[tree, node]
    lower, upper, known = of.child_lower[tree, node], of.child_upper[tree, node], of.lower[tree, node]
    prior, logits = of.prior[tree, node], of.logits[tree, node]
    for a in range(len(open_)):
        open_[a] = legal[a] and lower[a] < upper[a] and upper[a] > known
    low, high = manner.low, manner.high
    raw = of.raw_value[tree, node]
    completed_q(prior, legal, visits, q, raw, low, high, manner.value_scale, manner.visit_offset, scores)
    if node == 0:
        return select_halving(
            logits, manner.noise[tree], scores, legal, open_, visits, manner.before[tree], manner.table
        )
    improve(logits, legal, scores)
    return select_improving(scores, open_, visits)


@njit(cache=True, error_model="numpy")
def evaluate(of: Arrays, trees: Array, nodes: Array, logits: Array, value: Array, legal: Array) -> None:
    """Store the estimates of new nodes; a terminal has no further value."""
    for n in range(len(trees)):
        tree, node = trees[n], nodes[n]
        over = of.terminal[tree, node]
        if over:
            of.lower[tree, node] = of.upper[tree, node] = 0.0
        low, high = of.lower[tree, node], of.upper[tree, node]
        worth = 0.0 if over else value[n]
        of.visits[tree, node] = 1
        of.raw_value[tree, node] = of.value[tree, node] = min(max(worth, low), high)
        for a in range(legal.shape[1]):
            able = legal[n, a] and not over
            of.legal[tree, node, a] = able
            of.child_lower[tree, node, a] = low if able else -np.inf
            of.child_upper[tree, node, a] = high if able else -np.inf
        _weigh(of, tree, node, logits[n])


@njit(cache=True, error_model="numpy")
def reweigh(of: Arrays, trees: Array, logits: Array) -> None:
    """Set another prior at the roots of `trees` int64 [N], from logits float [N, A]."""
    for n in range(len(trees)):
        _weigh(of, trees[n], 0, logits[n])


@njit(cache=True, error_model="numpy")
def _weigh(of: Arrays, tree: int, node: int, logits: Array) -> None:
    """Store the logits [A] of a node's legal actions, and their softmax."""
    legal, prior, top, total = of.legal[tree, node], of.prior[tree, node], -np.inf, 0.0
    for a in range(len(prior)):
        of.logits[tree, node, a] = logits[a] if legal[a] else 0.0
        if legal[a]:
            top = max(top, logits[a])
    for a in range(len(prior)):
        prior[a] = math.exp(logits[a] - top) if legal[a] else 0.0
        total += prior[a]
    if total > 0:
        for a in range(len(prior)):
            prior[a] /= total


@njit(cache=True, error_model="numpy")
def enter(
    of: Arrays,
    trees: Array,
    parents: Array,
    actions: Array,
    size: Array,
    reward: Array,
    discount: Array,
    terminal: Array,
) -> Array:
    """Add a new node below each of `parents` int64 [N] by `actions` int64 [N]; returns the nodes' numbers int64 [N]."""
    nodes = np.empty(len(trees), np.int64)
    for n in range(len(trees)):
        tree, parent, action = trees[n], parents[n], actions[n]
        node = size[tree]
        nodes[n], size[tree] = node, node + 1
        of.child[tree, parent, action], of.parent[tree, node], of.way[tree, node] = node, parent, action
        of.reward[tree, parent, action] = reward[n]
        # Not left to the caller: a terminal with a further value would be searched as if the episode went on.
        of.discount[tree, parent, action] = 0.0 if terminal[n] else discount[n]
        of.terminal[tree, node] = terminal[n]
    return nodes


@njit(cache=True, error_model="numpy")
def improved_at_roots(of: Arrays, manner: Manner) -> tuple[Array, Array]:
    """Completed Q and the improved policy of the roots, float [B, A] each."""
    completed = np.zeros_like(manner.noise)
    for b in range(len(completed)):
        prior, legal, visits, q = of.prior[b, 0], of.legal[b, 0], of.child_visits[b, 0], of.child_q[b, 0]
        raw, low, high = of.raw_value[b, 0], manner.low, manner.high
        completed_q(prior, legal, visits, q, raw, low, high, manner.value_scale, manner.visit_offset, completed[b])
    improved = completed.copy()
    for b in range(len(completed)):
        improve(of.logits[b, 0], of.legal[b, 0], improved[b])
    return completed, improved


@njit(cache=True, error_model="numpy")
def back_up(of: Arrays, trees: Array, nodes: Array, actions: Array, bounded: bool) -> None:
    """Update every node above after a visit to what `actions` int64 [N] at `nodes` int64 [N] of `trees` lead to."""
    for n in range(len(trees)):
        tree, node, action = trees[n], nodes[n], actions[n]
        while node >= 0:
            _tell(of, tree, node, action, bounded)
            node, action = of.parent[tree, node], of.way[tree, node]


@njit(cache=True, error_model="numpy")
def _tell(of: Arrays, tree: int, node: int, action: int, bounded: bool) -> None:
    below = of.child[tree, node, action]
    visits, q = of.child_visits[tree, node], of.child_q[tree, node]
    visits[action] += 1
    of.visits[tree, node] += 1
    reward, discount = of.reward[tree, node, action], of.discount[tree, node, action]
    worth = reward + discount * of.value[tree, below]
    if bounded:
        lower, upper = of.child_lower[tree, node], of.child_upper[tree, node]
        one, other = reward + discount * of.lower[tree, below], reward + discount * of.upper[tree, below]
        # Never wider than before: rounding of sums must not undo a proof of an earlier visit.
        lower[action] = max(lower[action], min(one, other))
        upper[action] = min(upper[action], max(one, other))
        worth = min(max(worth, lower[action]), upper[action])
        most, least = -np.inf, -np.inf
        for a in range(len(q)):
            most, least = max(most, upper[a]), max(least, lower[a])
        of.lower[tree, node] = max(of.lower[tree, node], least)
        of.upper[tree, node] = min(of.upper[tree, node], most)
    q[action] = worth
    total, count = of.raw_value[tree, node], 1
    for a in range(len(q)):
        total += visits[a] * q[a]
        count += visits[a]
    of.value[tree, node] = min(max(total / count, of.lower[tree, node]), of.upper[tree, node])
