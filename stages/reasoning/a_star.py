"""A* over states, guided by V(state), the least Q of the state's actions; the comparison for Q*.

A state's priority is `weight * g(state) + V(state)`, with V(solved) = 0. The guide has to evaluate a state before V can
rank it. So an expansion takes one call of the network for each child, where Q* takes one call for all of them. Batches
and weight are those of Agostinelli, McAleer, Shmakov and Baldi 2019, "Solving the Rubik's cube with deep reinforcement
learning and search". Unlike there, the search does not stop at the first solved state that is made.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from stages.reasoning.best_first import Guide, Problem, Solved, Step, Way, best_first


@dataclass
class _States(Problem):
    """The queue holds states. A solved state is not ranked; it ends the search when it is taken."""

    choices: int = 0

    def rank(self, node: int, q: np.ndarray) -> None:
        """Queue the node by the least cost of its actions."""
        self.choices = len(q)
        self.push(self.weight * self.cost[node] + float(q.min()), node)

    def take(self, most: int) -> list[tuple[int, int]]:
        """Take all pairs of the best `most` states, except states that a shorter path has reached since."""
        taken: list[tuple[int, int]] = []
        while self.queue and len(taken) < most * self.choices:
            _, _, node, solved = heapq.heappop(self.queue)
            if solved:
                self.solution = self.way(node)
                return []
            if self.best[self.states[node].tobytes()] == self.cost[node]:
                taken += [(node, action) for action in range(self.choices)]
        return taken

    def arrive(self, state: np.ndarray, node: int, action: int) -> None:
        """Queue the solved state by its cost so far, because another path may be shorter."""
        there = self.add(state, node, action)
        self.push(self.weight * self.cost[there], there, 1)


def a_star(
    starts: np.ndarray, step: Step, solved: Solved, guide: Guide, *, nodes: int, batch: int = 1, weight: float = 1.0
) -> list[Way]:
    """Search each of P problems until a solved state is the best, or until the guide has evaluated `nodes` of its
    states.

    With `batch` 1, `weight` 1 and a guide whose V never overestimates, the path found is a shortest one.

    Args:
        starts: [P, ...].
        batch: states that a problem takes from its queue at once.
        weight: of the cost so far; below 1 the search is greedier: it finds longer paths with fewer nodes.

    Raises:
        ConfigError: the budget or the batch is less than 1.
    """
    return best_first([_States(weight) for _ in starts], starts, step, solved, guide, nodes=nodes, batch=batch)
