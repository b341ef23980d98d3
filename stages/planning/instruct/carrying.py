"""One instruction carried out in one room, from the first view to the end, for `devmind plan`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from devmind.acting import rollout
from devmind.agent.agent import Agent
from stages.planning.instruct.exam import Instructed
from stages.planning.instruct.rooms import Rooms


@dataclass(frozen=True)
class Carried:
    """What came of an instruction.

    Attributes:
        said, answer: the instruction, and the agent's answer to it.
        first, last: what the agent said of its errand after the first view and at the end (`Instruction.belief`).
        steps: number of steps taken.
        rewarded: whether the room counts its own mission as done.
        declined, stuck: whether the agent did not begin; whether it found no way on.
    """

    said: str
    answer: str
    first: str
    last: str
    steps: int
    rewarded: bool
    declined: bool
    stuck: bool

    @property
    def done(self) -> bool:
        """Whether the plan was carried out to its end, as the agent sees it, or the mission was, as the room says."""
        return self.rewarded or not (self.declined or self.stuck)


def carried_out(agent: Agent, room: str, seed: int, said: str | None = None) -> Carried:
    """Give the agent the instruction `said` (by default the room's own mission) in a room of BabyAI, and let it act.

    Raises:
        WorldError: MiniGrid is not installed, or has no such room.
        MomentError: the instruction is too long a page.
    """
    rooms = Rooms(room, np.array([seed]), None if said is None else [said])
    policy, steps, rewarded, answer, first, declined = Instructed(agent), 0, False, "", "", False
    for tick in rollout(policy, rooms):
        if not tick.tick:
            answer, declined = policy.instruction.answer_to(rooms.said[0]), bool(policy.instruction.declined[0])
            first = policy.instruction.belief()
        over = policy.over
        if over is not None and over.all() and not tick.ended.all():
            break
        steps, rewarded = steps + 1, rewarded or bool(tick.reward[0] > 0)
        if tick.ended.all():
            break
    stuck = bool(policy.instruction.stuck[0]) or (not rewarded and not bool(policy.instruction.over[0]))
    rooms.close()
    return Carried(
        rooms.said[0], answer, first, policy.instruction.belief(), steps, rewarded, declined, stuck and not rewarded
    )
