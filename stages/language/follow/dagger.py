"""DAgger: the bot says what it would do wherever the agent itself has come to (Ross, Gordon and Bagnell, 2011, "A
reduction of imitation learning and structured prediction to no-regret online learning").

Who imitates the bot's own episodes never sees where its own mistakes lead; a hand that slips now and then (DART) shows
some of that, the agent's own steps show just that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from devmind.acting import Actor, Policy, Senses, rollout
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds
from devmind.worlds.minigrid import room
from stages.language.follow.rooms import BOT_LOST, Bot, Demonstration, Instructed
from stages.language.parts import BOARD, CHOOSE

TICKS = 32
"""Of an episode of its own."""


def relabelled(name: str, seeds: Sequence[int] | np.ndarray, policy: Policy, ticks: int = TICKS) -> list[Demonstration]:
    """Episodes in which `policy` acts, with what the bot would do at each of their ticks as `choice`.

    From where the bot loses its way, for it was written for its own steps, an episode is left out; one in which that is
    at once is not among them.
    """
    rooms = Instructed([room(name) for _ in seeds], np.asarray(seeds))
    bots: list[Bot | None] = [Bot(world) for world in rooms.rooms.worlds]  # type: ignore[arg-type]
    boards: list[list[np.ndarray]] = [[] for _ in seeds]
    choices: list[list[int]] = [[] for _ in seeds]
    done: list[list[int]] = [[] for _ in seeds]
    over, earned = np.zeros(len(bots), bool), np.zeros(len(bots))

    def told(senses: Senses, first: np.ndarray) -> Actions:
        labels = [None if over[row] else _told(bots, row) for row in range(len(bots))]
        acted = policy(senses, first)
        for row, (label, bot) in enumerate(zip(labels, bots, strict=True)):
            if label is not None and bot is not None:
                bot.done = int(acted[CHOOSE][row])
                boards[row].append(senses[BOARD][row])
                choices[row].append(label)
                done[row].append(bot.done)
        return acted

    for tick in rollout(told, rooms, ticks):
        earned += tick.reward
        over |= tick.ended
        last = tick.following[BOARD]
        if all(over[row] or bot is None for row, bot in enumerate(bots)):
            break
    rooms.rooms.close()
    return [
        Demonstration(
            np.stack([*boards[row], last[row]]), np.array(choices[row]), np.array(done[row]),
            rooms.instructions[row], float(earned[row]),
        )
        for row in range(len(bots)) if choices[row]
    ]  # fmt: skip


def _told(bots: list[Bot | None], row: int) -> int | None:
    """What this row's bot would do now; it is asked no more once it is lost."""
    bot = bots[row]
    try:
        return None if bot is None else bot.choose()
    except BOT_LOST:
        bots[row] = None
        return None


def own_episodes(agent: Agent, context: Context, name: str, update: int, rows: int) -> list[Demonstration]:
    """Episodes that the agent lives through as it is at this update, told by the bot; in rooms of their own."""
    seeds = lesson_seeds(rows, context.seed, "follow", "own", update)
    was_training = agent.training
    agent.eval()
    try:
        with torch.no_grad():
            actor: Any = Actor(agent, effectors=[CHOOSE])
            return relabelled(name, seeds, actor)
    finally:
        agent.train(was_training)
