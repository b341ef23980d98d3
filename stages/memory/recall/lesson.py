"""The lesson `recall`: a thing's name, copied from the memories that its look brings back.

Every life has other names, so the trunk can only learn to find the memory that fits what it senses and to answer with
the name that was heard then. The recalled entries are those that the store would give: the ones with the most similar
keys.

Two heads answer. `copied` points at the memory with the name, or at none, so that any word that was heard once can be
said: every third batch has invented words, and for some looks the thing's own memory is missing. `called` knows eight
names by heart, which is what a night of sleep can move into the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.agent.batch import RECALLED_BUDGET, encode_words, map_tensors
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds, numpy_rng
from stages.memory.recall.things import BOTH, NAMES, TAUGHT, Lives, invent_words, lives, looks, rename_lives

HEAD, COPIED = "called", "copied"
THINGS = 12
MET_BY = (("sound",), BOTH, ("sight",), BOTH)
"""The senses by which things are met in a batch, and kept."""
LENGTHS = (1, 8, 1, 32)
"""Moments in a row, batch after batch: alone, and with others before it in the window."""
SHARED = 8
"""Looks that share a life in a batch, also as rows of their own, so that its memories are encoded once."""
BEGINNING, TOLD = 0.4, 0.5
"""The share of the lesson in which names are also told at the question, and how often."""
INVENTED_EVERY, STRANGE = 3, 0.2
"""After the beginning one of so many batches has invented words; and the share of looks whose thing is not recalled."""
YOUNGEST_S, OLDEST_S = 3.0, 1e6
SPELT = torch.from_numpy(np.stack([encode_words(name) for name in NAMES]))
"""The names as in the sense `words`, uint8 [8, 64]."""


def lesson_batch(agent: Agent, context: Context, update: int, size: int, steps: int) -> dict[str, Any]:
    """`size` looks at things as a Batch; each row is of one life. [B, T] int64 `called`, the name (-1 if it cannot be
    known); int64 `copied`, the memory of the thing (-1 without recalled entries); bool `asked`.

    In longer rows half of the Moments are asked, always the last one; the others recall nothing. In the first BEGINNING
    of the lesson's `steps` all are asked alone, by sight and sound. Half of those hear the name at that Moment and
    recall nothing, because a name has to be understood before it can be copied.
    """
    begins = update < BEGINNING * steps
    length = 1 if begins else min(LENGTHS[update // len(MET_BY) % len(LENGTHS)], agent.config.window, size)
    senses = BOTH if begins else MET_BY[update % len(MET_BY)]
    together = max(length, min(size, SHARED))
    rng = numpy_rng(context.seed, "recall", update)
    of = rename_lives(lives(lesson_seeds(max(1, size // together), context.seed, "recall", update), THINGS, TAUGHT))
    things = rng.integers(0, THINGS, (len(of.seed), together))
    stored, queries = (tensors(looks(of, what, look, senses)) for what, look in ((every(of), 0), (things, 1)))
    asked = (rng.random(things.shape) < 0.5) | (np.arange(together) % length == length - 1)
    ages = np.exp(rng.uniform(np.log(YOUNGEST_S), np.log(OLDEST_S), (*things.shape, RECALLED_BUDGET)))
    called = torch.from_numpy(np.take_along_axis(of.answer, things, 1))
    named_now = torch.from_numpy(begins & (rng.random(things.shape) < TOLD))
    strange = torch.from_numpy((not begins) & (rng.random(things.shape) < STRANGE))
    words_are_new = not begins and update % INVENTED_EVERY == 0
    spelt = spelt_anew(of) if words_are_new else SPELT[torch.from_numpy(of.answer)]
    recalled = most_alike(agent, queries, stored, torch.from_numpy(np.where(strange, things, -1)))
    correct = recalled == torch.from_numpy(things)[..., None]
    copied = torch.where(correct.any(-1), correct.int().argmax(-1), RECALLED_BUDGET)
    batch = {
        "senses": queries,
        "recalled": entries(stored, spelt, recalled, torch.from_numpy(ages).float()),
        "called": called.masked_fill(strange | bool(words_are_new) | (~correct.any(-1) & ~named_now), -1),
        "copied": copied.masked_fill(named_now | ~torch.from_numpy(asked), -1),
        "asked": torch.from_numpy(asked),
        "told": named_now,
    }
    if begins:
        queries["words"] = SPELT[called] * named_now[..., None]
    return _in_rows(batch, length)


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Lives of lessons, int64 [n]."""
    return _of_lessons(context, n).episodes()


def things_of_lessons(context: Context, n: int) -> np.ndarray:
    """Things of lessons' lives, int64 [about n]."""
    return _of_lessons(context, max(1, n // THINGS)).things_met()


def _of_lessons(context: Context, n: int) -> Lives:
    return rename_lives(lives(lesson_seeds(n, context.seed, "recall", "episodes"), THINGS, TAUGHT))


def _in_rows(batch: dict[str, Any], length: int) -> dict[str, Any]:
    """Lives [N, Q, ...] cut into rows [N * Q / length, length, ...].

    Only Moments that are asked and not told have recalled entries.
    """
    batch = map_tensors(batch, lambda x: x.reshape(-1, length, *x.shape[2:]))
    here = torch.ones_like(batch["asked"])
    first = torch.zeros_like(here)
    first[:, 0] = True
    named_now = batch.pop("told")
    recalled = (batch["asked"] & ~named_now)[..., None].expand(*here.shape, RECALLED_BUDGET)
    batch["recalled"] |= {"present": dict.fromkeys(batch["recalled"]["senses"], recalled), "valid": recalled}
    present = {name: named_now if name == "words" else here for name in batch["senses"]}
    return batch | {"present": present, "first": first, "valid": here}


def tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Arrays by name as tensors that share their memory."""
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def every(of: Lives) -> np.ndarray:
    """All things of every life in order, int64 [N, P]."""
    return np.tile(np.arange(of.things), (len(of.seed), 1))


def spelt_anew(of: Lives) -> Tensor:
    """An invented word for each thing of each life, as in the sense `words`, uint8 [N, P, 64]."""
    words = invent_words(of.seed, of.things, exam=False)
    return torch.from_numpy(np.stack([[encode_words(word) for word in row] for row in words.tolist()]))


@torch.no_grad()
def most_alike(
    agent: Agent, queries: Mapping[str, Tensor], stored: Mapping[str, Tensor], without: Tensor | None = None
) -> Tensor:
    """The four of what was kept [N, P, ...] that are most like each thing seen [N, Q, ...]: indices int64 [N, Q, 4].

    By the mean cosine of the keys of the seen senses, the most similar first, as `Memory.recall` gives them.

    Args:
        without: int64 [N, Q], a thing to leave out; -1: none.
    """
    alike = torch.zeros(())
    for sense, value in queries.items():
        asking, key = (agent.key(agent.encode_senses({sense: x})[sense]) for x in (value, stored[sense]))
        alike = alike + asking @ key.transpose(1, 2)
    if without is not None:
        gone = without.to(alike.device)[..., None] == torch.arange(alike.shape[-1], device=alike.device)
        alike = alike.masked_fill(gone, -torch.inf)
    return torch.sort(alike, dim=-1, descending=True, stable=True).indices[..., :RECALLED_BUDGET].cpu()


def entries(stored: Mapping[str, Tensor], spelt: Tensor, things: Tensor, age_s: Tensor) -> dict[str, Any]:
    """The memories `things` [N, Q, R] of each life, with the names heard then, `spelt` uint8 [N, P, 64]: senses
    [N, Q, R, ...] and age_s."""
    rows = torch.arange(len(things))[:, None, None]
    senses = {name: value[rows, things] for name, value in stored.items()} | {"words": spelt[rows, things]}
    return {"senses": senses, "age_s": age_s}


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of the name, over asked Moments that can know it, and of the memory pointed at, over those with
    recalled entries.
    """
    outputs: Any = agent(batch, [HEAD, COPIED])
    value, scalars = torch.zeros((), device=agent.device), dict[str, Tensor]()
    for head, asked in ((HEAD, batch["asked"] & (batch["called"] >= 0)), (COPIED, batch["copied"] >= 0)):
        if asked.any():
            logits, targets = outputs[head].logits[asked], batch[head][asked]
            nats = F.cross_entropy(logits, targets)
            value = value + nats
            scalars |= {head: nats.detach(), f"{head} right": (logits.argmax(-1) == targets).float().mean()}
    return value, scalars
