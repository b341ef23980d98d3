"""The exam of sleep: names that only the store knew are answered from the weights after a night, with the store off.

A copy of the agent lives a life of things, sleeps on its memory, and is asked again without it. Then the copy is thrown
away: the names are of that life and must not enter the examined agent.
"""

from __future__ import annotations

import copy
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from devmind.acting import Actor
from devmind.acting.recall import OwnMemories, keys_of
from devmind.agent.agent import Agent
from devmind.config import CheckpointConfig
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Exam, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.rehearsal import stages_of
from devmind.curriculum.sleep import Slept, sleep
from devmind.curriculum.stage import Batches, Context
from devmind.memory import Memory, open_store
from devmind.moment import Moment, Sense
from devmind.seeding import derive_seed, exam_seeds
from devmind.worlds import minigrid
from stages.memory import short_term
from stages.memory.maze import exam as maze
from stages.memory.memory_len import exam as memory_len
from stages.memory.recall.lesson import HEAD, THINGS
from stages.memory.recall.things import BOTH, HELD_OUT, NAMES, Lives, lives, looks
from stages.memory.repeat_previous import exam as repeat_previous

NIGHTS = {"tiny": 1, "nursery": 10, "child": 10, "adult": 10}
"""Lives; with two of them even all things called correctly would miss the gate (24 of 24 is 0.857)."""
STEPS = {"tiny": 6}
"""Steps of a night, where they are not the size's own: enough to try it."""
MET_BY = BOTH
"""The senses by which things are shown and asked."""
VIEWS = 20
"""Looks at each thing of a life that are asked, before and after."""
OTHERS = 50
"""Other lives, not slept on, that test whether the agent still uses a store as well as before."""
ASKED_AFTER_S = 1e3
"""Age of a life's memories when it is asked."""
LONG_S = 1e9
"""Seconds between checkpoints: longer than any night."""
SIGNS, CORRIDORS, DECKS = 60, 30, 30
"""Episodes of each test of short-term memory before and after a night, besides all exam rooms: ten nights have 1,200
and more (DESIGN, section 5.2)."""
WORST_CHANGE = -0.05
WORST_LOSS = -0.02
"""Bound on the change of the skill score of earlier tests; stricter than DESIGN, section 5.2, where it is a mean."""
GATE = Gate(
    [
        Threshold("sleep", 0.9),
        Threshold("sleep/awake change", WORST_CHANGE),
        Threshold("sleep/earlier skills", WORST_LOSS),
    ]
)


@dataclass
class Night:
    """Correct or not, float64 [questions], in one life: awake with the store, and without it before and after a night.

    `change` is the night's change in other lives with their stores, `lost` that of the skill scores of earlier tests.
    `things` and `others` are the things asked about, int64.
    """

    awake: np.ndarray
    before: np.ndarray
    after: np.ndarray
    slept: Slept
    change: np.ndarray
    lost: np.ndarray
    things: np.ndarray
    others: np.ndarray


def examine(agent: Agent, context: Context) -> Exam:
    """The share of the episodic gain kept with the store off; and what the night changed elsewhere."""
    nights = max(1, NIGHTS[context.config.size] // context.one_in)
    begun = time.monotonic()
    with torch.inference_mode(False), torch.enable_grad():
        sleeper = Sleeper(agent)
        slept = [night_of(sleeper, context, int(seed)) for seed in exam_seeds(nights, context.seed, "sleep")]
    seconds = time.monotonic() - begun
    awake, before, after = (
        np.concatenate([by_thing(getattr(night, name)) for night in slept]) for name in ("awake", "before", "after")
    )
    life = np.repeat(np.arange(nights), THINGS)
    note = (
        f"{nights} lives of {THINGS} things, one value each, over {VIEWS} looks; a copy slept {slept[0].slept.steps} "
        f"steps a night on {slept[0].slept.asked} memories; {seconds:.0f} s in all"
    )
    rows = {"store on, before sleep": awake.mean(), "store off, no sleep": before.mean(), "store off": after.mean()}
    return Exam(
        [
            Measure(
                "sleep",
                "share of the gain",
                shares(awake, before, after),
                chance=0.0,
                floors={"no sleep": 0.0},
                note=note,
                rows={name: float(value) for name, value in rows.items()},
                episodes=np.concatenate([night.things for night in slept]),
                groups=life,
            ),
            _change(
                "awake change",
                "called correctly",
                [night.change for night in slept],
                [night.others for night in slept],
                f"with the store on, in {context.scaled(OTHERS)} other lives: after the night minus before, question "
                "by question",
            ),
            _change(
                "earlier skills",
                "skill score",
                [night.lost for night in slept],
                [np.arange(len(night.lost)) for night in slept],
                "the tests of short-term memory, after the night minus before, episode by episode; what reads encoders "
                "alone, as all skills of reflex do, stays the same",
            ),
        ]
    )


def by_thing(right: np.ndarray) -> np.ndarray:
    """The share right of each thing, float64 [THINGS], from the answers of one life [VIEWS * THINGS].

    A thing that a night has not learned is wrong look after look, so looks are not independent episodes.
    """
    return right.reshape(-1, THINGS).mean(0)


def shares(awake: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The share of the gain that is kept, (after - before) / (awake - before) of the means, as one value a thing [n].

    The mean of the values is that share. Each value tells how far its thing moves the share, through the gain too (the
    delta method's pseudo-values), so their interval includes the error of the gain.
    """
    # Without a gain nothing can be kept: the divisor is at least a hundredth.
    gain = max(float(awake.mean() - before.mean()), 0.01)
    share = float(after.mean() - before.mean()) / gain
    moved = (after - after.mean()) - (before - before.mean())
    gained = (awake - awake.mean()) - (before - before.mean())
    return np.asarray(share + (moved - share * gained) / gain)


def _change(name: str, unit: str, values: Sequence[np.ndarray], moments: Sequence[np.ndarray], note: str) -> Measure:
    """The change that nights made, 0 for none; `moments` identifies the episodes of each night's values."""
    changes = np.concatenate(values)
    night = np.repeat(np.arange(len(values)), [len(part) for part in values])
    return Measure(
        f"sleep/{name}", unit, changes, chance=-1.0, ceiling=0.0, floors={"no sleep": 0.0}, note=note, groups=night,
        episodes=identities({"night": night, "asked": np.concatenate(moments)}),
    )  # fmt: skip


class Sleeper:
    """A copy of an agent that sleeps on one life after another, each time from that agent's weights.

    It is one copy, so that the batches its nights rehearse are played only once: encoders and arcs do not change.
    """

    def __init__(self, agent: Agent) -> None:
        self.awake, self.copy, self._rehearsed = agent, copy.deepcopy(agent), dict[str, Batches]()

    def sleep(self, memory: Memory, context: Context) -> tuple[Agent, Slept]:
        """The copy after a night, valid until the next one; the night runs in a temporary folder."""
        self.copy.load_state_dict(self.awake.state_dict())
        # A stopped night of an exam is never continued, so it is saved only at its end.
        alone = {"loggers": (), "checkpoint": CheckpointConfig(every=f"{LONG_S} s")}
        with tempfile.TemporaryDirectory(prefix="devmind-sleep-") as folder:
            apart = replace(context, out=Path(folder), config=context.config.model_copy(update=alone))
            slept = sleep(
                self.copy, memory, apart, earlier=stages_of(self.awake), heads=[HEAD],
                steps=STEPS.get(self.awake.config.size), rehearsed=self._rehearsed,
            )  # fmt: skip
        return self.copy.eval(), slept


def night_of(sleeper: Sleeper, context: Context, seed: int) -> Night:
    """One life and its night; looks for before and after the night are rendered once."""
    agent = sleeper.awake
    of = lives(np.array([seed]), THINGS, HELD_OUT)
    others = lives(exam_seeds(context.scaled(OTHERS), context.seed, "sleep", "others", seed), THINGS, HELD_OUT)
    queries, queries_of_others = looks_by_view(of, VIEWS), looks_by_view(others, 1)
    (memory,), of_others = remember(agent, of), remember(agent, others)
    awake, before = questions(agent, of, queries, [memory]), questions(agent, of, queries)
    before_others = questions(agent, others, queries_of_others, of_others)
    asleep, slept = sleeper.sleep(memory, context)
    after = questions(asleep, of, queries)
    after_others = questions(asleep, others, queries_of_others, [reopen_memory(each) for each in of_others])
    lost = earlier_skills(asleep, context, seed) - earlier_skills(agent, context, seed)
    return Night(awake, before, after, slept, after_others - before_others, lost, of.things_met(), others.things_met())


def looks_by_view(of: Lives, views: int) -> list[list[Moment]]:
    """The looks to ask about, by view, at each thing of N lives, [views][N * P]."""
    return [_looks(of, f"view {view}", ASKED_AFTER_S) for view in range(views)]


def _looks(of: Lives, look: str, time_s: float) -> list[Moment]:
    """The look of that name at each thing of N lives, [N * P]."""
    things = np.repeat(np.arange(of.things)[None], len(of.seed), 0)
    observed = looks(of, things, look, MET_BY)
    senses: list[dict[str, Sense]] = [{name: x[at] for name, x in observed.items()} for at in np.ndindex(things.shape)]
    return [Moment(time_s, each, first=True) for each in senses]


def remember(agent: Agent, of: Lives) -> list[Memory]:
    """A memory in RAM for each of N lives that holds its things with their names, to be asked a while later."""
    rows = _looks(of, "named", 0.0)
    keys = keys_of(agent, Actor(agent, len(rows)).encode(rows), MET_BY)
    memories = []
    for life in range(len(of.seed)):
        begun = Memory(open_store(None), clock=lambda: 0.0)
        for thing in range(of.things):
            at = life * of.things + thing
            senses = {**rows[at].senses, "words": NAMES[of.answer[life, thing]]}
            begun.write(Moment(0.0, senses), keys[at], importance=1.0)
        memories.append(reopen_memory(begun))
    return memories


def reopen_memory(memory: Memory) -> Memory:
    """The same entries, not recalled yet, a while later."""
    return Memory(memory.store, clock=lambda: ASKED_AFTER_S)


def questions(
    agent: Agent, of: Lives, queries: Sequence[Sequence[Moment]], memories: Sequence[Memory] | None = None
) -> np.ndarray:
    """Whether each look at each thing of N lives, `queries` from `looks_by_view`, is called correctly, float64 [views *
    N * P].

    On an empty state; with `memories`, one a life, the agent gets their recalled entries.
    """
    each = None if memories is None else [memory for memory in memories for _ in range(of.things)]
    recall = None if each is None else OwnMemories(agent, each, MET_BY)
    actor, right = Actor(agent, of.answer.size, effectors=(), heads=(HEAD,), recall=recall), []
    for moments in queries:
        actor.reset()
        output = actor.act(moments)
        right.append(output.outputs[HEAD].mode().cpu().numpy() == of.answer.reshape(-1))
    return np.concatenate(right).astype(np.float64)


def earlier_skills(agent: Agent, context: Context, number: int) -> np.ndarray:
    """Skill scores, (value - chance) / (1 - chance), of every episode of all tests, float64 [n].

    Args:
        number: another number gives other episodes.
    """
    apart, child = replace(context, seed=derive_seed(context.seed, "keeping", number)), short_term.agent_policy(agent)
    signs = memory_len.right_answers(apart, memory_len.LENGTH, apart.scaled(SIGNS), child)
    sides = [maze.arrivals(apart, maze.T_MAZE, apart.scaled(CORRIDORS), child, maze.PHASES)]
    if minigrid.minigrid_installed():
        sides += [maze.arrivals(apart, name, 0, child) for name in maze.SIZES]
    suits = repeat_previous.returns_of_decks(apart, apart.scaled(DECKS), child)
    return np.concatenate([2 * np.concatenate([signs, *sides]) - 1, (suits + 0.5) / 1.5])
