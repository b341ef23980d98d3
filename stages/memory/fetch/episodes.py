"""Episodes in rooms with things within reach, for the lesson: encoded senses, beliefs, and the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.acting import Actor, Senses, rollout
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick, pad_body, stack_ticks
from devmind.agent.encoders import Encoded
from devmind.agent.tracker import entries
from devmind.curriculum.stage import Context
from devmind.errors import ExamError
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.worlds.nursery.fetching import ASKS_FROM, SCREEN, SEEN_TICKS
from devmind.worlds.nursery.state import MAX_REACH_M
from stages.memory.blocks import latest
from stages.memory.permanence.detections import NAMES

NAME = HIDDEN = "fetch"
HEAD, ARC = "reach_trunk", "reach_arc"
"""Heads of reflex: one reaches by the trunk, one by sight."""
SEEN = "reach"
"""The levels: things go out of sight and then one is named; one is named at the first tick and all stay in sight."""
TICKS = ASKS_FROM + 8
"""Ticks of an episode: single Moments have the hand anywhere, whole ones are there for the rest of the window."""
SLIPS = 0.3
"""Noise on the hand of a row that moves as the teacher would, relative to a tick's greatest motion."""
CLEAR_M, ASIDE_M = 0.33, 0.15
"""Distance from the body within which nothing lies; and how far aside of a thing the hand stops moving forwards. The
less it is aside, the faster it moves: with a place known to 3 cm it touches the right thing first in 0.99 of the rooms.
"""
TOKENS, PRESENT, LAST = "tokens of ", "presence of ", "last "
OF_LIFE = ("things", "colour", "target", LAST + TOKENS, LAST + PRESENT)
"""Fields that an episode has once, and not at every tick."""
Lives = dict[str, Tensor]


def command_towards(place: np.ndarray, hand: np.ndarray) -> np.ndarray:
    """The command [..., 4] of a hand at `hand` [..., 3] that reaches for a thing at `place` [..., 3]: first sideways
    near the body, then forwards.
    """
    off = place - hand
    aside = np.abs(off[..., 1:]).max(-1)
    forwards = np.clip(1 - aside / ASIDE_M, 0.0, 1.0)
    off[..., 0] = forwards * off[..., 0] + (1 - forwards) * np.minimum(0.0, CLEAR_M - hand[..., 0])
    way = off / MAX_REACH_M
    way /= np.maximum(1.0, np.abs(way).max(-1, keepdims=True))
    return np.concatenate([way, -np.ones_like(way[..., :1])], -1).astype(np.float32)


def has_question(senses: Senses) -> np.ndarray:
    """Whether a row is asked for something now, bool [N, 1]."""
    return np.array([word != "" for word in senses["words"]])[:, None]


def lives(agent: Agent, context: Context, level: str, blocks: range, size: int) -> list[Lives]:
    """`size` lives for each block, by (seed, block) and parts of the agent that do not learn in this lesson.

    [B, T, ...]: of each sense its TOKENS [K, D] and their PRESENCE [K]; body [16]; values [8, 15], age_s and valid [8]
    of all beliefs, and the same under "given ..." of those that the trunk is given; place [S, 3], hand [3], touched and
    asked, whether a colour is named. [B, ...]: things bool [S], colour int64 [S], target int64, and of the last picture
    before things may go out of sight LAST + TOKENS and LAST + PRESENT.
    """

    def play(block: int) -> Lives:
        # Made with gradients on, as teaching has them: so an exam in which a copy is taught knows it from its own.
        world = context.make_world("nursery", level, lesson_seeds(size, context.seed, NAME, level, block))
        return _live_episode(agent, world, size, numpy_rng(context.seed, NAME, level, block))

    return latest(agent, f"lives {level}", (context.seed, size), blocks, play)


@torch.no_grad()
def _live_episode(agent: Agent, world: Any, size: int, rng: np.random.Generator) -> Lives:
    actor = Actor(agent, size, effectors=[], trunk=False)
    by_teacher, drift = (np.arange(size) % 2 == 0)[:, None], rng.normal(0, 0.5, (size, 4))
    ticks = list[dict[str, Any]]()

    def move(senses: Senses, first: np.ndarray) -> Actions:
        state = world.state()
        ticks.append(_noted(actor, collate_tick(senses, first)))
        ticks[-1] |= {
            "body": pad_body(senses["body"]), "place": state.position, "hand": state.hand,
            "touched": state.touch.any(1),
            "asked": has_question(senses)[:, 0],
        }  # fmt: skip
        drift[:] = 0.8 * drift + rng.normal(0, 0.4, drift.shape)
        to = command_towards(state.position[np.arange(size), state.target], state.hand)
        hand = np.where(by_teacher, to + rng.normal(0, SLIPS, drift.shape), drift)
        return {"reach": hand.clip(-1, 1).astype(np.float32)}

    for _ in rollout(move, world, TICKS):
        pass
    state = world.state()
    things = state.present.copy()
    things[:, SCREEN] = False
    once = {"things": things, "colour": state.colour, "target": state.target}
    batch = stack_ticks(ticks) | {name: torch.from_numpy(value.copy()) for name, value in once.items()}
    return batch | {LAST + part: batch[f"{part}sight"][:, SEEN_TICKS - 1] for part in (TOKENS, PRESENT)}


def _noted(actor: Actor, tick: Any) -> dict[str, np.ndarray]:
    """What the actor's encoders and tracker make of a tick, and what its trunk would be given."""
    agent, percepts = actor.agent, actor.encode(tick)
    beliefs = actor.step(percepts).beliefs
    if beliefs is None or agent.tracker is None:
        raise ExamError("Reaching for things out of sight needs a tracker; admit the agent to 'memory'.")
    arrays: dict[str, Any] = dict(zip(("values", "age_s", "valid"), entries(beliefs, len(NAMES)), strict=True))
    given = agent.recall_beliefs(beliefs, percepts)
    arrays |= {"given values": given["senses"]["belief"], "given age_s": given["age_s"], "given valid": given["valid"]}
    for name, encoded in percepts.encoded.items():
        arrays |= {TOKENS + name: encoded.tokens, PRESENT + name: encoded.present}
    return {name: np.asarray(value.cpu() if isinstance(value, Tensor) else value) for name, value in arrays.items()}


def draw_lives(pool: Sequence[Lives], block: np.ndarray, row: np.ndarray, tick: np.ndarray | None = None) -> Lives:
    """Lives of a pool by `block`, which ascends, and `row`; with `tick` these Moments of them alone. All int64 [n]."""
    parts = []
    for number, episodes in enumerate(pool):
        of_block = block == number
        at = (torch.from_numpy(row[of_block]),)
        now = at if tick is None else (*at, torch.from_numpy(tick[of_block]))
        parts.append({name: value[at if name in OF_LIFE else now] for name, value in episodes.items()})
    return {name: torch.cat([part[name] for part in parts]) for name in pool[0]}


def tokens_of(episodes: Lives, device: torch.device, but: Sequence[str] = ()) -> dict[str, Encoded]:
    """By sense what was encoded, on `device`, but of those senses."""
    names = [name.removeprefix(TOKENS) for name in episodes if name.startswith(TOKENS)]
    return {
        name: Encoded(episodes[TOKENS + name].to(device), episodes[PRESENT + name].to(device))
        for name in names
        if name not in but
    }
