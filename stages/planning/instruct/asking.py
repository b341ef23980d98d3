"""The exam of asking: whether an instructed agent asks when, and only when, it has to; whether it asks the right
question; and whether it does the instruction once it is answered.

What is asked, and when, is decided as in a life (`devmind.acting.clarification`); a tick of these rooms is a tenth of a
second. Whoever answers sees the whole room, and says what the word means, or which door comes first.

A level has nine rooms with closed doors between them. The task is always to go to one thing: in view; behind the agent
in the same room; in view, by an instruction with an unknown word; or so far away that it cannot come into view before
the agent asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from devmind.acting import Actor, Senses, rollout
from devmind.acting.clarification import Inquiry, lacking
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.agent.plans import Lack
from devmind.agent.threads import stepping_threads
from devmind.algorithms.grid import COLOURS, KINDS, thing, truth
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Measure, Parts, in_parts
from devmind.curriculum.gate import Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, numpy_rng
from devmind.worlds.minigrid import env_of, planes, shared_room
from stages.planning import parts
from stages.planning.instruct import lacks, missions
from stages.planning.instruct.controller import Controller, Errand
from stages.planning.instruct.hand_rules import by_pattern
from stages.planning.instruct.lesson import NAME
from stages.planning.instruct.rooms import TEXT, Rooms

LEVEL = "BabyAI-GoTo-v0"
IN_VIEW, IN_ROOM, WORD, FAR = "in view", "behind one's back", "an unknown word", "far away"
CASES = (IN_VIEW, IN_ROOM, WORD, FAR)
IN_TURN = 4 * CASES + (IN_VIEW, IN_ROOM, WORD, WORD)
"""The order of cases; few are far, as these take ten times as many ticks as the others."""
OPEN = (WORD, FAR)
"""Cases in which something has to be asked."""
FAR_CELLS = 20
"""Columns plus rows to a far thing: ten ticks of walking and a view of nine together do not reach as far."""
OF_CASE = 16
"""Seeds that are tried for one case, at most."""


@dataclass(frozen=True)
class Case:
    """One instruction in one room.

    Attributes:
        seed: of the room; case: one of CASES; goal: kind and colour of the thing to go to.
        said: the instruction; word, meant: its unknown word and the word that it stands for, "" without one.
        episode: its identity, from all cells, the agent's pose and the instruction.
    """

    seed: int
    case: str
    goal: tuple[str, str]
    said: str
    word: str
    meant: str
    episode: int

    @property
    def question(self) -> str:
        """The beginning of the question that has to be asked; "": none has to be."""
        kind, colour = self.goal
        return {WORD: f"What is '{self.word}'?", FAR: f"Where is a {colour} {kind}?"}.get(self.case, "")

    def has_to(self, asked: Sequence[str]) -> bool:
        """Whether all these questions, in this order, had to be asked, beginning with `question`. For a far thing the
        agent may ask again behind the next door, and may ask for a door that was the answer."""
        if not asked or not self.question:
            return not asked
        if not asked[0].startswith(self.question):
            return False
        again = tuple(f"Where is a {colour} door?" for colour in COLOURS)
        return all(self.case == FAR and one.startswith((self.question, *again)) for one in asked[1:])


def cases(seeds: np.ndarray, rng: np.random.Generator) -> list[Case]:
    """One case from each OF_CASE seeds, in the order of IN_TURN."""
    drawn_cases = []
    for number, some in enumerate(np.asarray(seeds).reshape(-1, OF_CASE).tolist()):
        case = IN_TURN[number % len(IN_TURN)]
        for seed in some:
            world = shared_room(LEVEL)
            world.reset(seed=seed)
            goals = _goals(env_of(world), case)
            if goals:
                drawn_cases.append(_said(env_of(world), seed, case, goals[rng.integers(len(goals))], rng))
                break
    return drawn_cases


def _goals(env: Any, case: str) -> list[tuple[str, str]]:
    """Sorted kinds and colours all of whose things are where the case needs them."""
    seen = set(truth(planes(env.gen_obs()["image"])).ravel().tolist())
    here, places = env.room_from_pos(*env.agent_pos), dict[tuple[str, str], list[tuple[int, int]]]()
    for at, cell in enumerate(env.grid.grid):
        if cell is not None and cell.type in KINDS:
            places.setdefault((cell.type, cell.color), []).append((at % env.width, at // env.width))

    def fits(goal: tuple[str, str], at: list[tuple[int, int]]) -> bool:
        if case == FAR:
            return all(np.abs(np.subtract(one, env.agent_pos)).sum() >= FAR_CELLS for one in at)
        in_view = thing(goal[0], COLOURS.index(goal[1])) in seen
        return not in_view and any(here.pos_inside(*one) for one in at) if case == IN_ROOM else in_view

    return sorted(goal for goal, at in places.items() if fits(goal, at))


def _said(env: Any, seed: int, case: str, goal: tuple[str, str], rng: np.random.Generator) -> Case:
    said, word, meant = go_to(env, goal), "", ""
    if case == WORD:
        word = missions.made_up(rng, exam=True) if rng.random() < 0.5 else str(rng.choice(missions.OTHER_WORDS))
        known = said
        said, at = missions.with_word(known, word, rng)
        meant = known[at:].split(" ", maxsplit=1)[0]
    room = np.r_[env.grid.encode().ravel(), *env.agent_pos, env.agent_dir].astype(np.int64)
    episode = int(identities({"room": room[None], "told": [said]})[0])
    return Case(seed, case, goal, said, word, meant, episode)


def go_to(env: Any, goal: tuple[str, str]) -> str:
    """Make going to such a thing the room's mission, and give it in BabyAI's words."""
    from minigrid.envs.babyai.core.verifier import GoToInstr, ObjDesc

    env.instrs = GoToInstr(ObjDesc(*goal))
    env.instrs.reset_verifier(env)
    env.mission = env.surface = env.instrs.surface(env)
    return str(env.mission)


class AnsweringRooms(Rooms):
    """The rooms of cases. A page is said only when it is new, as a standing page is read once (`head.py`).

    Attributes:
        pages: the last page of each row, with the answer in it.
    """

    def __init__(self, given: list[Case]) -> None:
        super().__init__(LEVEL, np.array([one.seed for one in given]), [one.said for one in given], every=1)
        self.cases, self.pages, self._next = given, list(self.said), [""] * len(given)
        self.missions = [go_to(env_of(world), one.goal) for world, one in zip(self.worlds, given, strict=True)]

    def step(
        self, actions: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Act; an answered page is said in the Moment that follows."""
        self.said, self._next = self._next, [""] * self.num_envs
        return super().step(actions)

    def answer(self, row: int, lack: Lack) -> None:
        """Answer a row's question, if it is the one that has to be asked."""
        case, env = self.cases[row], env_of(self.worlds[row])
        answer = ""
        if case.word and lack.question == f"What is '{case.word}'?":
            answer = case.meant
        elif lack.question.startswith("Where is a {1} {0}?".format(*case.goal)):
            answer = next((f"{'go to' if cell.is_open else 'open'} the {cell.color} door" for cell in _doors(env)), "")
        if answer:
            self.pages[row] = self._next[row] = lack.restated(answer)


def _doors(env: Any) -> Iterator[Any]:
    """The doors on the shortest way to the goal of the room's mission, in order."""
    goals, start = (
        {(int(x), int(y)) for x, y in env.instrs.desc.obj_poss},
        (int(env.agent_pos[0]), int(env.agent_pos[1])),
    )
    came: dict[tuple[int, int], tuple[int, int]] = {start: start}
    queue = deque([start])
    while queue:
        at = queue.popleft()
        if at in goals:
            way = [at]
            while way[-1] != start:
                way.append(came[way[-1]])
            cells = [env.grid.get(*one) for one in way[-2::-1]]
            yield from (cell for cell in cells if cell is not None and cell.type == "door")
            return
        for right, down in ((1, 0), (0, 1), (-1, 0), (0, -1)):
            on = (at[0] + right, at[1] + down)
            cell = env.grid.get(*on)
            if on not in came and (cell is None or cell.type == "door" or on in goals):
                came[on] = at
                queue.append(on)


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
class CaseResult:
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


def carry_out(some_cases: Sequence[Case], by: By, answers: bool = True) -> list[CaseResult]:
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
    return [CaseResult(tuple(asked), bool(one)) for asked, one in zip(questioning.asked, done, strict=True)]


def draw_cases(context: Context, n: int) -> list[Case]:
    """Up to `n` cases of an exam."""
    seeds = exam_seeds(n * OF_CASE, context.seed, NAME, "asking")
    return cases(seeds, numpy_rng(context.seed, NAME, "asking"))


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """Whether the agent asks when, and only when, it has to; and whether it does the instruction once answered."""
    drawn_cases = draw_cases(context, context.episodes(EPISODES))
    went = carry_out(drawn_cases, by_agent(agent))
    is_open = np.array([one.case in OPEN for one in drawn_cases])
    right = np.array([one.is_right(case) for one, case in zip(went, drawn_cases, strict=True)], np.float64)
    done = np.array([one.done and one.is_right(case) for one, case in zip(went, drawn_cases, strict=True)], np.float64)
    episodes = np.array([one.episode for one in drawn_cases])
    asks = Measure(
        ASKS, "asked the right question, or none if none was needed", right, chance=float(np.mean(~is_open)),
        ceiling=1.0, rate=True, episodes=episodes,
        note="half of the instructions leave something open: an unknown word, or the place of a thing far away; "
        "the first question must be about exactly that. An agent that never asks is right in the other half",
    )  # fmt: skip
    answered = Measure(
        ANSWERED, "asked the right question, and done", done[is_open], chance=0.0, ceiling=1.0, rate=True,
        episodes=episodes[is_open],
        note=f"instructions that leave something open, within {TICKS} ticks; the answer is the meaning of the "
        "word, or the first door on the way",
    )  # fmt: skip
    yield [asks, answered]
    floors, rows = _floors(agent, context, drawn_cases), _rows(drawn_cases, went, right, done)
    yield [replace(one, floors=floors[one.name], rows=rows[one.name]) for one in (asks, answered)]


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
        ("an untaught agent", by_agent(parts.untrained_agent(agent)), True),
        ("a rule by hand, with perfect perception", ByHand, True),
        ("the agent, and nobody answers", by_agent(agent), False),
    ):
        went = carry_out(few, by, answers)
        right = np.array([one.is_right(case) for one, case in zip(went, few, strict=True)])
        if answers:
            floors[ASKS][name] = float(right.mean())
        floors[ANSWERED][name] = float((right & [one.done for one in went])[is_open].mean())
    return floors


def _rows(
    drawn_cases: Sequence[Case], went: Sequence[CaseResult], right: np.ndarray, done: np.ndarray
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
