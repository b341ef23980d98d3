"""The exam procedures: what the agent adds to plans that people wrote.

In Tileworld, its learned worth of commitments chooses among them on the meta level. In the nursery, an errand runs on
its beliefs. Three results do not depend on the agent: the interpreter solves blocks world, it answers a failing jet
within a cycle, and bold and cautious stand in the published order. Tests check these and a benchmark prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.episodes import of_lessons, of_worlds
from devmind.curriculum.exam import Exam, Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng
from devmind.worlds.nursery import hiding
from stages.reasoning.procedures import errand
from stages.reasoning.procedures.commitment import COMMITMENTS, Forced, live, reactive, worths
from stages.reasoning.procedures.lesson import NAME, episode_names, rates

WORLDS, ROOMS = 400, 160
TUNING = 40
"""Lesson worlds on which the rule's threshold is chosen."""
DELAY = hiding.DELAYS[0]
"""Ticks from covering the things to the question: an errand with a long delay costs a second."""
ERRAND = f"{NAME}/errand"
GATE = Gate([Threshold(NAME, 0.005), Threshold(ERRAND, 0.75)])
BOLD, CAUTIOUS = "bold always (a planner without reaction)", "cautious always"
REACTIVE, RULE = "reactive agent, no plans", "bold while changes are rare (threshold)"
Worth = Callable[[np.ndarray], Sequence[float]]


def examine(agent: Agent, context: Context) -> Exam:
    """Effectiveness by learned utilities, and errands by the agent's own beliefs."""
    return Exam.joined((_tileworld(agent, context), _errand(agent, context)))


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Tileworlds of lessons, and the memory stage's rooms with hidden things, int64."""
    seeds = lesson_seeds(n // 2, context.seed, NAME, "episodes")
    worlds = episode_names(seeds, rates(len(seeds), numpy_rng("lesson", NAME, context.seed, "episodes")))
    levels = [f"hide/{kind}" for kind in errand.KINDS]
    return np.concatenate([worlds, of_lessons(context.make_world, n - n // 2, context.seed, "nursery", levels)])


def effectiveness(agent: Agent, seed: int, rate: float) -> float:
    """The agent's effectiveness in one world."""
    return live(seed, rate, worth=lambda situation: worths(agent, situation))[0]


@lru_cache(maxsize=4096)
def _committed(seed: int, rate: float, plan: str) -> float:
    """Effectiveness of always the same commitment in one world: the same whoever is examined, as often as is asked."""
    return live(seed, rate, Forced(plan))[0]


@in_parts
def _tileworld(agent: Agent, context: Context) -> Parts:
    n = context.episodes(WORLDS)
    seeds = exam_seeds(n, context.seed, NAME)
    # Drawn by name for each world, so that a glimpse asks about worlds of the full exam.
    speed = np.concatenate([rates(1, numpy_rng("exam", NAME, int(seed))) for seed in seeds])
    worlds = list(zip(seeds.tolist(), speed.tolist(), strict=True))
    bold, cautious = (np.array([_committed(*one, plan) for one in worlds]) for plan in COMMITMENTS)
    own = np.array([effectiveness(agent, *one) for one in worlds])
    mean = (bold + cautious) / 2
    measure = Measure(
        NAME,
        "effectiveness above the mean of bold and cautious",
        own - mean,
        chance=0.0,
        ceiling=float((np.maximum(bold, cautious) - mean).mean()),
        episodes=episode_names(seeds, speed),
        reference="Kinny and Georgeff (1991): bold is better if changes are rare, cautious if they are frequent",
        note=f"Tileworld by plans; effectiveness is {own.mean():.3f}; the ceiling is the better of both in each world",
    )
    yield [measure]
    rule = threshold(tune_threshold(context.episodes(TUNING), context.seed))
    floors = {
        BOLD: float((bold - mean).mean()),
        CAUTIOUS: float((cautious - mean).mean()),
        REACTIVE: float(np.mean([reactive(*one) for one in worlds] - mean)),
        RULE: float(np.mean([live(*one, worth=rule)[0] for one in worlds] - mean)),
    }
    order = np.argsort(speed)
    slow, fast = order[: n // 3], order[-(n // 3) :]
    rows = {
        "bold, the slowest third": float((bold - mean)[slow].mean()),
        "bold, the fastest third": float((bold - mean)[fast].mean()),
        "agent, the slowest third": float((own - mean)[slow].mean()),
        "agent, the fastest third": float((own - mean)[fast].mean()),
    }
    yield [replace(measure, floors=floors, rows=rows)]


def threshold(most: float) -> Worth:
    """The rule: bold while the logarithm of changes a tick is at most `most`, or not known yet."""
    return lambda situation: [0.0, float(situation[0] > most)]


@lru_cache
def tune_threshold(n: int, seed: int) -> float:
    """The threshold with the highest effectiveness in lesson worlds."""
    seeds = lesson_seeds(n, seed, NAME, "tuning").tolist()
    speed = rates(n, numpy_rng("lesson", NAME, seed, "tuning")).tolist()
    levels = np.linspace(-3.5, -0.5, 7)
    scores = [np.mean([live(*one, worth=threshold(at))[0] for one in zip(seeds, speed, strict=True)]) for at in levels]
    return float(levels[int(np.argmax(scores))])


def rooms(context: Context) -> dict[str, np.ndarray]:
    """Seeds of the exam's rooms by kind; in half of them the thing stays where it was seen."""
    n, seeds_of = context.episodes(ROOMS), {}
    for kind, share in zip(errand.KINDS, (n // 2, n // 4, n - n // 2 - n // 4), strict=True):
        seeds = exam_seeds(20 * ROOMS, context.seed, NAME, kind)
        seeds_of[kind] = seeds[hiding.plan(seeds, kind).delay == DELAY][:share]
    return seeds_of


def _errand(agent: Agent, context: Context) -> Exam:
    seeds = rooms(context)
    by_kind = {kind: errand.of_agent(agent, context, kind, of) for kind, of in seeds.items()}
    right, needed = (np.concatenate([getattr(one, name) for one in by_kind.values()]) for name in ("right", "needed"))
    moved = float(needed.mean())
    episodes = [of_worlds(context.make_world, "nursery", f"hide/{kind}", of) for kind, of in seeds.items()]
    measure = Measure(
        ERRAND,
        "found, with a question only if one was needed",
        right,
        chance=(1 - moved) / len(hiding.PLACES),
        rate=True,
        episodes=np.concatenate(episodes),
        note="the baselines have perfect perception; an agent without the memory stage's tracker has no beliefs",
    )
    floors = {
        "asks at once (reactive agent, no beliefs)": moved,
        "never asks (planner without reaction)": 1 - moved,
    }
    rows = {f"{name}, {kind}": float(getattr(one, name).mean()) for kind, one in by_kind.items() for name in SHOWN}
    return Exam([measure], lambda: [replace(measure, floors=floors, rows=rows)])


SHOWN = ("found", "asked")
