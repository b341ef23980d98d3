"""DAgger: the bot labels the agent's own episodes with what it would do (Ross, Gordon and Bagnell, 2011, "A reduction
of imitation learning and structured prediction to no-regret online learning").

An agent that imitates the bot's episodes alone never sees where its own mistakes lead. Random slips of the bot (DART)
show some of that; the agent's own steps show exactly that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from devmind.acting import Policy, Senses, rollout
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds
from devmind.worlds.minigrid import Rooms, room
from stages.language.follow.rooms import BOT_LOST, Bot, Demonstration, following, rooms_with_instructions
from stages.language.parts import BOARD, CHOOSE

TICKS = 16
"""Ticks of an episode of the agent; going round in circles shows in fewer."""


def relabel_episodes(
    name: str, seeds: Sequence[int] | np.ndarray, policy: Policy, ticks: int = TICKS
) -> list[Demonstration]:
    """Episodes in which `policy` acts, with what the bot would do at each tick as `choice`.

    The bot was written for its own steps and may lose its way. The record of an episode ends there; if that is at its
    first tick, the episode is left out.
    """
    rooms = rooms_with_instructions([room(name) for _ in seeds], np.asarray(seeds))
    labelled, earned = _Labelled(policy, rooms), np.zeros(rooms.num_envs)
    for tick in rollout(labelled, rooms, ticks, sparing=hasattr(policy, "keep")):
        earned += tick.reward
        labelled.over |= tick.ended
        last = tick.following[BOARD]
        if labelled.all_over:
            break
    rooms.close()
    return [
        Demonstration(
            np.stack([*labelled.boards[row], last[row]]), np.array(labelled.choices[row]), np.array(labelled.done[row]),
            rooms.said[row], float(earned[row]),
        )
        for row in range(rooms.num_envs) if labelled.choices[row]
    ]  # fmt: skip


class _Labelled:
    """`policy`, with a bot in every row that labels each tick.

    Attributes:
        boards, choices, done: of each row, the views, what the bot would have done, and what was done.
        over: whether the episode of each row is over, bool [N].
    """

    def __init__(self, policy: Policy, rooms: Rooms) -> None:
        self.policy, n = policy, rooms.num_envs
        self.bots: list[Bot | None] = [Bot(world) for world in rooms.worlds]  # type: ignore[arg-type]
        self.boards: list[list[np.ndarray]] = [[] for _ in range(n)]
        self.choices: list[list[int]] = [[] for _ in range(n)]
        self.done: list[list[int]] = [[] for _ in range(n)]
        self.over, self.active = np.zeros(n, bool), np.arange(n)

    @property
    def all_over(self) -> bool:
        """Whether no row has anything more to record."""
        return all(over or bot is None for over, bot in zip(self.over, self.bots, strict=True))

    def keep(self, index: np.ndarray) -> None:
        """Continue only the rows `index` of those that still go on."""
        self.active = self.active[index]
        self.policy.keep(index)  # type: ignore[attr-defined]

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        labels = [None if self.over[row] else self._label(row) for row in self.active.tolist()]
        acted = self.policy(senses, first)
        for at, (row, label) in enumerate(zip(self.active.tolist(), labels, strict=True)):
            if label is not None and (bot := self.bots[row]) is not None:
                bot.done = int(acted[CHOOSE][at])
                self.boards[row].append(senses[BOARD][at])
                self.choices[row].append(label)
                self.done[row].append(bot.done)
        return acted

    def _label(self, row: int) -> int | None:
        """What this row's bot would do now; None, for good, once it has lost its way."""
        bot = self.bots[row]
        try:
            return None if bot is None else bot.choose()
        except BOT_LOST:
            self.bots[row] = None
            return None


def own_episodes(agent: Agent, context: Context, name: str, update: int, rows: int) -> list[Demonstration]:
    """Episodes of the agent as it is at this update, labelled by the bot, in rooms `name` that no other lesson has."""
    seeds = lesson_seeds(rows, context.seed, "follow", "own", name, update)
    was_training = agent.training
    agent.eval()
    try:
        with torch.no_grad():
            return relabel_episodes(name, seeds, following(agent))
    finally:
        agent.train(was_training)
