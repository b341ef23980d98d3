"""The lessons `beliefs` and `hidden`: what a belief's numbers say about a place, then where the named thing is.

Beliefs come first, and only their encoder learns: a thing is where it was seen last, unless a look found that place
empty. This needs two numbers together. An encoder with a head of its own learns it in seconds, a trunk among other
questions in many minutes. Hidden things are asked about in single Moments and in whole episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.agent.batch import clip, one_tick
from devmind.agent.tracker import SENSE, recall, recalled_batch
from devmind.curriculum.stage import Context
from devmind.learners.gradient import sum_losses
from devmind.seeding import numpy_rng
from devmind.worlds.nursery import hiding
from stages.memory.parts import NAMED
from stages.memory.permanence.detections import NAMES
from stages.memory.permanence.episodes import Episodes, episodes

BELIEVED = "believed"
BELIEFS_TRAIN = (f"encoders.{SENSE}.", f"heads.{BELIEVED}.")
"""Parameters that the lesson `beliefs` trains."""
BELIEFS_REUSE, BELIEFS_ROWS = 12, 8
"""Updates of `beliefs` that share episodes, and episodes played at a time."""
REUSE = 3
"""Updates that share episodes, each with other questions."""
BLANK, ASKED = 0.25, 0.5
"""Share of rows without beliefs, and of ticks with a question."""
ALONE, POOL = 32, 8
"""Single Moments for each row; the number of latest blocks of episodes that these and the rows are drawn from. A block
is of one kind, and a step of one kind taught the kind itself, not what to look at."""
LOST, ALONE_LOST = 0.8, 0.5
"""Least belief in `elsewhere` of a thing that counts as lost; share of the single Moments that ask for a lost thing."""
ELSEWHERE = -2
"""Index of `elsewhere` among a belief's numbers."""


def beliefs_batch(agent: Agent, context: Context, update: int, size: int) -> dict[str, Any]:
    """`size` single beliefs about the asked thing as the sense `belief`, with what can be `known`, and `asked`."""
    block = update // BELIEFS_REUSE
    pool = episodes(agent, context, range(max(0, block - POOL + 1), block + 1), BELIEFS_ROWS)
    rng = numpy_rng(context.seed, "beliefs", update)
    moments = alone(pool, size, ALONE_LOST, rng, name_colours(agent))
    recalled = moments["recalled"]
    return {
        "senses": {SENSE: recalled["senses"][SENSE][:, :, 0]},
        "present": {SENSE: recalled["valid"][:, :, 0]},
        "first": moments["first"],
        "valid": moments["valid"],
        "place": moments["place"],
        "known": moments["known"],
        "asked": recalled["valid"][:, :, 0],
    }


def beliefs_loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy with what can be known of the place, over all beliefs."""
    answer: Any = agent(batch, [BELIEVED])[BELIEVED]
    value = F.cross_entropy(answer.logits[batch["asked"]], batch["known"][batch["asked"]])
    right = (answer.mode() == batch["place"])[batch["asked"]]
    return value, {BELIEVED: value.detach(), "right": right.float().mean()}


def lesson_batch(
    agent: Agent, context: Context, update: int, size: int, whole: bool = True, steps: int | None = None
) -> dict[str, Any]:
    """Single Moments of the latest episodes under the name `alone`, and if `whole` also episodes with their questions.

    After `steps` of its lesson no more episodes are played, only other questions asked: rehearsals are far apart, and
    each would have to play all of its episodes.

    `place` int64 [B, T] is where the asked thing is, `known` [B, T, 3] what can be known of it, `asked` bool [B, T]
    whether there is a question, `lost` whether the asked thing is believed to be elsewhere. A quarter of the whole rows
    have no beliefs, so that the trunk also learns to remember by itself.
    """
    block = (update if steps is None else min(update, steps - 1)) // REUSE
    pool = episodes(agent, context, range(max(0, block - POOL + 1), block + 1), size)
    rng, name_probs = numpy_rng(context.seed, "hidden", "questions", update), name_colours(agent)
    batch = {"alone": alone(pool, size * ALONE, ALONE_LOST, rng, name_probs)}
    if not whole:
        return batch
    lives, valid = _draw_episodes(pool, size, rng)
    gone = absent(lives) & valid[..., None]
    n, ticks = valid.shape
    thing = np.where(gone.any(-1), gone.argmax(-1), rng.integers(0, hiding.THINGS, (n, ticks)))
    asked = (gone.any(-1) | (rng.random((n, ticks)) < ASKED)) & valid
    batch |= _batch(lives, asked, thing, np.asarray(rng.random(n) < BLANK), name_probs)
    return batch | {"lost": torch.from_numpy(gone.any(-1)), "valid": torch.from_numpy(valid)}


def _draw_episodes(pool: Sequence[Episodes], n: int, rng: np.random.Generator) -> tuple[Episodes, np.ndarray]:
    """`n` whole episodes from all blocks of the pool, and which Moments are within them, bool [n, T]."""
    picked = [(pool[b], int(rng.integers(len(pool[b]["colours"])))) for b in rng.integers(0, len(pool), n)]
    ticks = np.array([len(lives["places"][row]) for lives, row in picked])

    def drawn(name: str, lives: Episodes, row: int) -> Tensor:
        value = lives[name][row]  # shorter ones go on with their last tick, which nobody asks about
        return value if name == "colours" else value[torch.arange(int(ticks.max())).clamp(max=len(value) - 1)]

    together = {name: torch.stack([drawn(name, *each) for each in picked]) for name in pool[0]}
    return together, np.arange(ticks.max()) < ticks[:, None]


def absent(lives: Episodes) -> np.ndarray:
    """Whether each of the two things is believed to be no longer where it was seen last, bool [B, T, 2].

    Such Moments are few and need another answer, so they are asked about more often.
    """
    values, colours = lives["values"].numpy(), lives["colours"].numpy()
    weights = np.take_along_axis(values[..., : len(NAMES)], colours[:, None, None], -1)
    return np.asarray(((weights * values[..., ELSEWHERE, None]).max(2)) >= LOST)


def alone(
    pool: Sequence[Episodes], n: int, lost: float, rng: np.random.Generator, name_probs: np.ndarray
) -> dict[str, Any]:
    """`n` single Moments without pictures, each with a question; the share `lost` of them for a lost thing."""
    candidates, gone = (np.concatenate(part) for part in zip(*map(_askable, pool, range(len(pool))), strict=True))
    picked = candidates[rng.integers(0, len(candidates), n)]
    if len(gone):
        lost_rows = rng.random(n) < lost
        picked[lost_rows] = gone[rng.integers(0, len(gone), int(lost_rows.sum()))]
    parts: dict[str, list[Tensor]] = {}
    for number, lives in enumerate(pool):
        rows, at = picked[picked[:, 3] == number, :2].T
        for name, value in lives.items():
            if name != "sight":
                parts.setdefault(name, []).append(value[rows] if name == "colours" else value[rows, at][:, None])
    joined = {name: torch.cat(values) for name, values in parts.items()}
    thing = picked[np.argsort(picked[:, 3], kind="stable"), 2]
    return _batch(joined, np.ones((n, 1), bool), thing[:, None], np.zeros(n, bool), name_probs)


def _askable(lives: Episodes, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Row, tick (not the first) and thing of all that can be asked, and of what is lost: int64 [m, 4] with `number`."""
    lost = absent(lives)
    later = np.ones_like(lost)
    later[:, 0] = False
    askable, gone = (
        np.pad(np.argwhere(mask), ((0, 0), (0, 1)), constant_values=number) for mask in (later, lost & later)
    )
    return askable, gone


@torch.no_grad()
def name_colours(agent: Agent) -> np.ndarray:
    """The head's answer for each of the eight colour names, [8, 8]."""
    output: Any = agent(one_tick({"words": torch.from_numpy(NAMES)}), [NAMED])[NAMED]
    return np.asarray(output.probabilities()[:, 0].float().cpu())


def _batch(
    lives: Mapping[str, Tensor], asked: np.ndarray, thing: np.ndarray, blank: np.ndarray, name_probs: np.ndarray
) -> dict[str, Any]:
    row, tick = np.indices(thing.shape)
    colour = lives["colours"].numpy()[row, thing]
    words = np.where(asked[..., None], NAMES[colour], 0)
    entries = tuple(lives[name].numpy() for name in ("values", "age_s", "valid"))
    values, age_s, valid = recall(entries, name_probs[colour] * asked[..., None])  # type: ignore[arg-type]
    senses = {name: lives[name] for name in ("sight", "body") if name in lives} | {"words": torch.from_numpy(words)}
    valid = valid & ~blank[:, None, None]
    batch = clip(senses)
    batch["present"]["words"] = torch.from_numpy(asked)
    return batch | {
        "recalled": recalled_batch(*(torch.from_numpy(value) for value in (values, age_s, valid))),
        "place": lives["places"][row, tick, thing],
        "known": lives["known"][row, tick, thing],
        "asked": torch.from_numpy(asked),
    }


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy with what can be known, where there is a question: of Moments alone, and of whole episodes.

    Nobody can tell where a thing went unseen: taught by the truth, the trunk learned the lesson's rooms by heart. In
    episodes lost things have a mean of their own: they are asked for in a few Moments, and in all others the answer is
    the last seen place.
    """
    scores = _scores(agent, batch["alone"], {"alone": batch["alone"]["asked"]})
    if "senses" in batch:
        asked, lost = batch["asked"], batch["lost"]
        scores |= _scores(agent, batch, {"episodes": asked & ~lost, "lost": asked & lost})
    right = {f"right {name}": share for name, (_, share) in scores.items()}
    return sum_losses({name: value for name, (value, _) in scores.items()}, right)


def _scores(agent: Agent, batch: Mapping[str, Any], masks: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
    """The loss and the share right over each kind of question, if there is any."""
    logits = agent(batch, ["place"])["place"].logits
    scores = {}
    for name, mask in masks.items():
        if mask.any():
            chosen_logits, place = logits[mask], batch["place"][mask]
            scores[name] = (
                F.cross_entropy(chosen_logits, batch["known"][mask]),
                (chosen_logits.argmax(-1) == place).float().mean(),
            )
    return scores
