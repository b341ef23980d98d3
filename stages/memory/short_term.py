"""The tests of short-term memory, as they are taught and played: memory_len, repeat_previous and the mazes.

Lessons imitate a teacher that sees the state: whole episodes as Batches, and cross-entropy with the teacher's choice.
Exams play whole episodes by a policy, the agent's or a rule's, a hundred side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.acting import Actor, Policy, Senses, returns, rollout
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.agent.batch import clip, stack_ticks
from devmind.curriculum.stage import Context
from devmind.learners.gradient import sum_losses
from devmind.seeding import lesson_seeds, numpy_rng

LONGEST_TAUGHT = 60
"""Most steps between a sign and its question in lessons, also of the maze; exams have more."""
SHARES = (0.25, 0.25, 0.5, 1.0)
"""Shares of the window in lessons; each batch draws one. With the whole window a trunk of L layers passes a sign from
Moment to Moment, at most L windows far, and never learns to use its slots: beyond the lengths of lessons all was lost
(memory_len 1.00 at 60 Moments and 0.48 at 80).
"""
TOGETHER = 100
"""Episodes with pictures, and those of rules, that are played side by side; more take more RAM and save no time. A rule
that chooses at random draws for all episodes of a group in turn, so its score depends on this number."""
AGENTS_TOGETHER = 400
"""Episodes without pictures that an agent plays side by side. A tick has few tokens then, and costs little more than it
does with a hundred episodes."""
SHORT_OFF = "short-term memory off"
NO_STORE = "this test uses no store, so long-term alone equals memory off, and both equals short-term alone"


def growing_batch(context: Context, world: str, update: int, size: int, longest: int) -> dict[str, Any]:
    """Episodes of one length, drawn by (seed, update) up to `longest`; half of them are of the longest third."""
    rng = numpy_rng(context.seed, world, "length", update)
    low = 1 if rng.random() < 0.5 else max(1, 2 * longest // 3)
    return episode_batch(context, world, str(rng.integers(low, longest + 1)), update, size)


def share(context: Context, update: int) -> dict[str, float]:
    """The share of the window of the update's batch, drawn by (seed, update)."""
    return {"share": float(numpy_rng(context.seed, "share of the window", update).choice(SHARES))}


def lesson_lengths() -> list[str]:
    """The levels of lessons with growing lengths."""
    return [str(length) for length in range(1, LONGEST_TAUGHT + 1)]


def episode_batch(context: Context, world: str, level: str, update: int, size: int) -> dict[str, Any]:
    """`size` whole episodes that the teacher of a world of Rules plays, as a Batch with targets."""
    worlds = context.make_world(world, level, lesson_seeds(size, context.seed, world, level, update))
    truths: list[Mapping[str, np.ndarray]] = []

    def teaching(senses: Senses, first: np.ndarray) -> Actions:
        truths.append(worlds.truth())
        return {"choose": truths[-1]["choice"]}

    senses = stack_ticks(tick.senses for tick in rollout(teaching, worlds))
    targets = stack_ticks(truths)
    return whole_episodes(senses, targets, torch.ones_like(targets["asked"]))


def whole_episodes(senses: Mapping[str, Tensor], targets: Mapping[str, Tensor], valid: Tensor) -> dict[str, Any]:
    """Rows [B, T, ...] that each begin an episode and are padded where `valid` is false.

    Args:
        targets: `choice` int64 [B, T], the teacher's; `asked` bool [B, T], Moments whose choice needs memory; `told`
            int64 [B, T], what the sign said, for tests with one sign (-1 before it was seen).
    """
    present, told_thing = dict.fromkeys(senses, valid), torch.full_like(targets["choice"], -1)
    return {**clip(senses), "present": present, "valid": valid, "told": told_thing, **targets}


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of `choose`, in Moments that need memory and in the others, and of `told` after a sign was seen.

    Each has its own mean, because a long episode has one asked Moment, which would weigh next to nothing in a common
    mean. `told` is asked at every Moment, so that the loss appears where forgetting happens.
    """
    with agent.narrowed(batch.get("share", 1.0)):
        outputs = agent(batch, ["choose", "told"])
    choice = batch["choice"]
    logits = outputs["choose"].logits
    at_question, known = batch["asked"] & batch["valid"], (batch["told"] >= 0) & batch["valid"]
    choosing, telling = _each(logits, choice), _each(outputs["told"].logits, batch["told"].clamp_min(0))
    parts = {
        "asked": _mean(choosing, at_question),
        "other": _mean(choosing, batch["valid"] & ~at_question),
        "told": _mean(telling, known),
    }
    right = _mean((logits.argmax(-1) == choice).float(), at_question)
    return sum_losses(parts, {"right": right})


def _each(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none").view_as(target)


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    return (values * mask).sum() / mask.sum().clamp_min(1)


def agent_policy(agent: Agent, short_term: bool = True) -> Policy:
    """The agent's most likely choices with its own state; without short-term memory each Moment stands alone."""
    return Actor(agent, effectors=["choose"], short_term=short_term)


def choosing(rule: Callable[[Senses, np.ndarray], np.ndarray]) -> Policy:
    """A rule `(senses [N, ...], first bool [N]) -> choices int64 [N]` as a policy."""

    def act(senses: Senses, first: np.ndarray) -> Actions:
        return {"choose": rule(senses, first)}

    return act


def at_random(choices: int, *names: int | str) -> Policy:
    """Choose one of the first `choices` at random, seeded by `names`."""
    rng = numpy_rng(*names, "random")
    return choosing(lambda senses, first: rng.integers(0, choices, len(first)))


def always(choice: int) -> Policy:
    """Always choose `choice`."""
    return choosing(lambda senses, first: np.full(len(first), choice))


def total_rewards(context: Context, world: str, level: str, seeds: np.ndarray, policy: Policy) -> np.ndarray:
    """Sum of rewards of every episode, float64 [N]."""
    together = AGENTS_TOGETHER if isinstance(policy, Actor) else TOGETHER
    return in_groups(lambda group: returns(policy, context.make_world(world, level, group)), seeds, together)


def in_groups(play: Callable[[np.ndarray], np.ndarray], seeds: np.ndarray, together: int = TOGETHER) -> np.ndarray:
    """`play` on at most `together` seeds at a time, its answers [n] concatenated."""
    return np.concatenate([play(group) for group in np.split(seeds, range(together, len(seeds), together))])
