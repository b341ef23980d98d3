"""One child's senses and acts for its procedures: the same in an exam's rollout and in a life.

Nothing heavy is imported, so that a plan file is checked before an agent is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from devmind.worlds.fovea import MAX_TILT_DEG, MAX_TURN_DEG, PAN_COS, PAN_SIN, TILT
from stages.reasoning.procedures.beliefs import Beliefs
from stages.reasoning.procedures.coursing import Coursing
from stages.reasoning.procedures.interpreter import Action, Interpreter
from stages.reasoning.procedures.library import Library
from stages.reasoning.procedures.terms import MOST_WORK
from stages.reasoning.procedures.walking import Cells, Walking

if TYPE_CHECKING:
    from devmind.agent.beliefs import Beliefs as Things
    from devmind.agent.output import Output

GONE, THERE_HITS = 0.6, 2
"""A thing whose `elsewhere` is above GONE counts as gone; it counts at all after THERE_HITS sightings."""
STEPS = 60
"""Cycles of the interpreter in a tick, at most."""
LOOK, SAY = "look", "say"
SAID = {"heard": "words", "told": "text"}
"""Facts that hold while something is said, and their senses: a word in a tick, a page that stands there."""
Thing = tuple[float, float, bool, bool]
"""Azimuth and elevation in degrees, whether it is in sight, whether it is gone."""


def gaze(body: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pan and tilt in degrees, from the sense `body` [N, 12]."""
    return np.rad2deg(np.arctan2(body[:, PAN_SIN], body[:, PAN_COS])), body[:, TILT] * MAX_TILT_DEG


@dataclass
class Row:
    """One child's senses and acts for its procedures; angles in degrees from straight ahead, left and up.

    Attributes:
        things: the agent's belief about each class by name: (azimuth, elevation, in sight, gone).
        target: where the gaze goes.
        saying: the word that is said in this tick.
        cells: the agent's reading of the board that it sees.
        walking: its path by that reading.
        read: the output of a head of the agent for this Moment.
        coursing: its path by a plan that a head draws.
    """

    pan: float = 0.0
    tilt: float = 0.0
    tick: int = 0
    saying: str = ""
    target: tuple[float, float] | None = None
    cells: Cells = lambda: None
    read: Callable[[str], Output | None] = lambda head: None

    def __post_init__(self) -> None:
        self.walking, self.coursing = Walking(self.cells), Coursing(self.read)
        self.things: dict[str, Thing] = {}
        self.beliefs = Beliefs(
            sensed={
                "saw": self.saw,
                "in_sight": lambda name: self.things.get(name, (0, 0, False, False))[2],
                "gone": lambda name: self.things.get(name, (0, 0, False, False))[3],
                "tick": lambda now: [(self.tick,)],
            }
        )
        self.actions: dict[str, Action] = {
            "look_at": self.look_at, SAY: self.say, "find_way": self.walking.find_way,
            "follow_plan": self.coursing.follow_plan,
        }  # fmt: skip

    def saw(self, name: Any, azimuth: Any, elevation: Any) -> Iterator[tuple[Any, ...]]:
        """The direction in which a thing was last seen, whether or not it is still there."""
        if name in self.things:
            left, up, *_ = self.things[name]
            yield name, left, up

    def take_in(self, fact: str, text: str) -> None:
        """Believe that this is said, as long as it is said: `heard("red")`."""
        if text:
            self.beliefs.put((fact, text))
            return
        for gone in [one for one in self.beliefs if one[0] == fact]:
            self.beliefs.remove(gone)

    def look_at(self, azimuth: float, elevation: float) -> None:
        """Turn the head there, and keep it there."""
        self.target = float(azimuth), float(elevation)

    def say(self, word: str) -> None:
        """Say a word aloud in this tick."""
        self.saying = word

    def look(self) -> tuple[float, float]:
        """The command of `look` in this tick."""
        if self.target is None:
            return 0.0, 0.0
        return (
            float(np.clip(((self.target[0] - self.pan + 180.0) % 360.0 - 180.0) / MAX_TURN_DEG, -1, 1)),
            float(np.clip((self.target[1] - self.tilt) / MAX_TURN_DEG, -1, 1)),
        )


class Procedural:
    """A policy for N children: one agent's beliefs, and procedures of each row that run on them.

    Args:
        believed: `(senses, first) -> (labels, beliefs of N rows)`, such as `beliefs_of`; beliefs are None without a
            tracker.
        library: the plans.
        remembered: things that memory knows by names for which the tracker has no class; none in an exam.
        cells: a row's reading of the board in this tick.
        read: the output of a head for this tick's Moment, of one child; nothing in an exam.
    """

    def __init__(
        self,
        believed: Any,
        library: Library,
        remembered: Callable[[], Mapping[str, Thing]] = lambda: {},
        cells: Callable[[int], np.ndarray | None] = lambda row: None,
        read: Callable[[str], Output | None] = lambda head: None,
    ) -> None:
        self.believed, self.library, self.remembered, self.cells = believed, library, remembered, cells
        self.read = read
        self.rows: list[Row] = []
        self.minds: list[Interpreter] = []

    def __call__(self, senses: Mapping[str, Any], first: np.ndarray) -> dict[str, Any]:
        """One tick: senses become beliefs, procedures run until they wait, and their orders are returned."""
        labels, things = self.believed(senses, first)
        pan, tilt = gaze(senses["body"])
        if first.all():
            self.rows = [Row(cells=partial(self.cells, number), read=self.read) for number in range(len(first))]
            self.minds = [Interpreter(self.library, row.beliefs, row.actions) for row in self.rows]
        for number, (row, mind) in enumerate(zip(self.rows, self.minds, strict=True)):
            row.pan, row.tilt, row.saying = float(pan[number]), float(tilt[number]), ""
            row.tick += 1
            row.walking.begin_tick()
            row.coursing.begin_tick()
            row.things = {**self.remembered(), **({} if things is None else things_of_row(things, number, labels))}
            for fact, sense in SAID.items():
                row.take_in(fact, senses[sense][number] if sense in senses else "")
            work = 0.0
            for _ in range(STEPS):
                mind.cycle()
                work += mind.work
                if mind.last_step is None or work > MOST_WORK:  # what is left goes on in the next tick
                    break
        return {
            LOOK: np.array([row.look() for row in self.rows], np.float32),
            SAY: [row.saying for row in self.rows],
        }


def things_of_row(things: Things, row: int, labels: list[str]) -> dict[str, Thing]:
    """One row's belief about each class; of several things of a class, the one seen last."""
    from devmind.agent.tracking import direction

    azimuth, elevation, _ = direction(things.mean[row])
    by_label = {}
    for slot in np.argsort(-things.age_s[row], kind="stable"):
        if things.used[row, slot] and things.hits[row, slot] >= THERE_HITS:
            by_label[labels[int(things.kind[row, slot])]] = (
                float(azimuth[slot]), float(elevation[slot]), bool(things.in_sight[row, slot]),
                bool(things.elsewhere[row, slot] > GONE),
            )  # fmt: skip
    return by_label
