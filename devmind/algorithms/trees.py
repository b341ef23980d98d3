"""Trees in arrays: the roots of a search, the result of an action, and the tree itself.

A tree grows by simulations (`Tree.simulate`); each takes one call of the searched function for all trees. A `Manner`
says which actions are tried. `tree_search` has the searches, `tree_reuse` continues their trees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from devmind.algorithms.tree_walks import Arrays, Manner, back_up, descend, enter, evaluate
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


@dataclass
class Tree(Generic[S]):
    """B trees of up to M nodes; node 0 is the root. Arrays are [B, M, ...], with -1 or 0 where there is no node yet.

    Attributes:
        states: B * M rows; node m of tree b is row b * M + m.
        size: int64 [B], number of nodes.
        terminal: bool [B, M].
        visits: int64; value, raw_value: float, with and before search, to the player to move there.
        lower, upper: float, bounds of the value.
        logits, prior (their softmax), legal, reward, discount: [B, M, A].
        parent, way: int64 [B, M], the node above (-1 for a root), and its action that leads here.
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
    def unreached(cls, states: S, shape: tuple[int, int, int], bounds: tuple[float, float] | None) -> Tree[S]:
        """Trees of `shape` B, M, A without any node, not even a root.

        Args:
            states: B * M rows, meaningless so far.
        """
        each, (low, high) = shape[:2], bounds or (-np.inf, np.inf)
        return cls(
            states=states,
            bounds=bounds,
            size=np.zeros(shape[0], np.int64),
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
        self.states.put(trees * self.visits.shape[1], roots.states)
        self.size[trees] = 1
        self._evaluate(trees, np.zeros(len(trees), np.int64), roots)

    @cached_property
    def arrays(self) -> Arrays:
        """The same arrays for the compiled loops, which change them in place."""
        return Arrays(*(getattr(self, name) for name in Arrays._fields))

    def unrefuted(self) -> Array:
        """Actions at the roots that no proof rules out as the best, bool [B, A]; all legal ones without `bounds`."""
        known = self.lower[:, :1]
        return self.legal[:, 0] & ((self.child_lower[:, 0] >= known) | (self.child_upper[:, 0] > known))

    @property
    def ends(self) -> tuple[float, float]:
        """The bounds; infinite if there are none."""
        low, high = self.bounds or (-np.inf, np.inf)
        return float(low), float(high)

    @property
    def proven(self) -> Array:
        """Whether each root's value is known exactly, bool [B]."""
        return np.asarray(self.lower[:, 0] == self.upper[:, 0])

    def simulate(self, trees: Array, manner: Manner, expand: Expand[S]) -> None:
        """One simulation in each of `trees` int64 [N]: down to an untried action or a known node, and back.

        One call expands everything that is reached anew.
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
        reward, discount = (as_array(getattr(found, name), name, count) for name in ("reward", "discount"))
        over = as_array(found.terminal, "terminal", count, np.bool_)
        node = enter(self.arrays, tree, parent, action, self.size, reward, discount, over)
        self.states.put(tree * nodes + node, found.states)
        self._evaluate(tree, node, found)

    def _evaluate(self, tree: Array, node: Array, found: Roots[S]) -> None:
        each = len(tree), self.logits.shape[2]
        logits, legal = as_array(found.logits, "logits", each), as_array(found.legal, "legal", each, np.bool_)
        evaluate(self.arrays, tree, node, logits, as_array(found.value, "value", each[:1]), legal)


def as_array(x: Array, name: str, shape: tuple[int, ...], dtype: type = np.float64) -> Array:
    """`x` for the compiled loops. They do not check bounds, so this checks shapes."""
    found: Array = np.ascontiguousarray(x, dtype)
    if found.shape != shape:
        raise ConfigError(f"The search expected '{name}' of {list(shape)}, a row a state; got {list(found.shape)}.")
    return found
