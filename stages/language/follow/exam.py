"""The skill `follow`: rooms that no lesson had, an instruction, and whether it was done.

A full exam asks too how far that carries in rooms of further kinds, which the gate does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from devmind.acting import Actor, Policy
from devmind.agent.agent import Agent
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng, torch_generator
from devmind.worlds.minigrid import FORWARD, PICKUP, installed, room
from stages.language.follow.hand_rules import at_random, straight_on, to_the_red_ball
from stages.language.follow.lesson import ROOM
from stages.language.follow.rooms import demonstrate, returns
from stages.language.parts import BOARD, CHOOSE, TEXT

NAME = "follow"
LOCAL, PICK_UP = "follow/local", "follow/pickup"
GATE = Gate([Threshold(NAME, 0.95), Threshold(LOCAL, 0.85, goal=True)])
EPISODES = 512
TOGETHER = 128
FURTHER = {
    LOCAL: ("BabyAI-GoToLocal-v0", FORWARD),
    PICK_UP: ("BabyAI-PickupLoc-v0", PICKUP),
}
"""Rooms in which a thing is told by its kind, its colour or its place among others like it, to go to or to pick up; and
the last of MiniGrid's actions that is any use there, which random steps are drawn from.
"""


def examine(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """The share of episodes that end as told, by the agent's likeliest choices.

    Without MiniGrid nothing is measured, and the gate says so.
    """
    if not installed():
        return []
    full = level == "full"
    n = context.episodes(EPISODES // 5 if level == "glimpse" else EPISODES)
    seeds = exam_seeds(n, context.seed, NAME)
    values = played(seeds, Actor(agent, effectors=[CHOOSE]))
    measure = Measure(
        NAME,
        "done as told",
        values,
        chance=0.0,
        ceiling=1.0,
        floors={name: float(played(seeds, policy).mean()) for name, policy in _floors(context).items()} if full else {},
        rate=True,
        reference="BabyAI 1.0: 0.99 from some 8,000 to 12,000 demonstrations of the bot",
        note=f"{ROOM}, new rooms; the bot's ceiling is in the rows",
        rows=_rows(agent, context, seeds) if full else {},
        episodes=begun(seeds),
    )
    return [measure, *(further(agent, context, name) for name in FURTHER)] if full else [measure]


def further(agent: Agent, context: Context, name: str) -> Measure:
    """What episodes in further rooms earn, on a scale of random steps (0) and the bot (1) there."""
    where, last = FURTHER[name]
    seeds = exam_seeds(context.episodes(EPISODES), context.seed, name)
    some = seeds[: max(8, len(seeds) // 4)]
    generator = torch_generator(context.seed, name, "sampled", device=agent.device)
    rng = numpy_rng(context.seed, name, "rules")
    bot = float(np.mean([shown.reward if (shown := demonstrate(where, int(seed))) else 0.0 for seed in some]))
    random, straight = (earned(seeds, rule, where).mean() for rule in (at_random(rng, last), straight_on(rng)))

    def scaled(returns: np.ndarray) -> np.ndarray:
        return (returns - random) / (bot - random)

    likeliest = earned(seeds, Actor(agent, effectors=[CHOOSE]), where)
    sampled = earned(seeds, Actor(agent, effectors=[CHOOSE], generator=generator), where)
    deaf = earned(some, Actor(agent, effectors=[CHOOSE], without=[TEXT]), where)
    return Measure(
        name,
        "return, random to bot",
        scaled(likeliest),
        chance=0.0,
        ceiling=1.0,
        floors={"random": float(scaled(random)), "straight on": float(scaled(straight))},
        note=f"{where}, which no lesson shows; random steps earn {random:.3f} there, the bot {bot:.3f} (n={len(some)})",
        rows={
            "done as told": float((likeliest > 0).mean()),
            "sampled": float(scaled(sampled).mean()),
            "sampled, done as told": float((sampled > 0).mean()),
            "text off": float(scaled(deaf).mean()),
        },
        episodes=begun(seeds, where),
    )


def taught(context: Context, n: int) -> np.ndarray:
    """Rooms of lessons, int64 [n]."""
    return begun(lesson_seeds(n, context.seed, NAME, "episodes"))


def begun(seeds: np.ndarray, where: str = ROOM) -> np.ndarray:
    """Which rooms and instructions the seeds begin, int64 [N]."""
    world, rooms, told = room(where), [], []
    env: Any = world.env.unwrapped
    for seed in seeds.tolist():
        world.reset(seed=seed)
        rooms.append(np.r_[env.grid.encode().ravel(), *env.agent_pos, env.agent_dir].astype(np.int64))
        told.append(env.mission)
    world.close()
    return identities({"room": np.stack(rooms), "told": told})


def played(seeds: np.ndarray, policy: Policy) -> np.ndarray:
    """Whether each episode ended as told, float64 [N] of 0 and 1."""
    return (earned(seeds, policy) > 0).astype(np.float64)


def earned(seeds: np.ndarray, policy: Policy, where: str = ROOM) -> np.ndarray:
    """What each episode earned, float64 [N]: nothing where it did not end as told, else more the sooner it did."""
    groups = np.split(seeds, range(TOGETHER, len(seeds), TOGETHER))
    return np.concatenate([returns(where, group, policy) for group in groups])


def _rows(agent: Agent, context: Context, seeds: np.ndarray) -> dict[str, float]:
    """The same rooms with sampled choices, with what is said off, with the board off; and the bot in them."""
    generator = torch_generator(context.seed, NAME, "sampled", device=agent.device)
    sampled = Actor(agent, effectors=[CHOOSE], generator=generator)
    some = seeds[: max(8, len(seeds) // 4)]
    bot = [demonstrate(ROOM, int(seed)) is not None for seed in some]
    return {
        "sampled": float(played(seeds, sampled).mean()),
        "text off": float(played(some, Actor(agent, effectors=[CHOOSE], without=[TEXT])).mean()),
        "board off": float(played(some, Actor(agent, effectors=[CHOOSE], without=[BOARD])).mean()),
        "the bot": float(np.mean(bot)),
    }


def _floors(context: Context) -> dict[str, Policy]:
    """Rules that hear nothing."""
    rng = numpy_rng(context.seed, NAME, "rules")
    rules = (("random", at_random), ("straight on", straight_on), ("to the red ball, by rule", to_the_red_ball))
    return {name: rule(rng) for name, rule in rules}
