"""Batched tree search: many trees in arrays, one call of the searched function a simulation for all of them together.

The search knows a function and nothing else, no network and no world (mctx's way): `expand(states, actions)` says what
N actions lead to, and what N states reached are worth. `gumbel_search` is the default: with few simulations it improves
on the prior, where PUCT may not. `puct_search` is AlphaZero's.

With `bounds`, the least and the greatest value that a state can have, values are also proven: a terminal is known
exactly, what is known of children bounds their parent, and actions that cannot be better than a known one are tried no
more (score-bounded search: Cazenave and Saffidine 2010). A tree whose root is proven is searched no further. It needs
an `expand` that tells the truth and draws nothing by chance: rules, not a learned model.

All is deterministic: noise is given as an array, a row's result does not depend on the rows beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from devmind.algorithms.selection import halving_table, softmax
from devmind.algorithms.tree_walks import (
    GUMBEL,
    PUCT,
    Arrays,
    Manner,
    back_up,
    descend,
    enter,
    evaluate,
    improved_at_roots,
)
from devmind.errors import ConfigError

Array = np.ndarray


class Rows(Protocol):
    """States with one row each, such as a world's `Struct` or an agent's `State`."""

    def take(self, index: Any) -> Self:
        """Copies of the rows `index`, int64 [N]; a row may be named several times."""
        ...

    def put(self, index: Any, other: Any) -> None:
        """Replace the rows `index`, in place."""
        ...


S = TypeVar("S", bound=Rows)


@dataclass(frozen=True)
class Roots(Generic[S]):
    """B states to search from, and what is thought of them; actions are 0 to A - 1.

    Attributes:
        states: B rows.
        logits: float [B, A], of the prior.
        value: float [B], to the player whose turn it is.
        legal: bool [B, A], at least one a row.
    """

    states: S
    logits: Array
    value: Array
    legal: Array


@dataclass(frozen=True)
class Expanded(Roots[S]):
    """The same of the N states that N actions lead to, and the way there.

    Attributes:
        reward: float [N], to the player who acted.
        discount: float [N], what the value of the state is worth to the player who acted: 0 after a terminal, -1 where
            the turn passes to an opponent (`Outcome.discount` of a world's Rules).
        terminal: bool [N], the episode is over; logits, value and legal mean nothing then.
    """

    reward: Array
    discount: Array
    terminal: Array


Expand = Callable[[S, Array], Expanded[S]]
"""`(N states, actions int64 [N]) -> Expanded`; N changes from call to call and is never 0."""


@dataclass
class Tree(Generic[S]):
    """B trees of up to M nodes; node 0 is the root. Arrays are [B, M, ...]; what is not reached yet is -1 or 0.

    Attributes:
        states: B * M rows; node m of tree b is row b * M + m.
        size: int64 [B], nodes that there are.
        terminal: bool [B, M].
        visits: int64; value, raw_value: float, with and before search, to the player whose turn it is there.
        lower, upper: float, between which the value is known to lie.
        logits, prior (their softmax), legal, reward, discount: [B, M, A].
        parent, way: int64 [B, M], the node above, -1 of a root, and its action that leads here.
        child: int64 [B, M, A], the node an action leads to, or -1.
        child_visits, child_q, child_lower, child_upper: [B, M, A], to the player who acts.
    """

    states: S
    bounds: tuple[float, float] | None
    size: Array
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

    @classmethod
    def at(cls, roots: Roots[S], nodes: int, bounds: tuple[float, float] | None) -> Tree[S]:
        """Trees that hold their roots, with room for `nodes` nodes each."""
        batch, actions = roots.logits.shape
        low, high = bounds or (-np.inf, np.inf)
        each, of_actions = (batch, nodes), (batch, nodes, actions)
        tree = cls(
            states=roots.states.take(np.repeat(np.arange(batch), nodes)),
            bounds=bounds,
            size=np.ones(batch, np.int64),
            terminal=np.zeros(each, bool),
            visits=np.zeros(each, np.int64),
            value=np.zeros(each),
            raw_value=np.zeros(each),
            lower=np.full(each, low, np.float64),
            upper=np.full(each, high, np.float64),
            logits=np.zeros(of_actions),
            prior=np.zeros(of_actions),
            legal=np.zeros(of_actions, bool),
            reward=np.zeros(of_actions),
            discount=np.zeros(of_actions),
            parent=np.full(each, -1),
            way=np.full(each, -1),
            child=np.full(of_actions, -1),
            child_visits=np.zeros(of_actions, np.int64),
            child_q=np.zeros(of_actions),
            child_lower=np.full(of_actions, -np.inf),
            child_upper=np.full(of_actions, -np.inf),
        )
        tree._evaluate(np.arange(batch), np.zeros(batch, np.int64), roots)
        return tree

    @cached_property
    def arrays(self) -> Arrays:
        """The same numbers, for the compiled loops, which change them in place."""
        return Arrays(*(getattr(self, name) for name in Arrays._fields))

    def unrefuted(self) -> Array:
        """Actions at the roots that may be best, by what is proven, bool [B, A]; all legal ones without `bounds`."""
        known = self.lower[:, :1]
        return self.legal[:, 0] & ((self.child_lower[:, 0] >= known) | (self.child_upper[:, 0] > known))

    @property
    def ends(self) -> tuple[float, float]:
        """The bounds, infinite where there are none."""
        low, high = self.bounds or (-np.inf, np.inf)
        return float(low), float(high)

    @property
    def proven(self) -> Array:
        """Whose root's value is known exactly, bool [B]."""
        return np.asarray(self.lower[:, 0] == self.upper[:, 0])

    def simulate(self, trees: Array, manner: Manner, expand: Expand[S]) -> None:
        """One simulation in each of `trees` int64 [N]: down to an action never tried or a node that is known, and back.

        All that is reached anew is expanded by one call.
        """
        node, action = descend(self.arrays, trees, manner)
        fresh = self.child[trees, node, action] < 0
        if fresh.any():
            self._expand(trees[fresh], node[fresh], action[fresh], expand)
        back_up(self.arrays, trees, node, action, self.bounds is not None)

    def _expand(self, tree: Array, parent: Array, action: Array, expand: Expand[S]) -> None:
        nodes = self.visits.shape[1]
        found = expand(self.states.take(tree * nodes + parent), action)
        count = (len(tree),)
        reward, discount = (_array(getattr(found, name), name, count) for name in ("reward", "discount"))
        over = _array(found.terminal, "terminal", count, np.bool_)
        node = enter(self.arrays, tree, parent, action, self.size, reward, discount, over)
        self.states.put(tree * nodes + node, found.states)
        self._evaluate(tree, node, found)

    def _evaluate(self, tree: Array, node: Array, found: Roots[S]) -> None:
        each = len(tree), self.logits.shape[2]
        logits, legal = _array(found.logits, "logits", each), _array(found.legal, "legal", each, np.bool_)
        evaluate(self.arrays, tree, node, logits, _array(found.value, "value", each[:1]), legal)


def _array(x: Array, name: str, shape: tuple[int, ...], dtype: type = np.float64) -> Array:
    """As the compiled loops take it; they look at no bounds, so shapes are looked at here."""
    found: Array = np.ascontiguousarray(x, dtype)
    if found.shape != shape:
        raise ConfigError(f"The search expected '{name}' of {list(shape)}, a row a state; got {list(found.shape)}.")
    return found


@dataclass(frozen=True)
class Found(Generic[S]):
    """What a search came to, for B roots.

    Attributes:
        action: int64 [B], the best one.
        weights: float [B, A], summing to 1: what a policy should learn from it.
        value: float [B], to the player whose turn it is; exact where `proven` bool [B].
        visits: int64 [B, A]; q: float [B, A], of visited actions.
        tree: all of it.
    """

    action: Array
    weights: Array
    value: Array
    proven: Array
    visits: Array
    q: Array
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
) -> Found[S]:
    """Search by Gumbel's policy improvement (Danihelka et al. 2022); defaults are mctx's.

    Args:
        gumbel: float [B, A], standard Gumbel noise: with it the action is a draw from an improved policy, as self-play
            needs; without, the best action is meant, as in play.
        considered: the most actions that are compared at the root.
        value_scale, visit_offset: how much values weigh against the prior (`completed_q`).
        bounds: the least and the greatest value of a state: values are proven, and rescaled by these.

    Raises:
        ConfigError: the roots, the noise or what `expand` said has another shape than the tree.
    """
    noise = np.zeros(roots.logits.shape) if gumbel is None else _array(gumbel, "gumbel", roots.logits.shape)
    tree = Tree.at(roots, simulations + 1, bounds)
    considered = min(considered, roots.logits.shape[1])
    table = halving_table(considered, simulations)
    manner = Manner(GUMBEL, *tree.ends, float(value_scale), float(visit_offset), noise, table)
    for trees in _unproven(tree, simulations):
        tree.simulate(trees, manner, expand)
    able, (completed, improved) = tree.unrefuted(), improved_at_roots(tree.arrays, manner)
    scores = np.where(_final(tree), tree.logits[:, 0] + noise + completed, -np.inf)
    weights = _normalised(np.where(able, improved, 0.0), able)
    return _found(tree, scores.argmax(-1), weights)


def puct_search(
    roots: Roots[S],
    expand: Expand[S],
    simulations: int,
    *,
    noise: Array | None = None,
    noise_share: float = 0.25,
    init: float = 1.25,
    base: float = 19652.0,
    bounds: tuple[float, float] | None = None,
) -> Found[S]:
    """Search as AlphaZero and MuZero do, by upper confidence bounds; defaults are mctx's.

    The best action is the most visited one; of equal ones, and of those whose value is proven, that with the highest Q.
    For play with a temperature, draw from `weights` ** (1 / temperature).

    Args:
        noise: float [B, A], probabilities mixed into the roots' priors by `noise_share` (Dirichlet's, in self-play).
        bounds: the least and the greatest value of a state: values are proven, and rescaled by these.
    """
    if noise is not None:
        prior = softmax(roots.logits, roots.legal)
        mixed = (1 - noise_share) * prior + noise_share * np.where(roots.legal, noise, 0.0)
        roots = Roots(roots.states, np.log(np.maximum(mixed, np.finfo(np.float64).tiny)), roots.value, roots.legal)
    tree = Tree.at(roots, simulations + 1, bounds)
    manner = Manner(PUCT, *tree.ends, float(init), float(base), np.zeros(roots.logits.shape), halving_table(1, 1))
    for trees in _unproven(tree, simulations):
        tree.simulate(trees, manner, expand)
    able = tree.unrefuted()
    weights = _normalised(np.where(able, tree.child_visits[:, 0], 0).astype(float), able)
    order = np.where(_final(tree), tree.child_q[:, 0], -np.inf)
    return _found(tree, order.argmax(-1), weights)


def _unproven(tree: Tree[Any], simulations: int) -> Any:
    """The trees that each of the simulations goes through; none any more when every root is proven."""
    for _ in range(simulations):
        trees = np.flatnonzero(~tree.proven)
        if not len(trees):
            return
        yield trees


def _found(tree: Tree[S], action: Array, weights: Array) -> Found[S]:
    visits, q = tree.child_visits[:, 0].copy(), tree.child_q[:, 0].copy()
    return Found(action, weights, tree.value[:, 0].copy(), tree.proven, visits, q, tree)


def _final(tree: Tree[Any]) -> Array:
    """Among which actions a root's best is chosen, bool [B, A]: the most visited, and those known exactly.

    What is proven is visited no more, so its visits say nothing.
    """
    able, visits = tree.unrefuted(), tree.child_visits[:, 0]
    exact = tree.child_lower[:, 0] == tree.child_upper[:, 0]
    return able & (exact | (visits == np.where(able, visits, -1).max(-1, keepdims=True)))


def _normalised(weights: Array, able: Array) -> Array:
    """Weights [B, A] that sum to 1; equal among what is `able` where there are none."""
    total = weights.sum(-1, keepdims=True)
    return np.where(total > 0, weights / np.where(total > 0, total, 1.0), able / able.sum(-1, keepdims=True))
