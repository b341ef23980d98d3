"""Beam search guided by Q: each level keeps the `width` states of lowest cost and drops all others.

Each level takes one call of the guide, about all states of all beams. All states of a level have the same cost so far,
so a state is ranked by the Q of the pair that leads to it, and the guide evaluates only states that are kept. The
search never returns to a dropped state: it is fast, and proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from devmind.errors import ConfigError
from stages.reasoning.q_star import Guide, Solved, SolveResult, Step

_Chain: TypeAlias = "tuple[int, _Chain] | None"
"""An action and the chain of actions before it; None at the start."""


@dataclass
class _Beam:
    """The beam of one problem.

    Attributes:
        states: [W, ...], of this level.
        ways: W chains of actions that lead to the states.
        seen: bytes of all states that were in the beam.
    """

    states: np.ndarray
    ways: list[_Chain] = field(default_factory=lambda: [None])
    seen: set[bytes] = field(default_factory=set)
    asked: int = 0
    expanded: int = 0
    solution: list[int] | None = None

    def __post_init__(self) -> None:
        self.seen.update(state.tobytes() for state in self.states)

    def follow(self, q: np.ndarray, children: np.ndarray, there: np.ndarray, most: int) -> None:
        """Go to the next level.

        Args:
            q: float [W, A], the cost of each pair.
            children: [W * A, ...], the states that the pairs lead to.
            there: bool [W * A], which of these are solved.
            most: states to keep.
        """
        self.asked, self.expanded = self.asked + len(q), self.expanded + len(q)
        choices, chosen, order = q.shape[1], list[int](), np.argsort(q, axis=None, kind="stable")
        if there.any():
            at = int(order[there[order]][0])
            self.solution = _actions((at % choices, self.ways[at // choices]))
            return
        for at in map(int, order):
            if len(chosen) >= most:
                break
            if (key := children[at].tobytes()) not in self.seen:
                self.seen.add(key)
                chosen.append(at)
        self.states = children[chosen]
        self.ways = [(at % choices, self.ways[at // choices]) for at in chosen]


def beam(
    starts: np.ndarray, step: Step, solved: Solved, guide: Guide, *, width: int, depth: int, nodes: int
) -> list[SolveResult]:
    """Search each of P problems until a level has a solved state, a bound is reached, or no new state is left.

    With a guide of exact costs a width of 1 finds a shortest path. No other path is proven to be shortest.

    Args:
        starts: [P, ...].
        width: states of a level, at most.
        depth: levels, at most; also the actions of a path.
        nodes: states of a problem that the guide evaluates, at most.

    Raises:
        ConfigError: the width, the depth or the budget is less than 1.
    """
    if min(width, depth, nodes) < 1:
        raise ConfigError(
            f"A beam needs a width, a depth and nodes of at least 1; got a width of {width}, a depth of "
            f"{depth} and {nodes} nodes."
        )
    done = np.asarray(solved(starts))
    beams = [_Beam(start[None], solution=[] if there else None) for start, there in zip(starts, done, strict=True)]
    going = [one for one in beams if one.solution is None]
    for _ in range(depth):
        if not going:
            break
        states = np.concatenate([one.states for one in going])
        q = np.asarray(guide(states))
        choices = q.shape[1]
        children = step(np.repeat(states, choices, 0), np.tile(np.arange(choices), len(states)))
        there, end = np.asarray(solved(children)), 0
        for one in going:
            begin, end = end, end + len(one.states)
            pairs = slice(begin * choices, end * choices)
            one.follow(q[begin:end], children[pairs], there[pairs], min(width, nodes - one.asked - (end - begin)))
        going = [one for one in going if one.solution is None and len(one.states)]
    return [SolveResult(one.solution, one.asked, one.expanded) for one in beams]


def _actions(chain: _Chain) -> list[int]:
    """The actions of a chain in order, the first action first."""
    actions = []
    while chain is not None:
        action, chain = chain
        actions.append(action)
    return actions[::-1]
