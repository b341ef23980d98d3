"""An errand in the nursery with a lost thing: look where you saw it last; if it is not there, ask.

In a room of `hide/KIND` (`devmind.worlds.nursery.hiding`) two things are covered, and some of them move unseen. The
caregiver names one. The cover goes up at the place where that one was last seen. If the agent asks, it hears the colour
of the cover in front of the thing. In the end the gaze should be on the thing's place, and the agent should have asked
only if it could not know.

The procedure uses the agent's own beliefs: its tracker, its ears and its body. It never gets the world's truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from devmind.acting import Actor, rollout
from devmind.agent.agent import Agent
from devmind.agent.tracker import Beliefs as Things
from devmind.curriculum.stage import Context
from devmind.worlds.nursery import hiding
from devmind.worlds.nursery.geometry import between_deg
from devmind.worlds.nursery.geometry import direction as unit
from devmind.worlds.nursery.state import COLOUR_NAMES
from stages.reasoning.procedures.parser import shipped_library
from stages.reasoning.procedures.procedural import SAY, Procedural, gaze

KINDS = ("unmoved", "moved", "swapped")
"""What happened behind the covers: in `unmoved` the thing is where it was last seen, in the others it never is."""
AFTER_ASKED = 13
"""Ticks from the question to the end."""


class ErrandRooms:
    """N rooms of one kind and delay, with a caregiver who answers: the effector `say` takes a word for each room.

    Args:
        context: makes the nursery.
        seeds: of rooms of one delay.
    """

    def __init__(self, context: Context, kind: str, seeds: np.ndarray) -> None:
        self.world = context.make_world("nursery", f"hide/{kind}", seeds)
        self.seeds, self.plan, self.tick = seeds, hiding.plan(seeds, kind), 0
        self.ticks = int(self.plan.ask.max()) + AFTER_ASKED
        self.asked = np.zeros(len(seeds), bool)
        self._reply = [""] * len(seeds)
        self.senses = self._heard(self.world.observe())

    @property
    def num_envs(self) -> int:
        """The number of rooms."""
        return len(self.seeds)

    def observe(self) -> Mapping[str, Any]:
        """The senses now."""
        return self.senses

    def step(self, actions: Mapping[str, Any]) -> tuple[Any, ...]:
        """Turn the heads, and answer questions."""
        questions = actions.get(SAY, [""] * self.num_envs)
        if any(questions):
            # The place at the time of the question; nothing moves after it.
            truth = self.world.truth()
            colours = np.array(COLOUR_NAMES)[truth["colour"]]
            answers = colours[np.arange(self.num_envs), hiding.THINGS + truth["place"]]
        self._reply = [str(answers[row]) if word else "" for row, word in enumerate(questions)]
        senses, *rest = self.world.step({name: value for name, value in actions.items() if name != SAY})
        self.tick += 1
        self.asked |= np.array([bool(word) for word in questions])
        self.senses = self._heard(senses)
        return (self.senses, *rest)

    def _heard(self, senses: Mapping[str, Any]) -> dict[str, Any]:
        """The nursery's first question, and the caregiver's answers; the nursery's second question is left out."""
        now = self.tick < self.plan.ask + hiding.ASK_TICKS
        words = [
            answer or (word if first else "")
            for answer, word, first in zip(self._reply, senses["words"], now, strict=True)
        ]
        return {**senses, "words": words}

    def found(self) -> np.ndarray:
        """Whether each gaze is nearest to the thing's place, bool [N]."""
        pan, tilt = gaze(self.senses["body"])
        places = hiding.place_directions_deg(self.seeds)
        apart = np.stack(
            [between_deg(unit(pan, tilt), unit(places[:, k, 0], places[:, k, 1])) for k in range(places.shape[1])], -1
        )
        return np.asarray(apart.argmin(-1) == self.world.truth()["place"])

    def had_to_ask(self) -> np.ndarray:
        """Whether the thing is not where it was last seen, bool [N]."""
        truth = self.world.truth()
        return np.asarray(truth["place"] != truth["last_seen_place"])


def beliefs_of(agent: Agent, n: int) -> Any:
    """The agent's beliefs about things, tick by tick, for `n` rows: those of an Actor, as in exams and in life."""
    if agent.tracker is None:
        return lambda senses, first: ([], None)
    actor, labels = Actor(agent, n, effectors=[], trunk=False), agent.labels_of(agent.tracker.detects)

    def believed(senses: Mapping[str, Any], first: np.ndarray) -> tuple[list[str], Things | None]:
        actor({name: senses[name] for name in ("sight", "body")}, first)
        assert actor.output is not None
        return labels, actor.output.beliefs

    return believed


@dataclass(frozen=True)
class ErrandResults:
    """The results of N rooms, bool [N] each: the thing was found; the agent asked; it had to ask."""

    found: np.ndarray
    asked: np.ndarray
    needed: np.ndarray

    @property
    def right(self) -> np.ndarray:
        """Found, and asked only where it had to, float [N]."""
        return np.asarray(self.found & (self.asked == self.needed), float)


def run(rooms: ErrandRooms, policy: Any) -> ErrandResults:
    """Let a policy go through rooms to their end."""
    for _ in rollout(policy, rooms, rooms.ticks):
        pass
    return ErrandResults(rooms.found(), rooms.asked.copy(), rooms.had_to_ask())


def of_agent(agent: Agent, context: Context, kind: str, seeds: np.ndarray) -> ErrandResults:
    """The agent's errands in rooms of one kind and delay."""
    return run(ErrandRooms(context, kind, seeds), Procedural(beliefs_of(agent, len(seeds)), shipped_library("errand")))
