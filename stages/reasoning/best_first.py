"""Shared by the guided searches: the types of their functions, their result, and a best-first loop.

A search knows only functions. Many problems are searched side by side: each takes its best nodes, and one call of the
guide evaluates all states that they lead to.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from devmind.errors import ConfigError

Step = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""`(states [N, ...], actions int64 [N]) -> states [N, ...]`; each action costs 1."""
Solved = Callable[[np.ndarray], np.ndarray]
"""`states [N, ...] -> bool [N]`."""
Guide = Callable[[np.ndarray], np.ndarray]
"""`states [N, ...] -> float [N, A]`: the cost of each action and all that follows; the action's own cost is 1."""


@dataclass(frozen=True)
class Way:
    """The result of the search of one problem.

    Attributes:
        actions: a path to a solved state; None if the budget ended first.
        nodes: states that the guide evaluated, the first one included.
        expanded: states of which at least one child was made.
    """

    actions: list[int] | None
    nodes: int
    expanded: int = 0


@dataclass
class Problem(ABC):
    """One search: its nodes with their parents, and a queue in which the lowest priority goes first.

    Args:
        weight: of the cost so far in a priority.

    Attributes:
        asked: states that the guide evaluated.
        best: the lowest cost so far, by the state's bytes.
        queue: tuples (priority, newest first, node, rank of the node's action).
    """

    weight: float
    parent: list[int] = field(default_factory=list)
    action: list[int] = field(default_factory=list)
    cost: list[int] = field(default_factory=list)
    states: list[np.ndarray] = field(default_factory=list)
    best: dict[bytes, int] = field(default_factory=dict)
    queue: list[tuple[float, int, int, int]] = field(default_factory=list)
    asked: int = 0
    opened: set[int] = field(default_factory=set)
    solution: list[int] | None = None

    @abstractmethod
    def rank(self, node: int, q: np.ndarray) -> None:
        """Queue a node. Its actions cost `q` [A] with all that follows."""

    @abstractmethod
    def take(self, most: int) -> list[tuple[int, int]]:
        """Take up to `most` entries from the queue: the pairs (node, action) whose states are to be made."""

    @abstractmethod
    def arrive(self, state: np.ndarray, node: int, action: int) -> None:
        """Handle a solved state that an action of a node has made."""

    def add(self, state: np.ndarray, parent: int, action: int) -> int:
        """Add a node; returns its number."""
        self.parent.append(parent)
        self.action.append(action)
        self.cost.append(self.cost[parent] + 1 if parent >= 0 else 0)
        self.states.append(state)
        return len(self.parent) - 1

    def ask(self, state: np.ndarray, q: np.ndarray, parent: int = -1, action: int = -1) -> None:
        """Add a node whose actions the guide has evaluated."""
        self.asked += 1
        self.rank(self.add(state, parent, action), q)

    def push(self, priority: float, node: int, rank: int = 0) -> None:
        """Queue a node, or its action of this rank."""
        heapq.heappush(self.queue, (priority, -node, node, rank))

    def way(self, node: int) -> list[int]:
        """The actions that lead to a node."""
        actions = []
        while self.parent[node] >= 0:
            actions.append(self.action[node])
            node = self.parent[node]
        return actions[::-1]

    def is_new(self, state: np.ndarray, node: int) -> bool:
        """Whether no path as short has met the state that a node's action has made. It counts as met from now on."""
        key, cost = state.tobytes(), self.cost[node] + 1
        if self.best.get(key, cost + 1) <= cost:
            return False
        self.best[key] = cost
        return True

    def result(self) -> Way:
        """The result."""
        return Way(self.solution, self.asked, len(self.opened))


def best_first(
    problems: Sequence[Problem],
    starts: np.ndarray,
    step: Step,
    solved: Solved,
    guide: Guide,
    *,
    nodes: int,
    batch: int,
) -> list[Way]:
    """Search each of P fresh problems until a path is found, or until the guide has evaluated `nodes` of its states.

    Args:
        starts: [P, ...].
        batch: entries that a problem takes from its queue at once.

    Raises:
        ConfigError: the budget or the batch is less than 1.
    """
    if nodes < 1 or batch < 1:
        raise ConfigError(f"A search needs at least one node, and a batch of at least one; got {nodes} and {batch}.")
    already_solved = np.asarray(solved(starts))
    for problem, state, there in zip(problems, starts, already_solved, strict=True):
        problem.best[state.tobytes()] = 0
        if there:
            problem.solution = []
    going = [int(number) for number in np.flatnonzero(~already_solved)]
    if going:
        for number, q in zip(going, guide(starts[going]), strict=True):
            problems[number].ask(starts[number], q)
    while going:
        taken = [(n, *pair) for n in going for pair in problems[n].take(min(batch, nodes - problems[n].asked))]
        if taken:
            _make(problems, taken, step, solved, guide, nodes)
        going = [n for n in going if problems[n].solution is None and problems[n].queue and problems[n].asked < nodes]
    return [problem.result() for problem in problems]


def _make(
    problems: Sequence[Problem],
    taken: list[tuple[int, int, int]],
    step: Step,
    solved: Solved,
    guide: Guide,
    nodes: int,
) -> None:
    """Make the states of (problem, node, action), and evaluate the new ones as far as the budget goes."""
    children = step(
        np.stack([problems[n].states[node] for n, node, _ in taken]), np.array([action for *_, action in taken])
    )
    fresh, left = list[tuple[int, int, int, int]](), {n: nodes - problems[n].asked for n, *_ in taken}
    for at, ((number, node, action), state, there) in enumerate(zip(taken, children, solved(children), strict=True)):
        problem = problems[number]
        if problem.solution is not None:
            continue
        problem.opened.add(node)
        if there:
            problem.arrive(state, node, action)
        elif left[number] and problem.is_new(state, node):
            left[number] -= 1
            fresh.append((at, number, node, action))
    fresh = [one for one in fresh if problems[one[1]].solution is None]
    if fresh:
        for (at, number, node, action), q in zip(fresh, guide(children[[at for at, *_ in fresh]]), strict=True):
            problems[number].ask(children[at], q, node, action)
