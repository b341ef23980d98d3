"""Instructions of which some leave something open, and rooms in which somebody who sees everything answers.

A level has nine rooms with closed doors between them. The task is always to go to one thing: in view; behind the agent
in the same room; in view, by an instruction with an unknown word; or so far away that it cannot come into view before
the agent asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from devmind.agent.plans import Lack
from devmind.algorithms.grid import COLOURS, KINDS, thing, truth
from devmind.curriculum.episodes import identities
from devmind.worlds.minigrid import env_of, lent, planes
from stages.planning.instruct import missions
from stages.planning.instruct.rooms import Rooms

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
            world = lent(LEVEL)
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
