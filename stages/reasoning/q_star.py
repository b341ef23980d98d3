"""Q*: A* over pairs of a state and an action, guided by Q; one call of the Q function an expansion.

Agostinelli, Shperberg, Shmakov, McAleer, Fox, Baldi, "Q* search" (arXiv 2102.04518). A pair's priority is
`weight * g(state) + Q(state, action)`, where Q is the cost of the action and of all that follows; a state is made only
when its pair is taken from the queue, so one call of Q on a state ranks all its children.

The search knows functions and nothing else. Many problems are searched side by side: each takes its best pairs, and
what all of them lead to is given to Q in one call.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from devmind.errors import ConfigError

Step = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""`(states [N, ...], actions int64 [N]) -> states [N, ...]`; each action costs 1."""
Solved = Callable[[np.ndarray], np.ndarray]
"""`states [N, ...] -> bool [N]`."""
Guide = Callable[[np.ndarray], np.ndarray]
"""`states [N, ...] -> float [N, A]`: cost to go through each action, the action's own 1 included."""


@dataclass(frozen=True)
class Way:
    """What the search of one problem came to.

    Attributes:
        actions: that lead to a solved state; None where the budget ended before there was one.
        nodes: states that Q was asked about, the first one included.
    """

    actions: list[int] | None
    nodes: int


@dataclass
class _Problem:
    """One search: its nodes with their parents, and the queue of (priority, newest first, node, rank of action)."""

    parent: list[int] = field(default_factory=list)
    action: list[int] = field(default_factory=list)
    cost: list[int] = field(default_factory=list)
    states: list[np.ndarray] = field(default_factory=list)
    order: list[np.ndarray] = field(default_factory=list)
    ranked: list[np.ndarray] = field(default_factory=list)
    best: dict[bytes, int] = field(default_factory=dict)
    queue: list[tuple[float, int, int, int]] = field(default_factory=list)
    found: list[int] | None = None

    def add(self, state: np.ndarray, q: np.ndarray, parent: int, action: int, cost: int, weight: float) -> None:
        """A node whose children are ranked; only the best of them is queued, the next one when that is taken."""
        order = np.argsort(q, kind="stable")
        self.parent.append(parent)
        self.action.append(action)
        self.cost.append(cost)
        self.states.append(state)
        self.order.append(order)
        self.ranked.append(weight * cost + q[order])
        self.push(len(self.parent) - 1, 0)

    def push(self, node: int, rank: int) -> None:
        if rank < len(self.order[node]):
            heapq.heappush(self.queue, (float(self.ranked[node][rank]), -node, node, rank))

    def way(self, node: int, last: int) -> list[int]:
        actions = [last]
        while self.parent[node] >= 0:
            actions.append(self.action[node])
            node = self.parent[node]
        return actions[::-1]


def q_star(
    starts: np.ndarray, step: Step, solved: Solved, guide: Guide, *, nodes: int, batch: int = 1, weight: float = 1.0
) -> list[Way]:
    """Search each of P problems until a solved state is made, or Q was asked about `nodes` of its states.

    With a Q that never says too much, and `batch` 1 and `weight` 1, the way found is a shortest one.

    Args:
        starts: [P, ...].
        batch: pairs that a problem takes from its queue at once.
        weight: of the cost so far; below 1 the search is greedier, and finds longer ways with fewer nodes.

    Raises:
        ConfigError: the budget or the batch is less than 1.
    """
    if nodes < 1 or batch < 1:
        raise ConfigError(f"A search asks about one state at least, one pair at a time; got {nodes} and {batch}.")
    problems = [_Problem() for _ in starts]
    over = np.asarray(solved(starts))
    for problem, state, there in zip(problems, starts, over, strict=True):
        problem.best[state.tobytes()] = 0
        if there:
            problem.found = []
    going = np.flatnonzero(~over)
    if len(going):
        for number, q in zip(going, guide(starts[going]), strict=True):
            problems[number].add(starts[number], q, -1, -1, 0, weight)
    while len(going):
        taken = [
            (n, *pair) for n in going for pair in _best_pairs(problems[n], min(batch, nodes - len(problems[n].parent)))
        ]
        if not taken:
            break
        made = step(
            np.stack([problems[n].states[node] for n, node, _ in taken]), np.array([action for *_, action in taken])
        )
        fresh = []
        for at, ((number, node, action), state, there) in enumerate(zip(taken, made, solved(made), strict=True)):
            problem = problems[number]
            if problem.found is not None:
                continue
            if there:
                problem.found = problem.way(node, action)
                continue
            key, cost = state.tobytes(), problem.cost[node] + 1
            if problem.best.get(key, cost + 1) > cost:
                problem.best[key] = cost
                fresh.append((at, number, node, action, cost))
        fresh = [one for one in fresh if problems[one[1]].found is None]
        if fresh:
            asked = guide(made[[at for at, *_ in fresh]])
            for (at, number, node, action, cost), q in zip(fresh, asked, strict=True):
                problems[number].add(made[at], q, node, action, cost, weight)
        going = np.array(
            [n for n in going if problems[n].found is None and problems[n].queue and len(problems[n].parent) < nodes],
            np.int64,
        )
    return [Way(problem.found, len(problem.parent)) for problem in problems]


def follow(starts: np.ndarray, step: Step, solved: Solved, guide: Guide, most: int) -> np.ndarray:
    """Which problems are solved, bool [P], by always taking the action that costs least, `most` times: no search."""
    states, over = starts.copy(), np.asarray(solved(starts))
    for _ in range(most):
        going = np.flatnonzero(~over)
        if not len(going):
            break
        states[going] = step(states[going], guide(states[going]).argmin(-1))
        over[going] = solved(states[going])
    return over


def _best_pairs(problem: _Problem, batch: int) -> list[tuple[int, int]]:
    """Take up to `batch` pairs (node, action) from the queue."""
    taken: list[tuple[int, int]] = []
    while problem.queue and len(taken) < batch:
        _, _, node, rank = heapq.heappop(problem.queue)
        problem.push(node, rank + 1)
        taken.append((node, int(problem.order[node][rank])))
    return taken
