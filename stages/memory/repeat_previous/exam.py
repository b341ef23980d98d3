"""The exam of repeat_previous: name the suit of the card dealt three cards ago."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from devmind.acting import Policy, Senses
from devmind.agent.agent import Agent
from devmind.curriculum.episodes import of_lessons, of_worlds
from devmind.curriculum.exam import Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds
from devmind.worlds.repeat_previous import SUITS
from stages.memory import short_term
from stages.memory.short_term import NO_STORE, SHORT_OFF

NAME = "repeat_previous"
LEVEL = "easy"
EPISODES, BESIDE = 1000, 400
"""Episodes of the score, and of each other row, as in memory_len."""
GATE = Gate([Threshold(NAME, 0.9)])


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """POPGym's return, -1..1, over a deck of 52 cards."""
    n = context.episodes(EPISODES, BESIDE)
    few = min(n, context.episodes(BESIDE))
    measure = Measure(
        NAME,
        "return",
        returns_of_decks(context, n, short_term.agent_policy(agent)),
        chance=-0.5,
        reference="a GRU of the same size and lesson (docs/memory-stage.md)",
        note=NO_STORE,
        episodes=of_worlds(context.make_world, NAME, LEVEL, exam_seeds(n, context.seed, NAME)),
    )
    yield [measure]
    rows = {SHORT_OFF: float(returns_of_decks(context, few, short_term.agent_policy(agent, short_term=False)).mean())}
    players = {
        "random": short_term.at_random(SUITS, context.seed, NAME),
        "the next suit": short_term.choosing(_another),
    }
    floors = {name: float(returns_of_decks(context, few, policy).mean()) for name, policy in players.items()}
    yield [replace(measure, floors=floors, rows=rows)]


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Decks of lessons, int64 [n]."""
    return of_lessons(context.make_world, n, context.seed, NAME, [LEVEL])


def returns_of_decks(context: Context, n: int, policy: Policy) -> np.ndarray:
    """Return of each of `n` exam episodes, float64 [n]."""
    return short_term.total_rewards(context, NAME, LEVEL, exam_seeds(n, context.seed, NAME), policy)


def _another(senses: Senses, first: np.ndarray) -> np.ndarray:
    """Another suit than the one in view, which is slightly rarer among the other cards of the deck."""
    return np.asarray((senses["signal"].argmax(1) + 1) % SUITS)
