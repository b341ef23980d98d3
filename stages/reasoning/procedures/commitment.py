"""Tileworld by procedures: in each period the agent commits to a plan, chosen by its worth in the current situation.

The plans are in `tileworld.plan`. Their worth comes from the agent: a head on the sense `situation`. The sense has the
recent rate of change, the number of holes and the time gone; the agent is not told the world's rate.
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
from stages.reasoning.procedures.library import Library, Option
from stages.reasoning.procedures.parser import shipped_library
from stages.reasoning.procedures.terms import LIST, Term
from stages.reasoning.procedures.tileworld import PLANNING, Tileworld

COMMITMENTS = ("bold", "cautious")
"""Names of the plans, in the order of the head's outputs."""
PERIOD = 75
"""Ticks after which the commitment is chosen anew."""
CYCLES = 20_000
"""Cycles of the interpreter, at most: an agent whose plans do nothing ends too."""


class Forced:
    """Utilities that always choose the same plan, or the plans of a list in turn."""

    def __init__(self, *names: str) -> None:
        self.names, self.chosen = names, 0

    def values(self, goal: Term, options: Sequence[Option]) -> Sequence[float]:
        """1 for the plan whose turn it is, else 0."""
        return [float(option.plan.name == self.names[self.chosen % len(self.names)]) for option in options]

    def choose(self, values: Sequence[float]) -> int:
        """The first of the best options."""
        return int(np.argmax(values))

    def situation(self, goal: Term) -> Hashable:
        """None: no situation is used."""
        return None

    def ended(self, situation: Hashable, option: Option, reward: float, ok: bool) -> None:
        """Go on to the next plan's turn."""
        if option.plan.name in self.names:
            self.chosen += 1


class Learned(Forced):
    """Utilities from an agent's head, for the situation of a Tileworld.

    Args:
        worth: `(situation [K]) -> [2]`, the worth of each of COMMITMENTS.
    """

    def __init__(self, live: Life, worth: Any) -> None:
        super().__init__()
        self.live, self.worth = live, worth
        self.cached: dict[bytes, Any] = {}

    def values(self, goal: Term, options: Sequence[Option]) -> Sequence[float]:
        """The head's values. If an option is not one of COMMITMENTS, all are worth 0."""
        if any(option.plan.name not in COMMITMENTS for option in options):
            return [0.0] * len(options)
        # One choice asks about the same situation several times.
        key = self.live.situation.tobytes()
        if key not in self.cached:
            self.cached = {key: self.worth(self.live.situation)}
        worth = self.cached[key]
        return [float(worth[COMMITMENTS.index(option.plan.name)]) for option in options]

    def ended(self, situation: Hashable, option: Option, reward: float, ok: bool) -> None:
        """Nothing is learned here."""


class Life:
    """One Tileworld as procedures sense it and act in it.

    Attributes:
        situations: float32 [K] each, noticed at the beginning of each period.
    """

    def __init__(self, world: Tileworld) -> None:
        self.world, self.until, self.seen = world, 0, (0, 0)
        self.situation = situation(world)
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
        """Commit until PERIOD ticks have passed."""
        self.until = self.world.tick + PERIOD
        self.situations.append(self.situation)

    def find_route(self) -> Term:
        """Plan a route. This takes time, so the route may be stale at once."""
        way = self.world.route()
        self.earn(self.world.spend(PLANNING))
        return (LIST, *way)

    def step(self, cell: int) -> bool | None:
        """Go to a cell; nothing happens if the time is up."""
        if not self.world.over:
            self.earn(self.world.step(cell))
        return None

    def earn(self, score: float) -> None:
        """Give the interpreter the score of a filled hole, and notice the situation."""
        self.situation = situation(self.world)
        if self.interpreter is not None and score:
            self.interpreter.earn(score)

    def run(self, library: Library, utilities: Any) -> float:
        """Run to the end; returns the world's effectiveness."""
        self.interpreter = Interpreter(library, Beliefs(sensed=self.sensed), self.actions, utilities)
        self.interpreter.run(CYCLES)
        return self.world.effectiveness


def situation(world: Tileworld) -> np.ndarray:
    """The situation, float32 [3]: logarithm of changes a tick so far, holes / 10, share of the time gone.

    In the first half of the first period the rate of change is unknown: the first number is NaN then.
    """
    changes = (world.opened + world.closed) / max(1, world.tick)
    known = np.log(changes + 0.01) if world.tick >= PERIOD // 2 else np.nan
    return np.array([known, len(world.holes) / 10, world.tick / world.ticks], np.float32)


def live(seed: int, rate: float, utilities: Any = None, worth: Any = None) -> tuple[float, list[np.ndarray]]:
    """Effectiveness in a world, and the situations in which commitments were chosen.

    Args:
        utilities: what chooses.
        worth: instead of `utilities`, the values of an agent's head, as `worths` gives them.
    """
    life = Life(Tileworld(seed, rate))
    chooser = utilities if worth is None else Learned(life, worth)
    return life.run(shipped_library("tileworld"), chooser), life.situations


def reactive(seed: int, rate: float) -> float:
    """Effectiveness of an agent that plans nothing and steps towards the nearest hole."""
    world = Tileworld(seed, rate)
    while not world.over:
        towards = world.towards()
        world.step(world.at if towards is None else towards)
    return world.effectiveness


def worths(agent: Agent, situation: np.ndarray) -> np.ndarray:
    """The worth of each of COMMITMENTS, float [2], that the agent's head gives in a situation [K]."""
    output = agent.evaluate({parts.SITUATION: torch.from_numpy(situation[None])}, [parts.WORTH])[parts.WORTH]
    return np.asarray(output.mode()[0].double().cpu().numpy())
