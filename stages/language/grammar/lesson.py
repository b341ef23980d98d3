"""Grammar, as it is taught beside reading: what she says is told from the same with a thing told twice.

Of nine kinds of faults her sentences alone teach eight. That no thing is told twice they do not: one of eighteen pairs
less, each time, is hardly missed. So a few minimal pairs of that kind go along with what is read, about pairs of colour
and noun that lessons speak of, none of the exam's. Each has two right pages and two wrong ones, in which both names
trade places, as in the exam: what is learned is that the right ones together are the likelier,

    softplus(nats of the right pages - nats of the wrong ones),

the loss of a pair of which one is preferred (Bradley and Terry, 1952), beside the nats of what is right, which is read
like any other page. What a name costs by itself stands on either side, and is not pushed at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context
from devmind.seeding import EXAM_SEEDS_FROM
from stages.language.caregiver.scene import TAUGHT
from stages.language.grammar.pairs import TWICE, Pair, pair
from stages.language.parts import reader
from stages.language.read.corpus import as_bytes
from stages.language.read.pages import padded, page_batch, telling, telling_pieces

PREFERRING = 0.2
"""Weight of preferring what is right beside the nats a byte of what is read: its gradient is three to twenty-five times
as large where nothing of it is learned yet."""
FILLS = b"\n"
"""Behind a page's end; as each byte is told from those before it, nothing before changes by it."""


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` minimal pairs, of four pages each: two that are right, and two that are wrong."""
    named = ("lesson", context.seed % EXAM_SEEDS_FROM, update)
    return of_pairs([pair(TWICE, *named, row, of=TAUGHT) for row in range(rows)])


def of_pairs(asked: list[Pair]) -> dict[str, Any]:
    """The pages of pairs as a Batch, right ones of a pair before its wrong ones, with `length` int64 [N]: bytes."""
    return of_pages([page for one in asked for page in (*one.right, *one.wrong)])


def of_pages(texts: list[str]) -> dict[str, Any]:
    """Pages of any length as a Batch, filled up to the longest, with `length` int64 [N]: the bytes of each."""
    rows = [as_bytes(text) for text in texts]
    longest = -(-max(map(len, rows)) // 8) * 8
    full = np.stack([np.frombuffer(bytes(row).ljust(longest, FILLS), np.uint8) for row in rows])
    return page_batch(full) | {"length": torch.tensor([len(row) for row in rows])}


def nats_of(agent: Agent, batch: Mapping[str, Any]) -> Tensor:
    """What each page of a Batch of `of_pages` costs to be told, float32 [N]."""
    encoder, length = reader(agent), batch["length"]
    if encoder.pieces is not None:
        rows = zip(batch["pieces"].flatten(1).tolist(), length.tolist(), strict=True)
        texts = [bytes(row[:n]).decode() for row, n in rows]
        ids = [encoder.pieces.encode(text, add_special_tokens=False).ids for text in texts]
        return telling_pieces(agent, padded(ids)).sum(1)
    nats = telling(agent, {name: value for name, value in batch.items() if name != "length"})
    there = torch.arange(nats.shape[1]) < length[:, None].cpu()
    return (nats * there.to(nats.device)).sum(1)


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Nats a byte of right pages, and how far they are from being the likelier ones."""
    right, wrong = nats_of(agent, batch).unflatten(0, (-1, 2, 2)).unbind(1)
    told = right.sum() / batch["length"].unflatten(0, (-1, 2, 2))[:, 0].sum()
    behind = (right - wrong).sum(1)
    return told + PREFERRING * F.softplus(behind).mean(), {
        "nats": told.detach(),
        "told apart": (behind < 0).float().mean(),
    }
