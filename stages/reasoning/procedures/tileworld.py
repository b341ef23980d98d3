"""Tileworld without tiles, as Kinny and Georgeff (1991) simplify it: holes appear and vanish while the agent walks.

"Commitment and effectiveness of situated agents", IJCAI 91. A grid has obstacles. Holes come at random times, each with
a score and a life. Planning a route takes one of the agent's ticks, and a step takes three. The world's clock advances
`rate` ticks in each of the agent's. Effectiveness is the collected score divided by that of all holes that came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from devmind.seeding import numpy_rng

SIDE, OBSTACLES = 12, 40
GESTATION, LIFE, SCORE = (10.0, 50.0), (60.0, 240.0), (1.0, 10.0)
"""Ticks of the world between two holes, and of a hole's life; a hole's score. All uniform."""
PLANNING, STEP = 1, 3
"""Ticks of the agent for a plan, and for a step."""
BEGINS_WITH = 3
"""Holes at the beginning."""
TICKS = 300
"""Ticks of the agent in a world."""
Cell = int
"""row * SIDE + column."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A hole in a cell, from `opens` to `closes` on the world's clock."""

    cell: Cell
    opens: float
    closes: float
    score: float


class Tileworld:
    """One world and the agent's place in it. The schedule of holes depends only on seed, rate and ticks, not on the
    agent.

    Args:
        seed: of obstacles and holes.
        rate: ticks of the world's clock in one tick of the agent.
        ticks: of the agent, after which the world is over.

    Attributes:
        at: the agent's cell.
        tick: of the agent; clock: of the world.
        holes: the open holes, by cell.
        collected, offered: the score so far, and that of all holes that came.
        opened, closed: holes that came, and holes that vanished unfilled.
    """

    def __init__(self, seed: int, rate: float, ticks: int = TICKS) -> None:
        self.seed, self.rate, self.ticks = seed, rate, ticks
        rng = numpy_rng("tileworld", seed)
        self.free, self.steps = _grid(rng)
        self.at: Cell = int(rng.choice(self.free))
        self._coming = deque(self._schedule(rng, rate * ticks))
        self.tick, self.clock, self.collected, self.offered = 0, 0.0, 0.0, 0.0
        self.holes: dict[Cell, Hole] = {}
        self.opened = self.closed = 0
        self._let_pass(0.0)
        self._fill()

    def _schedule(self, rng: np.random.Generator, until: float) -> list[Hole]:
        holes, clock, n = list[Hole](), 0.0, 0
        while clock <= until:
            clock += 0.0 if n < BEGINS_WITH else rng.uniform(*GESTATION)
            life = rng.uniform(*LIFE)
            holes.append(Hole(int(rng.choice(self.free)), clock, clock + life, round(rng.uniform(*SCORE))))
            n += 1
        return holes

    @property
    def over(self) -> bool:
        """Whether the agent's time is up."""
        return self.tick >= self.ticks

    @property
    def effectiveness(self) -> float:
        """The collected score divided by the offered one."""
        return self.collected / self.offered if self.offered else 0.0

    def _let_pass(self, ticks: float) -> None:
        """Advance the world's clock: holes close, and open where no other hole is."""
        self.clock += ticks
        for cell in [cell for cell, hole in self.holes.items() if hole.closes <= self.clock]:
            del self.holes[cell]
            self.closed += 1
        while self._coming and self._coming[0].opens <= self.clock:
            hole = self._coming.popleft()
            self.offered += hole.score
            self.opened += 1
            if hole.closes > self.clock and hole.cell not in self.holes:
                self.holes[hole.cell] = hole

    def spend(self, ticks: int = 1) -> float:
        """Let some of the agent's ticks pass; returns the score of holes that open under the agent, which it fills."""
        before = self.collected
        for _ in range(ticks):
            self.tick += 1
            self._let_pass(self.rate)
            self._fill()
        return self.collected - before

    def step(self, cell: Cell) -> float:
        """Go to a neighbouring cell; returns the score. An impossible step only takes the time."""
        if cell in self.steps[self.at]:
            self.at = cell
            earned = self._fill()
        else:
            earned = 0.0
        return earned + self.spend(STEP)

    def _fill(self) -> float:
        hole = self.holes.pop(self.at, None)
        earned = hole.score if hole else 0.0
        self.collected += earned
        return earned

    def route(self) -> list[Cell]:
        """The cells to the hole of highest score a step, by breadth-first search; [] without a hole."""
        previous, queue = {self.at: self.at}, deque([(self.at, 0)])
        best, goal = 0.0, -1
        while queue:
            cell, distance = queue.popleft()
            hole = self.holes.get(cell)
            if hole is not None and hole.score / distance > best:
                best, goal = hole.score / distance, cell
            for other in self.steps[cell]:
                if other not in previous:
                    previous[other] = cell
                    queue.append((other, distance + 1))
        way = list[Cell]()
        while goal >= 0 and goal != self.at:
            way.append(goal)
            goal = previous[goal]
        return way[::-1]

    def towards(self) -> Cell | None:
        """The neighbouring cell nearest to the nearest hole, ignoring obstacles: the step of an agent that does not
        plan.
        """
        if not self.holes:
            return None
        near = min(self.holes, key=lambda cell: apart(self.at, cell))
        return min(self.steps[self.at], key=lambda cell: apart(cell, near), default=None)


def apart(one: Cell, other: Cell) -> int:
    """The steps between two cells, ignoring obstacles."""
    return abs(one // SIDE - other // SIDE) + abs(one % SIDE - other % SIDE)


def _grid(rng: np.random.Generator) -> tuple[list[Cell], dict[Cell, Sequence[Cell]]]:
    """The cells that can be reached from each other, and the neighbours of each."""
    blocked = set(rng.choice(SIDE * SIDE, OBSTACLES, replace=False).tolist())
    steps: dict[Cell, Sequence[Cell]] = {}
    for cell in range(SIDE * SIDE):
        if cell not in blocked:
            row, column = divmod(cell, SIDE)
            beside = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
            inside = [r * SIDE + c for r, c in beside if 0 <= r < SIDE and 0 <= c < SIDE]
            steps[cell] = tuple(other for other in inside if other not in blocked)
    reached, queue = set[Cell](), [max(steps, key=lambda cell: len(steps[cell]))]
    while queue:
        cell = queue.pop()
        if cell not in reached:
            reached.add(cell)
            queue += steps[cell]
    return sorted(reached), {cell: steps[cell] for cell in sorted(reached)}
