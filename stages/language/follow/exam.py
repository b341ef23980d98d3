"""The skill `follow`: new rooms with an instruction, and whether the agent carries it out.

In the first kind of rooms the instruction is always the same, so its score says little about words. In the further
kinds the instruction names one thing among others; with an empty page, or with another instruction, an agent that goes
by words fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from devmind.acting import Policy
from devmind.agent.agent import Agent
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, numpy_rng
from devmind.worlds.minigrid import FORWARD, PICKUP, minigrid_installed, room
from stages.language.follow.hand_rules import at_random, straight_on, to_the_red_ball
from stages.language.follow.lesson import NAME, ROOM, ROOMS, pool_seeds
from stages.language.follow.rooms import HIDDEN, Likeliest, demonstrate, following, missions, returns
from stages.language.parts import BOARD, untrained_agent

LOCAL, PICK_UP = "follow/local", "follow/pickup"
GATE = Gate([Threshold(NAME, 0.95), Threshold(LOCAL, 0.85, goal=True)])
EPISODES = 512
TOGETHER = 128
FURTHER = {LOCAL: (ROOMS[1], FORWARD), PICK_UP: (ROOMS[2], PICKUP)}
"""Rooms whose instruction names a thing by its kind, its colour or its place, to go to or to pick up; and the last of
MiniGrid's actions that is of use there, up to which random actions are drawn.
"""
ELSEWHERE = "go to the grey box"
"""The other instruction, if all rooms have the same."""


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """The share of instructions that are carried out, by actions drawn as in a life (`head.Drawn`).

    Without MiniGrid nothing is measured, and the gate says so.
    """
    if not minigrid_installed():
        return
    n = context.episodes(EPISODES)
    seeds = exam_seeds(n, context.seed, NAME)
    values = success_of_episodes(seeds, following(agent))
    measure = Measure(
        NAME,
        "instruction carried out",
        values,
        chance=0.0,
        rate=True,
        reference="BabyAI 1.0: 0.99 from some 8,000 to 12,000 demonstrations of the bot",
        note=f"{ROOM}, new rooms; the bot's ceiling is in the rows",
        episodes=episode_names(seeds),
    )
    yield [measure]
    floors, rows = _floors(agent, context, seeds), _rows(agent, context, seeds)
    yield [
        replace(measure, floors=floors, rows=rows),
        *(further(agent, context, name) for name in FURTHER),
    ]


def further(agent: Agent, context: Context, name: str) -> Measure:
    """The return in further rooms, on a scale from random steps (0) to the bot (1)."""
    where, last = FURTHER[name]
    seeds = exam_seeds(context.episodes(EPISODES), context.seed, name)
    few_seeds = _some(seeds)
    rng = numpy_rng(context.seed, name, "rules")
    quarter = seeds[: max(8, len(seeds) // 4)]
    bot = float(np.mean([demo.reward if (demo := demonstrate(where, int(seed))) else 0.0 for seed in quarter]))
    random, straight = (
        returns_of_episodes(seeds, rule, where).mean() for rule in (at_random(rng, last), straight_on(rng))
    )

    def scaled(returns: np.ndarray) -> np.ndarray:
        return (returns - random) / (bot - random)

    drawn, likeliest = (returns_of_episodes(seeds, policy, where) for policy in (following(agent), Likeliest(agent)))
    few = {
        "an untaught agent": returns_of_episodes(few_seeds, following(untrained_agent(agent)), where),
        "instruction hidden": returns_without_words(few_seeds, following(agent), where),
        "another instruction": returns_with_other_words(few_seeds, following(agent), where),
    }
    return Measure(
        name,
        "return, random to bot",
        scaled(drawn),
        chance=0.0,
        floors={
            "random": float(scaled(random)),
            "straight on": float(scaled(straight)),
            **{floor: float(scaled(each).mean()) for floor, each in few.items()},
        },
        note=f"{where}; random steps earn {random:.3f} there, the bot {bot:.3f} (n={len(quarter)}; "
        f"n={len(few_seeds)} of what is untaught, hidden or another)",
        rows={
            "instructions carried out": float((drawn > 0).mean()),
            "likeliest actions": float(scaled(likeliest).mean()),
            "likeliest actions, instructions carried out": float((likeliest > 0).mean()),
        },
        episodes=episode_names(seeds, where),
    )


def returns_without_words(seeds: np.ndarray, policy: Policy, where: str = ROOM) -> np.ndarray:
    """The return of each episode with an empty page in place of its instruction, float64 [N]."""
    return returns_of_episodes(seeds, policy, where, [HIDDEN] * len(seeds))


def returns_with_other_words(seeds: np.ndarray, policy: Policy, where: str = ROOM) -> np.ndarray:
    """The same with another room's instruction, which always differs from the room's own, float64 [N]."""
    instructions = missions(where, seeds)
    others = [
        next((one for one in instructions[at:] + instructions[:at] if one != own), ELSEWHERE)
        for at, own in enumerate(instructions)
    ]
    return returns_of_episodes(seeds, policy, where, others)


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Rooms of lessons, as many of each kind, int64 [about n]."""
    numbers = range(max(1, n // len(ROOMS)))
    seeds = np.array([pool_seeds(context.seed, number)[0] for number in numbers])
    return np.concatenate([episode_names(seeds, where) for where in ROOMS])


def episode_names(seeds: np.ndarray, where: str = ROOM) -> np.ndarray:
    """Names of the rooms and instructions of the seeds, int64 [N]."""
    world, rooms, instructions = room(where), [], []
    env: Any = world.env.unwrapped
    for seed in seeds.tolist():
        world.reset(seed=seed)
        rooms.append(np.r_[env.grid.encode().ravel(), *env.agent_pos, env.agent_dir].astype(np.int64))
        instructions.append(env.mission)
    world.close()
    return identities({"room": np.stack(rooms), "told": instructions})


def success_of_episodes(seeds: np.ndarray, policy: Policy) -> np.ndarray:
    """Whether each instruction was carried out, float64 [N] of 0 and 1."""
    return (returns_of_episodes(seeds, policy) > 0).astype(np.float64)


def returns_of_episodes(
    seeds: np.ndarray, policy: Policy, where: str = ROOM, instructions: Sequence[str] | None = None
) -> np.ndarray:
    """The return of each episode, float64 [N]: 0 if the instruction was not carried out, else the more the sooner.

    Args:
        instructions: by episode, a text in place of the room's own instruction.
    """
    groups = np.split(np.arange(len(seeds)), range(TOGETHER, len(seeds), TOGETHER))
    of_groups = [None if instructions is None else [instructions[row] for row in group] for group in groups]
    return np.concatenate([
        returns(where, seeds[group], policy, each) for group, each in zip(groups, of_groups, strict=True)
    ])  # fmt: skip


def _some(seeds: np.ndarray) -> np.ndarray:
    """An eighth of the episodes, for rows and baselines whose episodes mostly last all of their ticks."""
    return seeds[: max(8, len(seeds) // 8)]


def _rows(agent: Agent, context: Context, seeds: np.ndarray) -> dict[str, float]:
    """Rows: the likeliest actions, an empty page, another instruction, the board off; and the bot."""
    few_seeds = _some(seeds)
    bot = [demonstrate(ROOM, int(seed)) is not None for seed in few_seeds]
    return {
        "likeliest actions": float(success_of_episodes(seeds, Likeliest(agent)).mean()),
        "instruction hidden": float((returns_without_words(few_seeds, following(agent)) > 0).mean()),
        "another instruction": float((returns_with_other_words(few_seeds, following(agent)) > 0).mean()),
        "board off": float(success_of_episodes(few_seeds, following(agent, without=[BOARD])).mean()),
        "the bot": float(np.mean(bot)),
    }


def _floors(agent: Agent, context: Context, seeds: np.ndarray) -> dict[str, float]:
    """Rules that ignore the instruction, and an untaught agent."""
    rng = numpy_rng(context.seed, NAME, "rules")
    rules = (("random", at_random), ("straight on", straight_on), ("to the red ball, by rule", to_the_red_ball))
    floors = {name: float(success_of_episodes(seeds, rule(rng)).mean()) for name, rule in rules}
    return floors | {
        "an untaught agent": float(success_of_episodes(_some(seeds), following(untrained_agent(agent))).mean())
    }
