"""Following, as it is taught: BabyAI's bot is imitated, whole episodes, from its view and from what was said."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import map_tensors
from devmind.agent.text import BEGIN
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds, numpy_rng
from stages.language.follow.dagger import own_episodes
from stages.language.follow.rooms import Demonstration, demonstrate
from stages.language.parts import BOARD, CHOOSE, TEXT
from stages.language.seeing import as_read

ROOM = "BabyAI-GoToRedBallGrey-v0"
POOL = {"tiny": 64}
POOL_ELSE = 10_000
"""Demonstrations that a lesson draws from."""
STRAY = 0.1
"""How often the bot's hand slips."""
TOGETHER = 6
"""Groups of a batch's episodes, by length."""
LONGEST = 32
"""Ticks of an episode that are learned from; the bot takes six on average, 20 at most."""


def lesson_batch(context: Context, update: int, rows: int, room: str = ROOM) -> dict[str, Any]:
    """`rows` episodes of the room's pool, padded to one length."""
    return episodes(_shown(context, update, rows, room))


def mixed_batch(agent: Agent, context: Context, update: int, rows: int, own: float, room: str = ROOM) -> dict[str, Any]:
    """`rows` episodes, of which the share `own` are the agent's, as it is now, with what the bot would have done."""
    lived = own_episodes(agent, context, room, update, round(own * rows))
    return episodes([*lived, *_shown(context, update, rows - len(lived), room)])


def _shown(context: Context, update: int, rows: int, room: str) -> list[Demonstration]:
    size = POOL.get(context.config.size, POOL_ELSE)
    picked = numpy_rng(context.seed, "follow", update).integers(0, size, rows)
    return [_of_pool(room, context.seed, int(number)) for number in picked]


def _of_pool(room: str, seed: int, number: int) -> Demonstration:
    """The pool's demonstration of that number: where the bot fails in a room, that of the next seed."""
    for room_seed in lesson_seeds(8, seed, "follow", number).tolist():
        if found := _kept(room, room_seed):
            return found
    raise RuntimeError(f"BabyAI's bot failed in eight rooms of '{room}' one after another.")


@lru_cache(maxsize=POOL_ELSE)
def _kept(room: str, room_seed: int) -> Demonstration | None:
    return demonstrate(room, room_seed, STRAY)


def episodes(shown: list[Demonstration]) -> dict[str, Any]:
    """Demonstrations as a Batch, with `choice` int64 [B, T]."""
    lengths = torch.tensor([min(LONGEST, len(one.choice)) for one in shown])
    rows, ticks = len(shown), int(lengths.max())
    valid = torch.arange(ticks)[None] < lengths[:, None]
    board = np.zeros((rows, ticks, *shown[0].board.shape[1:]), np.int8)
    choice = np.zeros((rows, ticks), np.int64)
    said = [np.frombuffer(one.instruction.encode(), np.uint8) for one in shown]
    text = np.full((rows, ticks, 1 + max(map(len, said))), -1, np.int64)
    for row, (one, words) in enumerate(zip(shown, said, strict=True)):
        length = int(lengths[row])
        board[row, :length], choice[row, :length] = one.board[:length], one.choice[:length]
        text[row, :length, : 1 + len(words)] = [BEGIN, *words]
    first = torch.zeros(rows, ticks, dtype=torch.bool)
    first[:, 0] = True
    pages = torch.from_numpy(text)
    return {
        "senses": {BOARD: torch.from_numpy(board), TEXT: pages},
        "present": {BOARD: valid, TEXT: (pages >= 0).any(-1)},
        "first": first,
        "valid": valid,
        "choice": torch.from_numpy(choice),
    }


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy against what the bot would do, and how often that is the likeliest.

    Episodes of like lengths go through the trunk together: in one Batch most of its tokens would be padding.
    """
    batch = as_read(agent, batch)
    ticks = batch["valid"].sum(1)
    shares, nats, right = ticks.sum(), [], []
    for rows in ticks.argsort().chunk(TOGETHER):
        part = map_tensors(batch, lambda x, rows=rows: x[rows, : int(ticks[rows].max())])
        output: Any = agent.forward(part, [CHOOSE])[CHOOSE]
        nats.append(output.loss(part["choice"], part["valid"]) * part["valid"].sum() / shares)
        right.append((output.mode() == part["choice"])[part["valid"]])
    value = torch.stack(nats).sum()
    return value, {"follow": value.detach(), "as the bot": torch.cat(right).float().mean()}
