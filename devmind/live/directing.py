"""A director in a life: it gets the agent's beliefs and memory's answers, and the recording gets what it moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from devmind.acting.directing import Director, Observation
from devmind.agent.agent import Agent, StepOutput
from devmind.agent.output import Output
from devmind.agent.taps import Percepts
from devmind.bounds import printable
from devmind.live.loop import DIRECTED
from devmind.live.remembering.held_object import Square
from devmind.memory import Named
from devmind.moment import Moment
from devmind.sessions.pictures import direction_at


class Directing:
    """Lets a director act in the ticks of a life. One that fails stops until the next episode; the life goes on.

    Args:
        note: writes a note to the recording, if there is one.
    """

    def __init__(self, director: Director, note: Callable[[str, Mapping[str, Any]], None]) -> None:
        self.director, self._note = director, note
        self._moved: list[str] = []
        self._failure = ""

    @property
    def fault(self) -> str:
        """Why the director has stopped, a sentence; '' when all is well."""
        return self._failure or self.director.fault

    def act(
        self,
        agent: Agent,
        moment: Moment,
        output: StepOutput,
        percepts: Percepts,
        named: Mapping[str, tuple[float, float]],
    ) -> dict[str, np.ndarray]:
        """The actions of this tick that replace the heads' answers; `percepts` are those that the agent stepped on."""
        labels: Sequence[str] = agent.labels_of(agent.tracker.detects) if agent.tracker else ()
        read = partial(said_by, agent, percepts)
        orders = self._orders(Observation(moment, labels, output.beliefs, named, read))
        moved = sorted(orders)
        if moved != self._moved:  # the note holds for this tick and those behind it
            self._moved = moved
            self._note(DIRECTED, {"effectors": moved})
        return orders

    def _orders(self, observation: Observation) -> dict[str, np.ndarray]:
        if observation.moment.first:
            self._failure = ""
        if self._failure:
            return {}
        try:
            return dict(self.director.direct(observation))
        except Exception as error:  # it may be somebody else's
            reason = printable(f"{type(error).__name__}: {error}".splitlines()[0].rstrip("."))
            self._failure = f"The director failed and stops until the next episode begins: {reason}."
            return {}

    def begin_recording(self) -> None:
        """Forget what was moved: a new recording knows nothing of it."""
        self._moved = []


def said_by(agent: Agent, percepts: Percepts, head: str) -> Output | None:
    """What a head answers in a tick that was stepped, [1, ...], without what it carries; None without the head, or
    where it has nothing to read.

    It reads the trunk's features of that step, with window and slots, as its lessons and exams do.
    """
    seen = percepts.seen
    if head not in agent.heads or not agent.tap_of(head).can_read({*seen.encoded, *seen.raw}):
        return None
    with torch.no_grad():
        return agent.run_heads([head], seen)[head]


def place_named(named: Named | None, square: Square | None, frame: np.ndarray | None) -> dict[str, tuple[float, float]]:
    """The thing held up, by the name that memory gives it, with its place in degrees left and up; empty without one."""
    if named is None or named.name is None or square is None or frame is None:
        return {}
    return {named.name: direction_at(square.x, square.y, *frame.shape[:2])}
