"""The lesson `recall`: what a thing is called, copied out of the memories that its look brings back.

In every life the names are others, so all the trunk can learn is to find the memory that fits what it senses, and to
answer with the name that was heard then. What is recalled for a Moment is what the store would give: the entries whose
keys are most like the Moment's.
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
from stages.memory.recall.things import BOTH, NAMES, TAUGHT, Lives, lives, looks

HEAD = "called"
THINGS = 12
MET_BY = (("sound",), BOTH, ("sight",), BOTH)
"""The senses by which things are met in a batch, and kept."""
LENGTHS = (1, 8, 1, 32)
"""Moments in a row, batch after batch: alone, and with others before it in the window."""
SHARED = 8
"""Looks that share a life in a batch, also where each is a row of its own: what it kept is encoded once."""
BEGINNING, TOLD = 0.4, 0.5
"""The part of the lesson in which names are also told, and how often."""
YOUNGEST_S, OLDEST_S = 3.0, 1e6
SPELT = torch.from_numpy(np.stack([encode_words(name) for name in NAMES]))
"""The names as the words sense has them, uint8 [8, 64]."""


def lesson_batch(agent: Agent, context: Context, update: int, size: int, steps: int) -> dict[str, Any]:
    """`size` looks at things as a Batch, in rows that are one life each, with `called` int64 and `asked` bool [B, T].

    Of longer rows half of the Moments are asked, always the last one; the others bring nothing back. In the first
    BEGINNING of the lesson's `steps` all are asked alone, by eye and ear, and half of them hear the name at that very
    Moment and bring nothing back: what is to be copied has to be understood first.
    """
    begins = update < BEGINNING * steps
    length = 1 if begins else min(LENGTHS[update // len(MET_BY) % len(LENGTHS)], agent.config.window, size)
    senses = BOTH if begins else MET_BY[update % len(MET_BY)]
    together = max(length, min(size, SHARED))
    rng = numpy_rng(context.seed, "recall", update)
    of = lives(lesson_seeds(max(1, size // together), context.seed, "recall", update), THINGS, TAUGHT)
    which = rng.integers(0, THINGS, (len(of.seed), together))
    kept, seen = (tensors(looks(of, what, look, senses)) for what, look in ((every(of), 0), (which, 1)))
    asked = (rng.random(which.shape) < 0.5) | (np.arange(together) % length == length - 1)
    ages = np.exp(rng.uniform(np.log(YOUNGEST_S), np.log(OLDEST_S), (*which.shape, RECALLED_BUDGET)))
    called = torch.from_numpy(np.take_along_axis(of.answer, which, 1))
    told = torch.from_numpy(begins & (rng.random(which.shape) < TOLD))
    batch = {
        "senses": seen,
        "recalled": entries(kept, of, most_alike(agent, seen, kept), torch.from_numpy(ages).float()),
        "called": called,
        "asked": torch.from_numpy(asked),
        "told": told,
    }
    if begins:
        seen["words"] = SPELT[called] * told[..., None]
    return _in_rows(batch, length)


def taught(context: Context, n: int) -> np.ndarray:
    """Lives of lessons, int64 [n]."""
    return _of_lessons(context, n).episodes()


def things_taught(context: Context, n: int) -> np.ndarray:
    """Things of lessons' lives, int64 [about n]."""
    return _of_lessons(context, max(1, n // THINGS)).things_met()


def _of_lessons(context: Context, n: int) -> Lives:
    return lives(lesson_seeds(n, context.seed, "recall", "episodes"), THINGS, TAUGHT)


def _in_rows(batch: dict[str, Any], length: int) -> dict[str, Any]:
    """Lives [N, Q, ...] cut into rows [N * Q / length, length, ...].

    Only what is asked and not told brings anything back.
    """
    batch = map_tensors(batch, lambda x: x.reshape(-1, length, *x.shape[2:]))
    here = torch.ones_like(batch["asked"])
    first = torch.zeros_like(here)
    first[:, 0] = True
    told = batch.pop("told")
    back = (batch["asked"] & ~told)[..., None].expand(*here.shape, RECALLED_BUDGET)
    batch["recalled"] |= {"present": dict.fromkeys(batch["recalled"]["senses"], back), "valid": back}
    present = {name: told if name == "words" else here for name in batch["senses"]}
    return batch | {"present": present, "first": first, "valid": here}


def tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Arrays by name as tensors that share their memory."""
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def every(of: Lives) -> np.ndarray:
    """All things of every life in order, int64 [N, P]."""
    return np.tile(np.arange(of.things), (len(of.seed), 1))


@torch.no_grad()
def most_alike(agent: Agent, seen: Mapping[str, Tensor], kept: Mapping[str, Tensor]) -> Tensor:
    """Of what was kept [N, P, ...], the four most like each thing seen [N, Q, ...]: numbers int64 [N, Q, 4].

    By the mean cosine of the keys of the senses it is seen by, the most alike first: what `Memory.recall` gives.
    """
    alike = torch.zeros(())
    for sense, value in seen.items():
        asking, key = (agent.key(agent.encode_senses({sense: x})[sense]) for x in (value, kept[sense]))
        alike = alike + asking @ key.transpose(1, 2)
    return torch.sort(alike, dim=-1, descending=True, stable=True).indices[..., :RECALLED_BUDGET].cpu()


def entries(kept: Mapping[str, Tensor], of: Lives, which: Tensor, age_s: Tensor) -> dict[str, Any]:
    """The memories `which` [N, Q, R] of each life, with the names heard then: senses [N, Q, R, ...] and age_s."""
    rows = torch.arange(len(which))[:, None, None]
    senses = {name: value[rows, which] for name, value in kept.items()}
    senses["words"] = SPELT[torch.from_numpy(of.answer)[rows, which]]
    return {"senses": senses, "age_s": age_s}


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of the name, over the Moments that are asked."""
    logits = agent(batch, [HEAD])[HEAD].logits[batch["asked"]]
    called = batch["called"][batch["asked"]]
    value = F.cross_entropy(logits, called)
    return value, {"called": value.detach(), "right": (logits.argmax(-1) == called).float().mean()}
