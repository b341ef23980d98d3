"""Q*: A* over pairs of a state and an action, guided by Q, with one call of the Q function an expansion.

Agostinelli, Shperberg, Shmakov, McAleer, Fox, Baldi, "Q* search" (arXiv 2102.04518). A pair's priority is
`weight * g(state) + Q(state, action)`, where Q is the cost of the action and all that follows. A state is made only
when its pair is taken from the queue, so one call of Q on a state ranks all its children.

A search knows only functions. Many problems are searched side by side: each takes its best pairs, and one call of the
guide evaluates all states that they lead to.
"""

from __future__ import annotations

import heapq
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
class SolveResult:
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
class _Problem:
    """One search: its nodes with their parents, and a queue of the best pair of each node that is not taken yet; the
    lowest priority goes first.

    Args:
        weight: of the cost so far in a priority.

    Attributes:
        asked: states that the guide evaluated.
        best: the lowest cost so far, by the state's bytes.
        order, ranked: the actions of each node, the cheapest first, and their priorities.
        queue: tuples (priority, newest first, node, rank of the node's action).
    """

    weight: float
    parent: list[int] = field(default_factory=list)
    action: list[int] = field(default_factory=list)
    cost: list[int] = field(default_factory=list)
    states: list[np.ndarray] = field(default_factory=list)
    best: dict[bytes, int] = field(default_factory=dict)
    order: list[np.ndarray] = field(default_factory=list)
    ranked: list[np.ndarray] = field(default_factory=list)
    queue: list[tuple[float, int, int, int]] = field(default_factory=list)
    asked: int = 0
    opened: set[int] = field(default_factory=set)
    solution: list[int] | None = None

    def add(self, state: np.ndarray, q: np.ndarray, parent: int = -1, action: int = -1) -> None:
        """Add a node whose actions the guide has evaluated: they cost `q` [A] with all that follows."""
        self.asked += 1
        self.parent.append(parent)
        self.action.append(action)
        self.cost.append(self.cost[parent] + 1 if parent >= 0 else 0)
        self.states.append(state)
        order = np.argsort(q, kind="stable")
        self.order.append(order)
        self.ranked.append(self.weight * self.cost[-1] + q[order])
        self._push(len(self.parent) - 1, 0)

    def _push(self, node: int, rank: int) -> None:
        if rank < len(self.order[node]):
            heapq.heappush(self.queue, (float(self.ranked[node][rank]), -node, node, rank))

    def take(self, most: int) -> list[tuple[int, int]]:
        """Take the best pairs."""
        taken: list[tuple[int, int]] = []
        while self.queue and len(taken) < most:
            _, _, node, rank = heapq.heappop(self.queue)
            self._push(node, rank + 1)
            taken.append((node, int(self.order[node][rank])))
        return taken

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


def q_star(
    starts: np.ndarray, step: Step, solved: Solved, guide: Guide, *, nodes: int, batch: int = 1, weight: float = 1.0
) -> list[SolveResult]:
    """Search each of P problems until a solved state is made, or until Q has evaluated `nodes` of its states.

    With `batch` 1, `weight` 1 and a Q that never overestimates, the path found is a shortest one.

    Args:
        starts: [P, ...].
        batch: pairs that a problem takes from its queue at once.
        weight: of the cost so far; below 1 the search is greedier: it finds longer paths with fewer nodes.

    Raises:
        ConfigError: the budget or the batch is less than 1.
    """
    if nodes < 1 or batch < 1:
        raise ConfigError(f"A search needs at least one node, and a batch of at least one; got {nodes} and {batch}.")
    problems, already_solved = [_Problem(weight) for _ in starts], np.asarray(solved(starts))
    for problem, state, there in zip(problems, starts, already_solved, strict=True):
        problem.best[state.tobytes()] = 0
        if there:
            problem.solution = []
    going = [int(number) for number in np.flatnonzero(~already_solved)]
    if going:
        for number, q in zip(going, guide(starts[going]), strict=True):
            problems[number].add(starts[number], q)
    while going:
        taken = [(n, *pair) for n in going for pair in problems[n].take(min(batch, nodes - problems[n].asked))]
        if taken:
            _make(problems, taken, step, solved, guide, nodes)
        going = [n for n in going if problems[n].solution is None and problems[n].queue and problems[n].asked < nodes]
    return [SolveResult(problem.solution, problem.asked, len(problem.opened)) for problem in problems]


def _make(
    problems: Sequence[_Problem],
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
            problem.solution = [*problem.way(node), action]  # the pair was the best of all
        elif left[number] and problem.is_new(state, node):
            left[number] -= 1
            fresh.append((at, number, node, action))
    fresh = [one for one in fresh if problems[one[1]].solution is None]
    if fresh:
        for (at, number, node, action), q in zip(fresh, guide(children[[at for at, *_ in fresh]]), strict=True):
            problems[number].add(children[at], q, node, action)


def follow(starts: np.ndarray, step: Step, solved: Solved, guide: Guide, most: int) -> np.ndarray:
    """Which problems are solved, bool [P], by taking the cheapest action `most` times, without search."""
    states, reached = starts.copy(), np.asarray(solved(starts))
    for _ in range(most):
        going = np.flatnonzero(~reached)
        if not len(going):
            break
        states[going] = step(states[going], guide(states[going]).argmin(-1))
        reached[going] = solved(states[going])
    return reached
