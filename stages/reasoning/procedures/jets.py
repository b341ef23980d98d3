"""The shuttle's jets for procedures: a routine that goes on, and failures that must be answered at once.

After the reaction control system of Georgeff and Ingrand (1989, "Decision-making in an embedded reasoning system").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stages.reasoning.procedures.beliefs import Beliefs
from stages.reasoning.procedures.interpreter import Intention, Interpreter
from stages.reasoning.procedures.library import Library

MANIFOLDS = {"manifold_1": ("jet_1", "jet_2"), "manifold_2": ("jet_3", "jet_4")}
VALVE_CYCLES = 5
"""Cycles from the order to close a valve until it is closed."""


class Jets:
    """Two manifolds with two jets each, and a log to be filled with lines.

    Args:
        failures: (cycle, fact) of each event, such as `failed_on(jet_1)` or `leaking(tank)`.
        lines: lines of the log.

    Attributes:
        done: (cycle, action, argument) of all actions.
    """

    def __init__(self, failures: Sequence[tuple[int, tuple[str, str]]], lines: int = 40) -> None:
        self.failures, self.lines, self.log = sorted(failures), lines, 0
        self.done: list[tuple[int, str, str]] = []
        self.closing: dict[str, int] = {}
        self.beliefs = Beliefs(sensed={"enough": lambda: self.log >= self.lines})
        for manifold, jets in MANIFOLDS.items():
            for jet in jets:
                self.beliefs.add(("feeds", manifold, jet))
        self.interpreter: Interpreter | None = None

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Jets:
        """One or two jets of different manifolds fail at random times; in half of the runs a tank leaks."""
        jets = [str(rng.choice(of)) for of in MANIFOLDS.values()][: int(rng.integers(1, 3))]
        failures = [(int(rng.integers(5, 60)), ("failed_on", jet)) for jet in jets]
        if rng.random() < 0.5:
            failures.append((int(rng.integers(5, 60)), ("leaking", "tank")))
        return cls(failures)

    @property
    def actions(self) -> dict[str, Any]:
        """The primitive actions of this world."""
        noted_actions = {name: self._noting(name) for name in ("read_pressure", "close", "rely_on", "alarm", "isolate")}
        return noted_actions | {"write_log": self.write_log}

    def write_log(self) -> None:
        """Write one more line."""
        self.log += 1
        self._note("write_log", "")

    def _noting(self, name: str) -> Any:
        return lambda argument: self._note(name, argument)

    def _note(self, action: str, argument: str) -> None:
        assert self.interpreter is not None
        self.done.append((self.interpreter.now, action, argument))
        if action == "close":
            self.closing[argument] = self.interpreter.now + VALVE_CYCLES

    def run(self, library: Library, cycles: int = 1000) -> Interpreter:
        """Run procedures that watch over the jets."""
        it = Interpreter(library, self.beliefs, self.actions)
        self.watched_by(it, cycles)
        return it

    def watched_by(self, it: Interpreter, cycles: int) -> list[Intention]:
        """Cycle an interpreter on these beliefs and actions; an event of a cycle is believed before the cycle begins.

        Returns:
            Every intention that there was.
        """
        self.interpreter, coming, met = it, list(self.failures), dict.fromkeys(it.intentions)
        for now in range(1, cycles + 1):
            while coming and coming[0][0] <= now:
                self.beliefs.add(coming.pop(0)[1])
            for manifold in [one for one, at in self.closing.items() if at <= now]:
                del self.closing[manifold]
                self.beliefs.add(("closed", manifold))
            it.cycle()
            met |= dict.fromkeys(it.intentions)
            if it.last_step is not None:  # an answer of one step has begun and ended in this cycle
                met.setdefault(it.last_step.intention)
            if not (coming or self.closing or it.intentions):
                break
        return list(met)
