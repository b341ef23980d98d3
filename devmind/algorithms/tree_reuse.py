"""Continuing a search: after a move, the tree below it is where the next search begins.

    found = gumbel_search(roots, expand, simulations)
    tree = rerooted(found.tree, found.action)
    found = gumbel_search(roots_of_the_next_move, expand, simulations, tree=tree)

AlphaGo Zero plays so (Silver et al. 2017, "Mastering the game of Go without human knowledge"): it keeps the subtree of
its move with its statistics and drops the rest. One call re-roots all rows, each at its own action. The functions are
pure, so a given tree does not change.
"""

from __future__ import annotations

import numpy as np

from devmind.algorithms.tree_walks import Arrays, reweigh
from devmind.algorithms.trees import Roots, S, Tree
from devmind.errors import ConfigError

Array = np.ndarray


def rerooted(tree: Tree[S], actions: Array) -> Tree[S]:
    """Trees whose roots are the children that `actions` int64 [B] lead to, with only the nodes below these.

    States, visits, values, priors and proofs are kept, and nodes stay in their order. A row with an illegal or untried
    action, or with an empty tree, gets an empty tree, `size` 0.

    Raises:
        ConfigError: there is not one action a row, or an action is out of range.
    """
    batch, nodes, count = tree.child.shape
    actions = np.asarray(actions)
    if actions.shape != (batch,) or not ((actions >= 0) & (actions < count)).all():
        raise ConfigError(
            f"To re-root trees takes one action from 0 to {count - 1} for each of the {batch}; got {actions.tolist()}."
        )
    rows = np.arange(batch)
    inside = np.arange(nodes) == tree.child[rows, 0, actions][:, None]
    for node in range(1, int(tree.size.max(initial=0))):  # a node is found after that above it
        above = tree.parent[:, node]
        inside[:, node] |= (above >= 0) & inside[rows, above]
    return _kept(tree, inside, max(1, int(inside.sum(-1).max(initial=0))))


def begun(roots: Roots[S], simulations: int, bounds: tuple[float, float] | None, tree: Tree[S] | None) -> Tree[S]:
    """The trees for a search of `simulations`: new ones, or copies of `tree` with room for so many more nodes.

    Rows with an empty tree begin anew. The others keep everything but their roots' prior, which comes from `roots`,
    because noise may be mixed into it.

    Raises:
        ConfigError: `tree` has other rows, actions or bounds, or other actions are legal at its roots.
    """
    if tree is None:
        return Tree.at(roots, simulations + 1, bounds)
    _check(roots, bounds, tree)
    there = np.arange(tree.visits.shape[1]) < tree.size[:, None]
    grown = _kept(tree, there, max(1, int(tree.size.max(initial=0))) + simulations)
    known, new = np.flatnonzero(tree.size > 0), np.flatnonzero(tree.size == 0)
    reweigh(grown.arrays, known, np.ascontiguousarray(roots.logits[known], np.float64))
    grown.begin(new, Roots(roots.states.take(new), roots.logits[new], roots.value[new], roots.legal[new]))
    return grown


def _kept(tree: Tree[S], inside: Array, nodes: int) -> Tree[S]:
    """Trees of only the nodes `inside` bool [B, M], numbered anew, with room for `nodes`; the first is the root."""
    batch, before, actions = tree.child.shape
    rows, size = np.arange(batch)[:, None], inside.sum(-1)
    # The new number of each node, int64 [B, M + 1]; the last column maps -1 to -1.
    numbers = np.pad(np.where(inside, inside.cumsum(-1) - 1, -1), ((0, 0), (0, 1)), constant_values=-1)
    old, (row, node) = np.zeros((batch, nodes), np.int64), np.nonzero(inside)
    old[row, numbers[row, node]] = node
    there = np.arange(nodes) < size[:, None]
    kept = Tree.unreached(tree.states.take((rows * before + old).ravel()), (batch, nodes, actions), tree.bounds)
    kept.size[:] = size
    for name in Arrays._fields:
        getattr(kept, name)[there] = getattr(tree, name)[rows, old][there]
    kept.parent[:] = numbers[rows, kept.parent]
    kept.child[:] = numbers[rows[..., None], kept.child]
    kept.way[:, 0] = -1
    return kept


def _check(roots: Roots[S], bounds: tuple[float, float] | None, tree: Tree[S]) -> None:
    """Refuse a tree of another search, with a sentence."""
    shape = tree.child.shape[::2]
    if shape != roots.logits.shape:
        raise ConfigError(
            f"A tree to go on with has a row and an action for each of the roots', {list(roots.logits.shape)}; "
            f"got one of {list(shape)}."
        )
    if tree.bounds != bounds:
        raise ConfigError(
            f"What a tree has proven holds for its own bounds, {tree.bounds}; got {bounds}: give these, or no tree."
        )
    other = np.flatnonzero((tree.size > 0) & (tree.legal[:, 0] != roots.legal).any(-1))
    if len(other):
        raise ConfigError(
            f"The tree of row {other[0]} has other legal actions at its root than the state to search from: re-root it "
            "at each action that is made, or give none."
        )
