"""Batches and loss of following: whole episodes of BabyAI's bot are imitated from the view and the instruction.

In turns with reading and talking the grown layers learn too (`stages/language/lessons.py`). In the lesson `follow`
(`lesson`) the head alone learns, also from the agent's own episodes, labelled by the bot (DAgger).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.config import by_size
from devmind.agent.text import BEGIN
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import gradient_lesson
from devmind.seeding import lesson_seeds, numpy_rng
from stages.language.follow.dagger import own_episodes
from stages.language.follow.learner import FollowLearner, groups
from stages.language.follow.rooms import Demonstration, demonstrate
from stages.language.follow.symmetries import as_well
from stages.language.parts import BOARD, FOLLOW, TEXT

NAME = "follow"
ROOMS = ("BabyAI-GoToRedBallGrey-v0", "BabyAI-GoToLocal-v0", "BabyAI-PickupLoc-v0")
"""In the first one the instruction is always the same. In the others it names a thing by kind and colour, in the last
one also by its place at the beginning.
"""
ROOM = ROOMS[0]
POOL = by_size(8_000, tiny=64)
"""Demonstrations of each room that lessons draw from; with the agent's own episodes that is less than 10,000."""
STRAY = 0.1
"""The share of the bot's actions that are replaced by random turns or steps."""
LONGEST = 32
"""Ticks of an episode that are learned from, at most; the bot takes six on average, and at most 20."""
OWN, IMITATES = 0.2, 0.4
"""The share of rows in which the agent itself acts, and the share of the lesson before that begins."""
STEPS = {"tiny": 24, "nursery": 330, "child": 1200, "adult": 3000}
ROWS, LEARNING_RATE, MINUTES = 36, 2e-3, 6.0


def lesson(context: Context) -> Lesson:
    """The lesson as data: following by DAgger in all rooms. Trunk and encoders stay as earlier lessons left them."""
    return gradient_lesson(
        context, NAME, loss, dagger_batch, steps=STEPS, rows=ROWS, learning_rate=LEARNING_RATE, minutes=MINUTES,
        trains=trained_weights, rehearsed=True, control=(), learner=FollowLearner, skills=(NAME,),
    )  # fmt: skip


def trained_weights(agent: Agent) -> tuple[str, ...]:
    """The head that follows."""
    return (f"heads.{FOLLOW}.",)


def lesson_batch(context: Context, update: int, rows: int, rooms: Sequence[str] = ROOMS) -> dict[str, Any]:
    """`rows` episodes of the rooms' pools, each room in turn, varied by symmetries (`as_well`) and padded to one
    length.
    """
    rng = numpy_rng(context.seed, NAME, "symmetries", update)
    return episodes([as_well(one, rng) for one in _demos(context, update, rows, rooms)])


def dagger_batch(agent: Agent, context: Context, update: int, rows: int, steps: int) -> dict[str, Any]:
    """A batch of the lesson; after the share IMITATES of it the agent acts in some of the episodes."""
    return mixed_batch(agent, context, update, rows, OWN if update >= IMITATES * steps else 0.0)


def mixed_batch(
    agent: Agent,
    context: Context,
    update: int,
    rows: int,
    own: float,
    rooms: Sequence[str] = ROOMS,
    plain: bool = False,
) -> dict[str, Any]:
    """`rows` episodes, of which the share `own` are those of the agent as it is now, labelled by the bot.

    The agent's episodes of a batch are all in one kind of room, so that they can be stepped together; the next batch
    has another kind.

    Args:
        plain: whether episodes stay as they are; by default they are varied by symmetries (`as_well`).
    """
    rng = numpy_rng(context.seed, NAME, "symmetries", update)
    acts = round(own * rows)
    lived = own_episodes(agent, context, rooms[update % len(rooms)], update, acts) if acts else []
    demos = [*lived, *_demos(context, update, rows - len(lived), rooms)]
    return episodes(demos if plain else [as_well(one, rng) for one in demos])


def _demos(context: Context, update: int, rows: int, rooms: Sequence[str]) -> list[Demonstration]:
    size = POOL[context.config.size]
    picked = numpy_rng(context.seed, NAME, update).integers(0, size, rows)
    turns = (rooms[(update + row) % len(rooms)] for row in range(rows))
    return [_of_pool(room, context.seed, int(number)) for room, number in zip(turns, picked, strict=True)]


def pool_seeds(seed: int, number: int) -> np.ndarray:
    """Seeds of a pool's demonstration of that number, int64 [8]; the first with which the bot succeeds counts."""
    return lesson_seeds(8, seed, NAME, number)


def _of_pool(room: str, seed: int, number: int) -> Demonstration:
    """The pool's demonstration of that number; if the bot fails in a room, that of the next seed."""
    for room_seed in pool_seeds(seed, number).tolist():
        if demo := _demo(room, room_seed):
            return demo
    raise RuntimeError(f"BabyAI's bot failed in eight rooms of '{room}' one after another.")


@lru_cache(maxsize=len(ROOMS) * max(POOL.values()))
def _demo(room: str, room_seed: int) -> Demonstration | None:
    return demonstrate(room, room_seed, STRAY)


def episodes(demos: list[Demonstration], longest: int = LONGEST) -> dict[str, Any]:
    """Demonstrations as a Batch, with `choice` int64 [B, T]; each is cut to its first `longest` ticks."""
    lengths = torch.tensor([min(longest, len(one.choice)) for one in demos])
    rows, ticks = len(demos), int(lengths.max())
    valid = torch.arange(ticks)[None] < lengths[:, None]
    board = np.zeros((rows, ticks, *demos[0].board.shape[1:]), np.int8)
    choice = np.zeros((rows, ticks), np.int64)
    instructions = [np.frombuffer(one.instruction.encode(), np.uint8) for one in demos]
    text = np.full((rows, ticks, 1 + max(map(len, instructions))), -1, np.int64)
    for row, (one, words) in enumerate(zip(demos, instructions, strict=True)):
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
    """Cross-entropy against what the bot would do, and how often that is the likeliest action."""
    nats, right = [], []
    moments = batch["valid"].sum()
    for part in groups(agent, batch):
        output: Any = agent.forward(part, [FOLLOW])[FOLLOW]
        nats.append(output.loss(part["choice"], part["valid"]) * part["valid"].sum() / moments)
        right.append((output.mode() == part["choice"])[part["valid"]])
    value = torch.stack(nats).sum()
    return value, {"follow": value.detach(), "as the bot": torch.cat(right).float().mean()}
