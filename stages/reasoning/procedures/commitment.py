"""Living in Tileworld by procedures: a commitment for each period, chosen by what it is worth in the situation at hand.

The plans are in `tileworld.plan`. What they are worth is the agent's: a head on the sense `situation`, which says what
is noticed, how much has changed of late and how many holes there are, and nothing of the world's rate.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch

from devmind.agent.agent import Agent
from stages.reasoning import parts
from stages.reasoning.procedures.beliefs import Beliefs
from stages.reasoning.procedures.interpreter import Action, Interpreter
from stages.reasoning.procedures.library import shipped
from stages.reasoning.procedures.plans import Library, Option
from stages.reasoning.procedures.terms import LIST, Term
from stages.reasoning.procedures.tileworld import PLANNING, Tileworld

COMMITMENTS = ("bold", "cautious")
"""Names of the plans, in the order of the head's numbers."""
PERIOD = 75
"""Ticks after which the commitment is chosen anew."""
CYCLES = 20_000
"""Of the interpreter, at most: an agent whose plans do nothing ends too."""


class Forced:
    """Utilities of whoever always chooses the same plan, or a list of them in turn."""

    def __init__(self, *names: str) -> None:
        self.names, self.chosen = names, 0

    def values(self, goal: Term, options: Sequence[Option]) -> Sequence[float]:
        """1 for the plan whose turn it is."""
        return [float(option.plan.name == self.names[self.chosen % len(self.names)]) for option in options]

    def choose(self, values: Sequence[float]) -> int:
        """The first of the best."""
        return int(np.argmax(values))

    def situation(self, goal: Term) -> Hashable:
        """None: it looks at nothing."""
        return None

    def ended(self, situation: Hashable, option: Option, reward: float, ok: bool) -> None:
        """The next one's turn."""
        if option.plan.name in self.names:
            self.chosen += 1


class Learned(Forced):
    """Utilities that an agent's head gives for the situation of a Tileworld.

    Args:
        values: `(situation [K]) -> [2]`, what each of COMMITMENTS is worth.
    """

    def __init__(self, live: Life, worth: Any) -> None:
        super().__init__()
        self.live, self.worth = live, worth
        self.told: dict[bytes, Any] = {}

    def values(self, goal: Term, options: Sequence[Option]) -> Sequence[float]:
        """What the head says; goals it was not taught are all worth the same."""
        if any(option.plan.name not in COMMITMENTS for option in options):
            return [0.0] * len(options)
        # A choice asks several times of the same situation.
        key = self.live.situation.tobytes()
        if key not in self.told:
            self.told = {key: self.worth(self.live.situation)}
        worth = self.told[key]
        return [float(worth[COMMITMENTS.index(option.plan.name)]) for option in options]

    def ended(self, situation: Hashable, option: Option, reward: float, ok: bool) -> None:
        """Nothing is learned here."""


class Life:
    """One Tileworld as what procedures sense and do.

    Attributes:
        situations: float32 [K], noticed at the beginning of each period.
    """

    def __init__(self, world: Tileworld) -> None:
        self.world, self.until, self.seen = world, 0, (0, 0)
        self.situation = noticed(world)
        self.situations: list[np.ndarray] = []
        self.sensed = {"playing": lambda: not world.over, "working": lambda: world.tick < self.until and not world.over}
        self.actions: dict[str, Action] = {
            "begin_period": self.begin_period,
            "find_route": self.find_route,
            "step": self.step,
            "step_first": lambda way: self.step(way[1]),
            "rest": lambda: self.earn(world.spend()),
        }
        self.interpreter: Interpreter | None = None

    def begin_period(self) -> None:
        """The commitment is made until PERIOD ticks have passed."""
        self.until = self.world.tick + PERIOD
        self.situations.append(self.situation)

    def find_route(self) -> Term:
        """Plan, which takes time: the route may be stale as soon as it is found."""
        way = self.world.route()
        self.earn(self.world.spend(PLANNING))
        return (LIST, *way)

    def step(self, cell: int) -> bool | None:
        """Go there; there is nothing to do where the time is up."""
        if not self.world.over:
            self.earn(self.world.step(cell))
        return None

    def earn(self, score: float) -> None:
        """Of a hole, by all that there was so far."""
        self.situation = noticed(self.world)
        if self.interpreter is not None and score:
            self.interpreter.earn(score)

    def run(self, library: Library, utilities: Any) -> float:
        """Live to the end; the world's effectiveness."""
        self.interpreter = Interpreter(library, Beliefs(sensed=self.sensed), self.actions, utilities)
        self.interpreter.run(CYCLES)
        return self.world.effectiveness


def noticed(world: Tileworld) -> np.ndarray:
    """The situation, float32 [3]: changes a tick so far (its logarithm), holes there are, share of the time gone.

    Before the first period is over nobody knows how much changes: the first number is absent then.
    """
    changes = (world.opened + world.closed) / max(1, world.tick)
    known = np.log(changes + 0.01) if world.tick >= PERIOD // 2 else np.nan
    return np.array([known, len(world.holes) / 10, world.tick / world.ticks], np.float32)


def live(seed: int, rate: float, utilities: Any = None, worth: Any = None) -> tuple[float, list[np.ndarray]]:
    """Effectiveness in a world, and the situations in which commitments were chosen.

    Args:
        utilities: who chooses; or worth: what an agent's head says, as `worths` gives it.
    """
    life = Life(Tileworld(seed, rate))
    chooser = utilities if worth is None else Learned(life, worth)
    return life.run(shipped("tileworld"), chooser), life.situations


def reactive(seed: int, rate: float) -> float:
    """Effectiveness of who plans nothing and steps towards the nearest hole."""
    world = Tileworld(seed, rate)
    while not world.over:
        towards = world.towards()
        world.step(world.at if towards is None else towards)
    return world.effectiveness


def worths(agent: Agent, situation: np.ndarray) -> np.ndarray:
    """What each of COMMITMENTS is worth, float [2], as the agent's head says of a situation [K]."""
    found = agent.evaluate({parts.SITUATION: torch.from_numpy(situation[None])}, [parts.WORTH])[parts.WORTH]
    return np.asarray(found.mode()[0].double().cpu().numpy())
