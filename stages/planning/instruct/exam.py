"""The exam of instruct: in rooms that no lesson had a mission is said once, and the exam asks whether it is done.

The agent has its view, its own map and the words of the mission; nothing tells it the plan behind them. Floors are
random plans, the language stage's head that follows, an untaught agent, and a rule by hand that reads missions by a
pattern. The agent's own controller, with perfect vision, carries out the plans of rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from devmind.acting import Actor, Policy, Senses, rollout
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.agent.threads import stepping_threads
from devmind.algorithms.grid import COLOURS, KINDS, truth
from devmind.curriculum.exam import Exam, Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng
from devmind.worlds.minigrid import minigrid_installed
from stages.planning import parts
from stages.planning.instruct import asking, missions
from stages.planning.instruct.controller import Controller, Errand
from stages.planning.instruct.hand_rules import by_pattern
from stages.planning.instruct.head import Instruction
from stages.planning.instruct.lesson import NAME, VIEWS
from stages.planning.instruct.rooms import TEXT, Rooms, episode_names
from stages.planning.instruct.symbols import DROP_NEXT_TO, GO_TO, NOUNS, PICK_UP, Subgoal, Subgoals, from_numbers

PUT_NEXT, IN_TURN = f"{NAME}/put next", f"{NAME}/go to in turn"
LEVELS = {PUT_NEXT: "BabyAI-PutNextLocal-v0", IN_TURN: "BabyAI-GoToSeqS5R2-v0"}
FURTHER = "BabyAI-SynthS5R2-v0"
"""Six rooms with locked doors, all four kinds of instructions, and sometimes a thing in the way; no lesson shows it."""
GATE = Gate(
    [Threshold(PUT_NEXT, 0.60, when_absent="skip"), Threshold(IN_TURN, 0.70, when_absent="skip"), *asking.GOALS]
)
EPISODES, FEW = 200, 40
FOLLOWED = 10
"""Rooms of language's follow, which gets the mission every tick and does not end: each lasts all of its ticks."""
TOGETHER = 100
FOLLOWS = ("follow", "choose")
"""Heads that follow instructions of the language stage; the second where an agent lacks the first."""
By = Callable[[Rooms], Policy]
"""Makes a policy for rooms, when they begin."""


class Instructed:
    """The agent in rooms: a `Policy`. `over` says which errands are over, bool [N]; None where none was given."""

    def __init__(self, agent: Agent, without: Sequence[str] = (), head: str = parts.INSTRUCT) -> None:
        self.head = head
        self.actor = Actor(agent, effectors=[parts.CHOOSE], without=without, standing={parts.CHOOSE: (head,)})

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        return self.actor(senses, first)

    def keep(self, index: np.ndarray) -> None:
        """Go on with these rooms alone."""
        self.actor.keep(index)

    @property
    def instruction(self) -> Any:
        """The head's last output."""
        assert self.actor.output is not None
        return self.actor.output.outputs[self.head]

    @property
    def over(self) -> np.ndarray | None:
        """Which errands are over, bool [N]; None for a head without errands. Without the sense `board` all are over."""
        if self.head != parts.INSTRUCT or self.actor.output is None:
            return None
        over: np.ndarray = self.instruction.over.cpu().numpy()
        return np.ones_like(over) if parts.BOARD in self.actor.without else over


class Planned:
    """Given plans, carried out by the agent's controller with perfect vision."""

    def __init__(self, plans: Sequence[Subgoals]) -> None:
        self.controller, self.errands = Controller(), [Errand(plan=plan) for plan in plans]

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        pairs = zip(self.errands, truth(senses[parts.BOARD]), strict=True)
        return {parts.CHOOSE: np.array([self.controller.act(errand, reading) for errand, reading in pairs])}

    def keep(self, index: np.ndarray) -> None:
        """Go on with these rooms alone."""
        self.errands = [self.errands[row] for row in index]

    @property
    def over(self) -> np.ndarray:
        """Which errands are over, bool [N]."""
        return np.array([errand.over for errand in self.errands])


def by_agent(agent: Agent, without: Sequence[str] = ()) -> By:
    """The agent that is instructed."""
    return lambda rooms: Instructed(agent, without)


def missions_done(
    name: str, seeds: np.ndarray, by: By, sentences: Sequence[str] | None = None, every: int | None = None
) -> np.ndarray:
    """Whether each room's mission was done, float64 [N] of 0 and 1.

    Args:
        sentences: instructions said in place of the missions, by which success is still judged; every: see `Rooms`.
    """
    successes = []
    for at in range(0, len(seeds), TOGETHER):
        rooms = Rooms(
            name, seeds[at : at + TOGETHER], None if sentences is None else sentences[at : at + TOGETHER], every
        )
        policy, earned, settled = by(rooms), np.zeros(rooms.num_envs), np.zeros(rooms.num_envs, bool)
        with stepping_threads():
            for tick in rollout(policy, rooms, sparing=True, done=settled):
                earned += np.where(settled, 0.0, tick.reward)  # a settled row does not choose its actions
                over = getattr(policy, "over", None)
                if over is not None:
                    settled[tick.asked] |= over
                if (settled | tick.ended).all():
                    break  # nothing more will be done
        rooms.close()
        successes.append(earned > 0)
    return np.concatenate(successes).astype(np.float64)


def examine(agent: Agent, context: Context) -> Exam:
    """The share of missions done in each level, and the exam of asking; nothing without MiniGrid."""
    if not minigrid_installed():
        return Exam([])
    return Exam.joined([*(_of_level(agent, context, name) for name in LEVELS), asking.examine(agent, context)])


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Rooms whose views and things lessons show, int64 [about n]."""
    names = tuple(dict.fromkeys((*VIEWS, *missions.ROOMS)))
    seeds = lesson_seeds(-(-n // len(names)), context.seed, NAME, "episodes")
    return np.concatenate([episode_names(name, seeds) for name in names])


def read_instructions(agent: Agent, senses: Senses, sentences: Sequence[str]) -> Instruction:
    """The agent's reading of instructions, each said in the first Moment of a room."""
    policy = Instructed(agent)
    policy({**senses, TEXT: list(sentences)}, np.ones(len(sentences), bool))
    output: Instruction = policy.instruction
    return output


def declines(agent: Agent, senses: Senses, sentences: Sequence[str]) -> np.ndarray:
    """Whether each of these instructions is declined when it is said in a room, bool [N]."""
    return np.asarray(read_instructions(agent, senses, sentences).declined.cpu().numpy())


@in_parts
def _of_level(agent: Agent, context: Context, name: str) -> Parts:
    where = LEVELS[name]
    seeds = exam_seeds(context.episodes(EPISODES), context.seed, name)
    values = missions_done(where, seeds, by_agent(agent))
    measure = Measure(
        name, "instruction carried out", values, chance=0.0, ceiling=1.0, rate=True, episodes=episode_names(where,
        seeds),
        reference="BabyAI 1.0 by imitation: 0.992 in PutNextLocal, 0.954 in GoToSeq, from 245,000 and more "
        "demonstrations (from memory)",
        note=f"{where}, new rooms, each mission said once; a pattern by hand reads them without an error, as all are "
        "of one small grammar",
    )  # fmt: skip
    yield [measure]
    few = seeds[: context.episodes(FEW)]
    by_plan = missions_done(where, seeds, lambda rooms: Planned(rooms.plans()))
    floors = _floors(agent, context, name, seeds, few, by_plan)
    yield [replace(measure, floors=floors, rows=_rows(agent, context, name, seeds, values, few, by_plan))]


def _floors(
    agent: Agent, context: Context, name: str, seeds: np.ndarray, few: np.ndarray, by_plan: np.ndarray
) -> dict[str, float]:
    where, rng = LEVELS[name], numpy_rng(context.seed, name, "plans")
    newborn = parts.untrained_agent(agent)
    floors = {
        "random plan": missions_done(
            where, seeds, lambda rooms: Planned([_by_chance(name, rng) for _ in rooms.missions])
        ),
        "a pattern by hand": _by_hand(where, seeds, by_plan),
        "an untaught agent": missions_done(where, few, by_agent(newborn)),
    }
    if head := next((one for one in FOLLOWS if one in agent.heads), None):
        follow: By = lambda rooms: Instructed(agent, head=head)  # noqa: E731
        floors[f"language's follow ({FOLLOWED} rooms)"] = missions_done(
            where, few[:FOLLOWED], follow, every=1
        )  # as taught
    return {rule: float(values.mean()) for rule, values in floors.items()}


def _by_hand(where: str, seeds: np.ndarray, by_plan: np.ndarray) -> np.ndarray:
    """Whether the pattern's plan is done: the result `by_plan` of the true plan where both are equal."""
    rooms = Rooms(where, seeds)
    wrong = np.array(
        [by_pattern(sentence) != plan for sentence, plan in zip(rooms.missions, rooms.plans(), strict=True)]
    )
    rooms.close()
    successes = by_plan.copy()
    if wrong.any():
        successes[wrong] = missions_done(
            where, seeds[wrong], lambda rooms: Planned([by_pattern(sentence) for sentence in rooms.missions])
        )
    return successes


def _by_chance(name: str, rng: np.random.Generator) -> Subgoals:
    """A plan of the form of the level's missions, about random things."""

    def about(verb: int, nouns: int) -> Subgoal:
        return Subgoal(verb, int(rng.integers(nouns)), int(rng.integers(len(COLOURS))))

    if name == PUT_NEXT:
        return about(PICK_UP, len(KINDS)), about(DROP_NEXT_TO, len(KINDS))
    return tuple(about(GO_TO, len(NOUNS)) for _ in range(int(rng.integers(1, 5))))


def _rows(
    agent: Agent,
    context: Context,
    name: str,
    seeds: np.ndarray,
    values: np.ndarray,
    few: np.ndarray,
    by_plan: np.ndarray,
) -> dict[str, float]:
    where, rng = LEVELS[name], numpy_rng(context.seed, name, "words")
    rooms = Rooms(where, seeds)
    sentences, plans, senses = rooms.missions, rooms.plans(), rooms.observe()
    rooms.close()
    own = [from_numbers(plan) for plan in read_instructions(agent, senses, sentences).symbols().cpu().numpy()]
    invented = [missions.with_word(sentence, missions.made_up(rng, exam=True), rng)[0] for sentence in sentences]
    english = [missions.with_word(sentence, str(rng.choice(missions.OTHER_WORDS)), rng)[0] for sentence in sentences]
    rows = {
        "the true plan": float(by_plan.mean()),
        "plans right": float(np.mean([one == other for one, other in zip(own, plans, strict=True)])),
        "text off": float(missions_done(where, few, by_agent(agent, [parts.TEXT])).mean()),
        "board off": float(missions_done(where, few, by_agent(agent, [parts.BOARD])).mean()),
        "another room's mission": float(
            missions_done(where, few, by_agent(agent), [*sentences[1 : len(few)], sentences[0]]).mean()
        ),
        "declined, of missions with a made-up word": float(declines(agent, senses, invented).mean()),
        "declined, of missions with an English word": float(declines(agent, senses, english).mean()),
        "declined wrongly": float(declines(agent, senses, sentences).mean()),
    }
    apart = np.array([missions.pair_held_out(plan) for plan in plans])
    if apart.any():
        rows["pairs that no lesson combines"] = float(values[apart].mean())
    if name == IN_TURN:  # once is enough
        further = exam_seeds(len(few), context.seed, name, "further")
        rows[FURTHER] = float(missions_done(FURTHER, further, by_agent(agent)).mean())
    return rows
