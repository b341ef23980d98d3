"""What else the agent can do: the tests of short-term memory, played before and after something that may cost them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context
from devmind.seeding import derive_seed
from devmind.worlds import minigrid
from stages.memory import cards, mazes, playing, remembering

SIGNS, CORRIDORS, DECKS = 200, 100, 100
"""Episodes of each test, beside all exam rooms: three nights have 1,000 of them (DESIGN, section 5.2)."""


def played(agent: Agent, context: Context, number: int) -> np.ndarray:
    """Skill scores, (value - chance) / (1 - chance), of every episode of all tests, float64 [n].

    Args:
        number: another number is other episodes.
    """
    apart, child = replace(context, seed=derive_seed(context.seed, "keeping", number)), playing.child(agent)
    signs = remembering.answered(apart, remembering.LENGTH, apart.episodes(SIGNS), child)
    sides = [mazes.arrived(apart, mazes.T_MAZE, apart.episodes(CORRIDORS), child)]
    if minigrid.installed():
        sides += [mazes.arrived(apart, name, 0, child) for name in mazes.SIZES]
    suits = cards.dealt(apart, apart.episodes(DECKS), child)
    return np.concatenate([2 * np.concatenate([signs, *sides]) - 1, (suits + 0.5) / 1.5])
