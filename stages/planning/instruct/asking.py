"""The exam of asking: whether an instructed agent asks when, and only when, it has to; whether it asks the right
question; and whether it does the instruction once it is answered.

What is asked, and when, is decided as in a life (`devmind.acting.clarification`); a tick of these rooms is a tenth of a
second. Whoever answers sees the whole room, and says what the word means, or which door comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from devmind.acting import Actor, Senses, rollout
from devmind.acting.clarification import Inquiry, lacking
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.agent.plans import Lack
from devmind.agent.threads import stepping_threads
from devmind.algorithms.grid import truth
from devmind.curriculum.exam import Measure
from devmind.curriculum.gate import Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, numpy_rng
from stages.planning import parts
from stages.planning.instruct import lacks, missions
from stages.planning.instruct.controller import Controller, Errand
from stages.planning.instruct.hand_rules import by_pattern
from stages.planning.instruct.lesson import NAME
from stages.planning.instruct.open_questions import CASES, FAR, OF_CASE, OPEN, WORD, AnsweringRooms, Case, cases
from stages.planning.instruct.rooms import TEXT

ASKS, ANSWERED = f"{NAME}/asks", f"{NAME}/done once answered"
GOALS = [Threshold(name, 0.90, goal=True, when_absent="skip") for name in (ASKS, ANSWERED)]
EPISODES, FEW = 200, 24
"""Cases of an exam, half of which leave something open, and cases of a floor."""
TICK_S, TICKS = 0.1, 150
"""Seconds of a tick, by which the time of looking is counted; ticks after which a room is cut."""


class Player(Protocol):
    """A `Policy` in rooms that says of each row what it lacks."""

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        """The actions of all rows."""
        ...

    def lacks(self, page: str, row: int) -> Lack | None:
        """What the player would have to be told first in a row; None if nothing."""
        ...

    def keep(self, index: np.ndarray) -> None:
        """Go on with these rows alone."""
        ...


By = Callable[[int], Player]
"""Makes a player for so many rooms."""


class Instructed(Actor):
    """The agent that is instructed."""

    def lacks(self, page: str, row: int) -> Lack | None:
        """What the agent lacks, found as in a life."""
        assert self.output is not None
        return lacking(self.output, page, row)


class ByHand:
    """A rule with perfect vision: it knows every word of the grammar and reads instructions by a pattern."""

    def __init__(self, n: int) -> None:
        self.controller, self.errands, self.unknown = Controller(), [Errand() for _ in range(n)], [""] * n

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        """Read the pages, and act."""
        for row, page in enumerate(senses[TEXT]):
            if page:
                words = [word.strip(",") for word in page.split(" ")]
                self.unknown[row] = next((word for word in words if word not in missions.WORDS), "")
                self.errands[row].begin(by_pattern(page))
        seen = zip(self.errands, truth(senses[parts.BOARD]), strict=True)
        return {parts.CHOOSE: np.array([self.controller.act(errand, reading) for errand, reading in seen])}

    def lacks(self, page: str, row: int) -> Lack | None:
        """The meaning of a word that is not in the grammar, or where a thing is."""
        unknown = self.unknown[row]
        return lacks.of_word(page, unknown) if unknown else lacks.of_place(self.errands[row])

    def keep(self, index: np.ndarray) -> None:
        """Go on with these rows alone."""
        self.errands = [self.errands[row] for row in index]
        self.unknown = [self.unknown[row] for row in index]


def by_agent(agent: Agent) -> By:
    """The agent that is instructed."""
    return lambda n: Instructed(agent, n, effectors=[parts.CHOOSE], standing={parts.CHOOSE: (parts.INSTRUCT,)})


class _Questioning:
    """A policy that lets a player act and has its questions answered, as a life does (`live/life.py`)."""

    def __init__(self, player: Player, rooms: AnsweringRooms, answers: bool) -> None:
        self.player, self.rooms, self.answers = player, rooms, answers
        self.rows, self.tick = np.arange(rooms.num_envs), 0
        self.inquiries = [Inquiry() for _ in self.rows]
        self.asked: list[list[str]] = [[] for _ in self.rows]

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        done = self.player(senses, first)
        for at, row in enumerate(self.rows.tolist()):
            lack = self.player.lacks(self.rooms.pages[row], at)
            if self.inquiries[row].is_due(lack, self.tick * TICK_S) and lack is not None:
                self.asked[row].append(lack.question)
                if self.answers:
                    self.rooms.answer(row, lack)
        self.tick += 1
        return done

    def keep(self, index: np.ndarray) -> None:
        self.player.keep(index)
        self.rows = self.rows[index]


@dataclass(frozen=True)
class Went:
    """How a case went.

    Attributes:
        asked: the questions, in order.
        done: whether the instruction was done, without a needless question.
    """

    asked: tuple[str, ...]
    done: bool

    def is_right(self, case: Case) -> bool:
        """Whether nothing was asked where nothing is open, and the right question first where something is."""
        return bool(self.asked) == bool(case.question) and case.has_to(self.asked[:1])


def gone(some_cases: Sequence[Case], by: By, answers: bool = True) -> list[Went]:
    """Let a player carry out the instructions of cases, until each is done or a needless question was asked.

    Args:
        answers: whether questions are answered.
    """
    rooms = AnsweringRooms(list(some_cases))
    questioning = _Questioning(by(len(some_cases)), rooms, answers)
    done, settled = np.zeros((2, len(some_cases)), bool)
    with stepping_threads():
        for tick in rollout(questioning, rooms, TICKS, sparing=True, done=settled):
            wrong = [not case.has_to(asked) for asked, case in zip(questioning.asked, some_cases, strict=True)]
            done |= (tick.reward > 0) & ~np.array(wrong)
            settled |= done | tick.ended | wrong
            if settled.all():
                break
    rooms.close()
    return [Went(tuple(asked), bool(one)) for asked, one in zip(questioning.asked, done, strict=True)]


def drawn(context: Context, n: int) -> list[Case]:
    """Up to `n` cases of an exam."""
    seeds = exam_seeds(n * OF_CASE, context.seed, NAME, "asking")
    return cases(seeds, numpy_rng(context.seed, NAME, "asking"))


def examine(agent: Agent, context: Context, level: str) -> list[Measure]:
    """Whether the agent asks when, and only when, it has to; and whether it does the instruction once answered."""
    drawn_cases = drawn(context, context.episodes(EPISODES, level))
    went = gone(drawn_cases, by_agent(agent))
    is_open = np.array([one.case in OPEN for one in drawn_cases])
    right = np.array([one.is_right(case) for one, case in zip(went, drawn_cases, strict=True)], np.float64)
    done = np.array([one.done and one.is_right(case) for one, case in zip(went, drawn_cases, strict=True)], np.float64)
    floors: dict[str, dict[str, float]] = {ASKS: {}, ANSWERED: {}}
    rows: dict[str, dict[str, float]] = {ASKS: {}, ANSWERED: {}}
    if level == "full":
        floors = _floors(agent, context, drawn_cases)
        rows = _rows(drawn_cases, went, right, done)
    episodes = np.array([one.episode for one in drawn_cases])
    return [
        Measure(
            ASKS, "asked the right question, or none if none was needed", right, chance=float(np.mean(~is_open)),
            ceiling=1.0, rate=True, episodes=episodes, floors=floors[ASKS], rows=rows[ASKS],
            note="half of the instructions leave something open: an unknown word, or the place of a thing far away; "
            "the first question must be about exactly that. An agent that never asks is right in the other half",
        ),
        Measure(
            ANSWERED, "asked the right question, and done", done[is_open], chance=0.0, ceiling=1.0, rate=True,
            episodes=episodes[is_open], floors=floors[ANSWERED], rows=rows[ANSWERED],
            note=f"instructions that leave something open, within {TICKS} ticks; the answer is the meaning of the "
            "word, or the first door on the way",
        ),
    ]  # fmt: skip


def _floors(agent: Agent, context: Context, drawn_cases: Sequence[Case]) -> dict[str, dict[str, float]]:
    few = drawn_cases[: context.episodes(FEW)]
    is_open = np.array([one.case in OPEN for one in few])
    floors: dict[str, dict[str, float]] = {
        ASKS: {
            "never asks": float(np.mean([not one.question for one in drawn_cases])),
            "always asks what a random word of the page means": float(
                np.mean([1 / len(one.said.split(" ")) if one.case == WORD else 0.0 for one in drawn_cases])
            ),
            "always asks where the thing is": float(np.mean([one.case == FAR for one in drawn_cases])),
        },
        ANSWERED: {},
    }
    for name, by, answers in (
        ("an untaught agent", by_agent(parts.untaught(agent)), True),
        ("a rule by hand, with perfect perception", ByHand, True),
        ("the agent, and nobody answers", by_agent(agent), False),
    ):
        went = gone(few, by, answers)
        right = np.array([one.is_right(case) for one, case in zip(went, few, strict=True)])
        if answers:
            floors[ASKS][name] = float(right.mean())
        floors[ANSWERED][name] = float((right & [one.done for one in went])[is_open].mean())
    return floors


def _rows(
    drawn_cases: Sequence[Case], went: Sequence[Went], right: np.ndarray, done: np.ndarray
) -> dict[str, dict[str, float]]:
    """Rows: results by case, and the number of questions where something has to be asked."""
    of = {case: np.array([one.case == case for one in drawn_cases]) for case in CASES}
    rows = {ASKS: {case: float(right[which].mean()) for case, which in of.items()}}
    rows[ANSWERED] = {case: float(done[of[case]].mean()) for case in OPEN}
    asked = np.array([len(one.asked) for one in went])
    rows[ANSWERED] |= {f"questions, {case}": float(asked[of[case]].mean()) for case in OPEN}
    rows[ASKS]["done, of instructions that leave nothing open"] = float(
        np.mean([one.done for one, case in zip(went, drawn_cases, strict=True) if case.case not in OPEN])
    )
    return rows
