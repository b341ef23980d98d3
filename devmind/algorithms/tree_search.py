"""Batched tree search: many trees in arrays; each simulation calls the searched function once for all of them.

The search knows one function, no network and no world (as in mctx): `expand(states, actions)` returns what N actions
lead to, with priors and values of the N states reached. With few simulations `gumbel_search` improves on
the prior.

With `bounds`, the least and the greatest value of a state, values are also proven: a terminal is exact, known values of
children bound their parent, and actions that cannot be better than a known one are tried no more (score-bounded search:
Cazenave and Saffidine 2010). A tree with a proven root is searched no further. This needs an exact and deterministic
`expand`: rules, not a learned model.

A search can continue the `tree` of an earlier one, re-rooted at the actions taken (`tree_reuse.rerooted`).

Everything is deterministic: noise is an argument, and a row's result does not depend on the rows beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic

import numpy as np

from devmind.algorithms.selection import halving_table
from devmind.algorithms.tree_reuse import begun
from devmind.algorithms.tree_walks import Manner, improved_at_roots
from devmind.algorithms.trees import Expand, Expanded, Roots, Rows, S, Tree, as_array

__all__ = ["Expand", "Expanded", "Found", "Roots", "Rows", "Tree", "gumbel_search"]

Array = np.ndarray


@dataclass(frozen=True)
class Found(Generic[S]):
    """The result of a search from B roots.

    Attributes:
        action: int64 [B], the best one.
        weights: float [B, A], summing to 1: the policy target.
        value: float [B], to the player to move; exact where `proven` bool [B].
        visits: int64 [B, A], those of a continued tree included; q: float [B, A], of visited actions.
        simulations: int64 [B], the visits that this search has added.
        tree: the trees.
    """

    action: Array
    weights: Array
    value: Array
    proven: Array
    visits: Array
    q: Array
    simulations: Array
    tree: Tree[S]


def gumbel_search(
    roots: Roots[S],
    expand: Expand[S],
    simulations: int,
    *,
    gumbel: Array | None = None,
    considered: int = 16,
    value_scale: float = 0.1,
    visit_offset: float = 50.0,
    bounds: tuple[float, float] | None = None,
    tree: Tree[S] | None = None,
) -> Found[S]:
    """Search by Gumbel's policy improvement (Danihelka et al. 2022); the defaults are mctx's.

    Args:
        gumbel: float [B, A], standard Gumbel noise. With it the action is a draw from an improved policy, for
            self-play; without it, the action is the best one, for play.
        considered: actions compared at the root, at most.
        value_scale, visit_offset: weight of values beside the prior (`completed_q`).
        bounds: the least and the greatest value of a state: values are proven, and scaled by these.
        tree: a tree of the same roots to continue; a row with an empty tree begins anew. The tree does not change.
            Halving, and the choice among the most visited actions, count only the new visits.

    Raises:
        ConfigError: the roots, the noise or the result of `expand` has another shape than the tree, or `tree` is of
            another search.
    """
    noise = np.zeros(roots.logits.shape) if gumbel is None else as_array(gumbel, "gumbel", roots.logits.shape)
    tree = begun(roots, simulations, bounds, tree)
    before = tree.child_visits[:, 0].copy()
    table = halving_table(min(considered, roots.logits.shape[1]), simulations)
    manner = Manner(*tree.ends, float(value_scale), float(visit_offset), noise, table, before)
    for trees in _unproven(tree, simulations):
        tree.simulate(trees, manner, expand)
    able, (completed, improved) = tree.unrefuted(), improved_at_roots(tree.arrays, manner)
    final = _final(tree, tree.child_visits[:, 0] - before)
    scores = np.where(final, tree.logits[:, 0] + noise + completed, -np.inf)
    weights = _normalised(np.where(able, improved, 0.0), able)
    return _found(tree, scores.argmax(-1), weights, before)


def _unproven(tree: Tree[Any], simulations: int) -> Any:
    """The trees of each simulation; it ends early when every root is proven."""
    for _ in range(simulations):
        trees = np.flatnonzero(~tree.proven)
        if not len(trees):
            return
        yield trees


def _found(tree: Tree[S], action: Array, weights: Array, before: Array) -> Found[S]:
    visits, q = tree.child_visits[:, 0].copy(), tree.child_q[:, 0].copy()
    made = (visits - before).sum(-1)
    return Found(action, weights, tree.value[:, 0].copy(), tree.proven, visits, q, made, tree)


def _final(tree: Tree[Any], visits: Array) -> Array:
    """The actions among which a root's best is chosen, bool [B, A]: the most visited ones, and those with an exact
    value.

    A proven action is visited no more, so its visits say nothing.
    """
    able = tree.unrefuted()
    exact = tree.child_lower[:, 0] == tree.child_upper[:, 0]
    return able & (exact | (visits == np.where(able, visits, -1).max(-1, keepdims=True)))


def _normalised(weights: Array, able: Array) -> Array:
    """Weights [B, A] that sum to 1; uniform over `able` if all are 0."""
    total = weights.sum(-1, keepdims=True)
    return np.where(total > 0, weights / np.where(total > 0, total, 1.0), able / able.sum(-1, keepdims=True))
