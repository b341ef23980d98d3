"""Q*: A* over pairs of a state and an action, guided by Q, with one call of the Q function an expansion.

Agostinelli, Shperberg, Shmakov, McAleer, Fox, Baldi, "Q* search" (arXiv 2102.04518). A pair's priority is
`weight * g(state) + Q(state, action)`, where Q is the cost of the action and all that follows. A state is made only
when its pair is taken from the queue, so one call of Q on a state ranks all its children.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from stages.reasoning.best_first import Guide, Problem, Solved, Step, Way, best_first


@dataclass
class _Pairs(Problem):
    """The queue holds, of each node, its best pair that is not taken yet."""

    order: list[np.ndarray] = field(default_factory=list)
    ranked: list[np.ndarray] = field(default_factory=list)

    def rank(self, node: int, q: np.ndarray) -> None:
        """Rank the node's children; only the best is queued, and the next one when that is taken."""
        order = np.argsort(q, kind="stable")
        self.order.append(order)
        self.ranked.append(self.weight * self.cost[node] + q[order])
        self._push(node, 0)

    def _push(self, node: int, rank: int) -> None:
        if rank < len(self.order[node]):
            self.push(float(self.ranked[node][rank]), node, rank)

    def take(self, most: int) -> list[tuple[int, int]]:
        """Take the best pairs."""
        taken: list[tuple[int, int]] = []
        while self.queue and len(taken) < most:
            _, _, node, rank = heapq.heappop(self.queue)
            self._push(node, rank + 1)
            taken.append((node, int(self.order[node][rank])))
        return taken

    def arrive(self, state: np.ndarray, node: int, action: int) -> None:
        """The pair was the best of all, so the search is over."""
        self.solution = [*self.way(node), action]


def q_star(
    starts: np.ndarray, step: Step, solved: Solved, guide: Guide, *, nodes: int, batch: int = 1, weight: float = 1.0
) -> list[Way]:
    """Search each of P problems until a solved state is made, or until Q has evaluated `nodes` of its states.

    With `batch` 1, `weight` 1 and a Q that never overestimates, the path found is a shortest one.

    Args:
        starts: [P, ...].
        batch: pairs that a problem takes from its queue at once.
        weight: of the cost so far; below 1 the search is greedier: it finds longer paths with fewer nodes.

    Raises:
        ConfigError: the budget or the batch is less than 1.
    """
    problems = [_Pairs(weight) for _ in starts]
    return best_first(problems, starts, step, solved, guide, nodes=nodes, batch=batch)


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
