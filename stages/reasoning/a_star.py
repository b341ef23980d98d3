"""A* over states, guided by V(state) = the least that Q says of its actions: what Q* is held against.

A state's priority is `weight * g(state) + V(state)`, with V(solved) = 0. V ranks a state only when the network was
asked about that state itself, so an expansion takes a call of it for each child, where Q* takes one for all of them.
Batched and weighted as in Agostinelli, McAleer, Shmakov, Baldi 2019, "Solving the Rubik's cube with deep reinforcement
learning and search"; without its early end at the first solved state that is made.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from stages.reasoning.best_first import Guide, Problem, Solved, Step, Way, best_first


@dataclass
class _States(Problem):
    """Its queue holds states; those that are solved have no rank, and end the search when they are taken."""

    choices: int = 0

    def rank(self, node: int, q: np.ndarray) -> None:
        """By the least of its actions."""
        self.choices = len(q)
        self.push(self.weight * self.cost[node] + float(q.min()), node)

    def take(self, most: int) -> list[tuple[int, int]]:
        """All pairs of the best `most` states; none of those that a shorter way has reached since."""
        taken: list[tuple[int, int]] = []
        while self.queue and len(taken) < most * self.choices:
            _, _, node, solved = heapq.heappop(self.queue)
            if solved:
                self.found = self.way(node)
                return []
            if self.best[self.states[node].tobytes()] == self.cost[node]:
                taken += [(node, action) for action in range(self.choices)]
        return taken

    def arrive(self, state: np.ndarray, node: int, action: int) -> None:
        """Queued by what it has cost: another way may be shorter."""
        there = self.add(state, node, action)
        self.push(self.weight * self.cost[there], there, 1)


def a_star(
    starts: np.ndarray, step: Step, solved: Solved, guide: Guide, *, nodes: int, batch: int = 1, weight: float = 1.0
) -> list[Way]:
    """Search each of P problems until a solved state is the best, or the guide was asked about `nodes` of its states.

    With a guide whose least never says too much, and `batch` 1 and `weight` 1, the way found is a shortest one.

    Args:
        starts: [P, ...].
        batch: states that a problem takes from its queue at once.
        weight: of the cost so far; below 1 the search is greedier, and finds longer ways with fewer nodes.

    Raises:
        ConfigError: the budget or the batch is less than 1.
    """
    return best_first([_States(weight) for _ in starts], starts, step, solved, guide, nodes=nodes, batch=batch)
