"""A director in a life: it gets the agent's beliefs and memory's answers, and the recording gets what it moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from devmind.acting.directing import Director, Observation
from devmind.agent.action_selection import StepOutput
from devmind.agent.agent import Agent
from devmind.agent.output import Output
from devmind.agent.taps import raw_sense, sense_of, tap_parts
from devmind.live.loop import DIRECTED
from devmind.live.remembering.held_object import Square
from devmind.memory import Named
from devmind.moment import Moment
from devmind.sessions.pictures import direction_at


class Directing:
    """Lets a director act in the ticks of a life.

    Args:
        note: writes a note to the recording, if there is one.
    """

    def __init__(self, director: Director, note: Callable[[str, Mapping[str, Any]], None]) -> None:
        self.director, self._note = director, note
        self._moved: list[str] = []

    @property
    def fault(self) -> str:
        """Why the director has stopped, a sentence; '' when all is well."""
        return self.director.fault

    def act(
        self, agent: Agent, moment: Moment, output: StepOutput, named: Mapping[str, tuple[float, float]]
    ) -> dict[str, np.ndarray]:
        """The actions of this tick that replace the heads' answers."""
        labels: Sequence[str] = agent.labels_of(agent.tracker.detects) if agent.tracker else ()
        read = partial(said_by, agent, moment)
        orders = dict(self.director.direct(Observation(moment, labels, output.beliefs, named, read)))
        moved = sorted(orders)
        if moved != self._moved:  # the note holds for this tick and those behind it
            self._moved = moved
            self._note(DIRECTED, {"effectors": moved})
        return orders

    def begin_recording(self) -> None:
        """Forget what was moved: a new recording knows nothing of it."""
        self._moved = []


def said_by(agent: Agent, moment: Moment, head: str) -> Output | None:
    """What a head answers to a Moment alone, [1, ...]; None without the head, or where it has nothing to read."""
    if head not in agent.heads:
        return None
    senses = {
        name: torch.from_numpy(value)[None] for name, value in moment.senses.items() if not isinstance(value, str)
    }
    tapped = [sense for part in tap_parts(agent.tap_of(head)) if (sense := raw_sense(part) or sense_of(part))]
    sensed = {agent.encoder(name).of or name if name in agent.encoders else name for name in tapped}
    return agent.evaluate(senses, [head])[head] if sensed & set(senses) else None


def placed(named: Named | None, square: Square | None, frame: np.ndarray | None) -> dict[str, tuple[float, float]]:
    """The thing held up, by the name that memory gives it, with its place in degrees left and up; empty without one."""
    if named is None or named.name is None or square is None or frame is None:
        return {}
    return {named.name: direction_at(square.x, square.y, *frame.shape[:2])}
