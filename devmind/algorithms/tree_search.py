"""Batched tree search: many trees in arrays; each simulation calls the searched function once for all of them.

The search knows one function, no network and no world (as in mctx): `expand(states, actions)` returns what N actions
lead to, with priors and values of the N states reached. With few simulations `gumbel_search` improves on the prior.

With `bounds`, the least and the greatest value of a state, values are also proven: a terminal is exact, known values of
children bound their parent, and actions that cannot be better than a known one are tried no more (score-bounded search:
Cazenave and Saffidine 2010). A tree with a proven root is searched no further. This needs an exact and deterministic
`expand`: rules, not a learned model.

A search can continue the tree of an earlier one:

    found = gumbel_search(roots, expand, simulations)
    tree = rerooted(found.tree, found.action)
    found = gumbel_search(roots_of_the_next_move, expand, simulations, tree=tree)

AlphaGo Zero plays so (Silver et al. 2017, "Mastering the game of Go without human knowledge"): it keeps the subtree of
its move with its statistics and drops the rest. One call re-roots all rows, each at its own action.

Everything is deterministic: noise is an argument, a row's result does not depend on the rows beside it, and a given
tree does not change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numba import njit

from devmind.algorithms.selection import (
    completed_q,
    halving_table,
    improve,
    select_halving,
    select_improving,
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
    """B states to search from, with their estimates; actions are 0 to A - 1.

    Attributes:
        states: B rows.
        logits: float [B, A], of the prior.
        value: float [B], to the player to move.
        legal: bool [B, A], at least one a row.
    """

    states: S
    logits: Array
    value: Array
    legal: Array


@dataclass(frozen=True)
class Expanded(Roots[S]):
    """The same for the N states that N actions lead to, with the way there.

    Attributes:
        reward: float [N], to the player who acted.
        discount: float [N], factor of the state's value to the player who acted: 0 after a terminal, -1 where the turn
            passes to an opponent (`Outcome.discount` of a world's Rules).
        terminal: bool [N], the episode is over; logits, value and legal mean nothing then.
    """

    reward: Array
    discount: Array
    terminal: Array


Expand = Callable[[S, Array], Expanded[S]]
"""`(N states, actions int64 [N]) -> Expanded`; N changes from call to call and is never 0."""


class Nodes(NamedTuple):
    """The nodes of B trees, up to M each; node 0 is the root. Arrays are [B, M, ...], with -1 or 0 where there is no
    node yet; compiled loops change them in place.

    Attributes:
        terminal: bool [B, M].
        visits: int64; value, raw_value: float, with and before search, to the player to move there.
        lower, upper: float, bounds of the value.
        logits, prior (their softmax), legal, reward, discount: [B, M, A].
        parent, way: int64 [B, M], the node above (-1 for a root), and its action that leads here.
        child: int64 [B, M, A], the node an action leads to, or -1.
        child_visits, child_q, child_lower, child_upper: [B, M, A], to the player who acts.
    """

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
    def unreached(cls, shape: tuple[int, int, int], bounds: tuple[float, float] | None) -> Nodes:
        """Trees of `shape` B, M, A without any node, not even a root."""
        each, (low, high) = shape[:2], bounds or (-np.inf, np.inf)
        return cls(
            terminal=np.zeros(each, bool),
            visits=np.zeros(each, np.int64),
            value=np.zeros(each),
            raw_value=np.zeros(each),
            lower=np.full(each, low, np.float64),
            upper=np.full(each, high, np.float64),
            logits=np.zeros(shape),
            prior=np.zeros(shape),
            legal=np.zeros(shape, bool),
            reward=np.zeros(shape),
            discount=np.zeros(shape),
            parent=np.full(each, -1),
            way=np.full(each, -1),
            child=np.full(shape, -1),
            child_visits=np.zeros(shape, np.int64),
            child_q=np.zeros(shape),
            child_lower=np.full(shape, -np.inf),
            child_upper=np.full(shape, -np.inf),
        )


@dataclass
class Tree(Generic[S]):
    """B trees of up to M nodes, which grow by simulations, with their states.

    Attributes:
        states: B * M rows; node m of tree b is row b * M + m.
        bounds: the least and the greatest value of a state, where values are proven.
        size: int64 [B], number of nodes.
    """

    states: S
    bounds: tuple[float, float] | None
    size: Array
    nodes: Nodes

    @classmethod
    def unreached(cls, states: S, shape: tuple[int, int, int], bounds: tuple[float, float] | None) -> Tree[S]:
        """Trees of `shape` B, M, A without any node, not even a root.

        Args:
            states: B * M rows, meaningless so far.
        """
        return cls(states, bounds, np.zeros(shape[0], np.int64), Nodes.unreached(shape, bounds))

    @classmethod
    def at(cls, roots: Roots[S], nodes: int, bounds: tuple[float, float] | None) -> Tree[S]:
        """Trees that hold their roots, with room for `nodes` nodes each."""
        batch, actions = roots.logits.shape
        states = roots.states.take(np.repeat(np.arange(batch), nodes))
        tree = cls.unreached(states, (batch, nodes, actions), bounds)
        tree.begin(np.arange(batch), roots)
        return tree

    def begin(self, trees: Array, roots: Roots[S]) -> None:
        """Put roots into the empty `trees` int64 [N]; `roots` has a row for each of them."""
        self.states.put(trees * self.nodes.visits.shape[1], roots.states)
        self.size[trees] = 1
        self._evaluate(trees, np.zeros(len(trees), np.int64), roots)

    def unrefuted(self) -> Array:
        """Actions at the roots that no proof rules out as the best, bool [B, A]; all legal ones without `bounds`."""
        known = self.nodes.lower[:, :1]
        return self.nodes.legal[:, 0] & (
            (self.nodes.child_lower[:, 0] >= known) | (self.nodes.child_upper[:, 0] > known)
        )

    @property
    def ends(self) -> tuple[float, float]:
        """The bounds; infinite if there are none."""
        low, high = self.bounds or (-np.inf, np.inf)
        return float(low), float(high)

    @property
    def proven(self) -> Array:
        """Whether each root's value is known exactly, bool [B]."""
        return np.asarray(self.nodes.lower[:, 0] == self.nodes.upper[:, 0])

    def simulate(self, trees: Array, manner: Manner, expand: Expand[S]) -> None:
        """One simulation in each of `trees` int64 [N]: down to an untried action or a known node, and back.

        One call expands everything that is reached anew.
        """
        node, action = descend(self.nodes, trees, manner)
        fresh = self.nodes.child[trees, node, action] < 0
        if fresh.any():
            self._expand(trees[fresh], node[fresh], action[fresh], expand)
        back_up(self.nodes, trees, node, action, self.bounds is not None)

    def _expand(self, tree: Array, parent: Array, action: Array, expand: Expand[S]) -> None:
        nodes = self.nodes.visits.shape[1]
        found = expand(self.states.take(tree * nodes + parent), action)
        count = (len(tree),)
        reward, discount = (as_array(getattr(found, name), name, count) for name in ("reward", "discount"))
        over = as_array(found.terminal, "terminal", count, np.bool_)
        node = enter(self.nodes, tree, parent, action, self.size, reward, discount, over)
        self.states.put(tree * nodes + node, found.states)
        self._evaluate(tree, node, found)

    def _evaluate(self, tree: Array, node: Array, found: Roots[S]) -> None:
        each = len(tree), self.nodes.logits.shape[2]
        logits, legal = as_array(found.logits, "logits", each), as_array(found.legal, "legal", each, np.bool_)
        evaluate(self.nodes, tree, node, logits, as_array(found.value, "value", each[:1]), legal)


def as_array(x: Array, name: str, shape: tuple[int, ...], dtype: type = np.float64) -> Array:
    """`x` for the compiled loops. They do not check bounds, so this checks shapes."""
    found: Array = np.ascontiguousarray(x, dtype)
    if found.shape != shape:
        raise ConfigError(f"The search expected '{name}' of {list(shape)}, a row a state; got {list(found.shape)}.")
    return found


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
    tree = begin_trees(roots, simulations, bounds, tree)
    before = tree.nodes.child_visits[:, 0].copy()
    table = halving_table(min(considered, roots.logits.shape[1]), simulations)
    manner = Manner(*tree.ends, float(value_scale), float(visit_offset), noise, table, before)
    for trees in _unproven(tree, simulations):
        tree.simulate(trees, manner, expand)
    able, (completed, improved) = tree.unrefuted(), improved_at_roots(tree.nodes, manner)
    final = _final(tree, tree.nodes.child_visits[:, 0] - before)
    scores = np.where(final, tree.nodes.logits[:, 0] + noise + completed, -np.inf)
    weights = _normalised(np.where(able, improved, 0.0), able)
    return _found(tree, scores.argmax(-1), weights, before)


def _unproven(tree: Tree[Any], simulations: int) -> Iterator[Array]:
    """The trees of each simulation; it ends early when every root is proven."""
    for _ in range(simulations):
        trees = np.flatnonzero(~tree.proven)
        if not len(trees):
            return
        yield trees


def _found(tree: Tree[S], action: Array, weights: Array, before: Array) -> Found[S]:
    visits, q = tree.nodes.child_visits[:, 0].copy(), tree.nodes.child_q[:, 0].copy()
    made = (visits - before).sum(-1)
    return Found(action, weights, tree.nodes.value[:, 0].copy(), tree.proven, visits, q, made, tree)


def _final(tree: Tree[Any], visits: Array) -> Array:
    """The actions among which a root's best is chosen, bool [B, A]: the most visited ones, and those with an exact
    value.

    A proven action is visited no more, so its visits say nothing.
    """
    able = tree.unrefuted()
    exact = tree.nodes.child_lower[:, 0] == tree.nodes.child_upper[:, 0]
    return able & (exact | (visits == np.where(able, visits, -1).max(-1, keepdims=True)))


def _normalised(weights: Array, able: Array) -> Array:
    """Weights [B, A] that sum to 1; uniform over `able` if all are 0."""
    total = weights.sum(-1, keepdims=True)
    return np.where(total > 0, weights / np.where(total > 0, total, 1.0), able / able.sum(-1, keepdims=True))


def reroot(tree: Tree[S], actions: Array) -> Tree[S]:
    """Trees whose roots are the children that `actions` int64 [B] lead to, with only the nodes below these.

    States, visits, values, priors and proofs are kept, and nodes stay in their order. A row with an illegal or untried
    action, or with an empty tree, gets an empty tree, `size` 0.

    Raises:
        ConfigError: there is not one action a row, or an action is out of range.
    """
    batch, nodes, count = tree.nodes.child.shape
    actions = np.asarray(actions)
    if actions.shape != (batch,) or not ((actions >= 0) & (actions < count)).all():
        raise ConfigError(
            f"To re-root trees takes one action from 0 to {count - 1} for each of the {batch}; got {actions.tolist()}."
        )
    rows = np.arange(batch)
    inside = np.arange(nodes) == tree.nodes.child[rows, 0, actions][:, None]
    for node in range(1, int(tree.size.max(initial=0))):  # a node is found after that above it
        above = tree.nodes.parent[:, node]
        inside[:, node] |= (above >= 0) & inside[rows, above]
    return _only_nodes(tree, inside, max(1, int(inside.sum(-1).max(initial=0))))


def begin_trees(roots: Roots[S], simulations: int, bounds: tuple[float, float] | None, tree: Tree[S] | None) -> Tree[S]:
    """The trees for a search of `simulations`: new ones, or copies of `tree` with room for so many more nodes.

    Rows with an empty tree begin anew. The others keep everything but their roots' prior, which comes from `roots`,
    because noise may be mixed into it.

    Raises:
        ConfigError: `tree` has other rows, actions or bounds, or other actions are legal at its roots.
    """
    if tree is None:
        return Tree.at(roots, simulations + 1, bounds)
    _check(roots, bounds, tree)
    there = np.arange(tree.nodes.visits.shape[1]) < tree.size[:, None]
    grown = _only_nodes(tree, there, max(1, int(tree.size.max(initial=0))) + simulations)
    known, new = np.flatnonzero(tree.size > 0), np.flatnonzero(tree.size == 0)
    reweigh(grown.nodes, known, np.ascontiguousarray(roots.logits[known], np.float64))
    grown.begin(new, Roots(roots.states.take(new), roots.logits[new], roots.value[new], roots.legal[new]))
    return grown


def _only_nodes(tree: Tree[S], inside: Array, nodes: int) -> Tree[S]:
    """Trees of only the nodes `inside` bool [B, M], numbered anew, with room for `nodes`; the first is the root."""
    batch, before, actions = tree.nodes.child.shape
    rows, size = np.arange(batch)[:, None], inside.sum(-1)
    # The new number of each node, int64 [B, M + 1]; the last column maps -1 to -1.
    numbers = np.pad(np.where(inside, inside.cumsum(-1) - 1, -1), ((0, 0), (0, 1)), constant_values=-1)
    old, (row, node) = np.zeros((batch, nodes), np.int64), np.nonzero(inside)
    old[row, numbers[row, node]] = node
    there = np.arange(nodes) < size[:, None]
    kept = Tree.unreached(tree.states.take((rows * before + old).ravel()), (batch, nodes, actions), tree.bounds)
    kept.size[:] = size
    for to, of in zip(kept.nodes, tree.nodes, strict=True):
        to[there] = of[rows, old][there]
    kept.nodes.parent[:] = numbers[rows, kept.nodes.parent]
    kept.nodes.child[:] = numbers[rows[..., None], kept.nodes.child]
    kept.nodes.way[:, 0] = -1
    return kept


def _check(roots: Roots[S], bounds: tuple[float, float] | None, tree: Tree[S]) -> None:
    """Refuse a tree of another search, with a sentence."""
    shape = tree.nodes.child.shape[::2]
    if shape != roots.logits.shape:
        raise ConfigError(
            f"A tree to go on with has a row and an action for each of the roots', {list(roots.logits.shape)}; "
            f"got one of {list(shape)}."
        )
    if tree.bounds != bounds:
        raise ConfigError(
            f"What a tree has proven holds for its own bounds, {tree.bounds}; got {bounds}: give these, or no tree."
        )
    other = np.flatnonzero((tree.size > 0) & (tree.nodes.legal[:, 0] != roots.legal).any(-1))
    if len(other):
        raise ConfigError(
            f"The tree of row {other[0]} has other legal actions at its root than the state to search from: re-root it "
            "at each action that is made, or give none."
        )


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
def descend(of: Nodes, trees: Array, manner: Manner) -> tuple[Array, Array]:
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
def _choose(of: Nodes, tree: int, node: int, manner: Manner, open_: Array, scores: Array) -> int:
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
def evaluate(of: Nodes, trees: Array, nodes: Array, logits: Array, value: Array, legal: Array) -> None:
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
def reweigh(of: Nodes, trees: Array, logits: Array) -> None:
    """Set another prior at the roots of `trees` int64 [N], from logits float [N, A]."""
    for n in range(len(trees)):
        _weigh(of, trees[n], 0, logits[n])


@njit(cache=True, error_model="numpy")
def _weigh(of: Nodes, tree: int, node: int, logits: Array) -> None:
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
    of: Nodes,
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
def improved_at_roots(of: Nodes, manner: Manner) -> tuple[Array, Array]:
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
def back_up(of: Nodes, trees: Array, nodes: Array, actions: Array, bounded: bool) -> None:
    """Update every node above after a visit to what `actions` int64 [N] at `nodes` int64 [N] of `trees` lead to."""
    for n in range(len(trees)):
        tree, node, action = trees[n], nodes[n], actions[n]
        while node >= 0:
            _print_node(of, tree, node, action, bounded)
            node, action = of.parent[tree, node], of.way[tree, node]


@njit(cache=True, error_model="numpy")
def _print_node(of: Nodes, tree: int, node: int, action: int, bounded: bool) -> None:
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
