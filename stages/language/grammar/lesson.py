"""Grammar, as it is taught beside reading: minimal pairs whose wrong pages describe a thing twice.

Reading her sentences teaches eight of nine kinds of faults. It does not teach that no thing is described twice: each
time one of eighteen pairs less is possible, which hardly shows. So a few minimal pairs of this kind, about taught pairs
of colour and noun, are added to batches of reading. As in the exam, each has two right and two wrong pages, in which
both names trade places. The loss makes the right ones together the likelier,

    softplus(nats of the right pages - nats of the wrong ones),

as for a preferred one of two (Bradley and Terry, 1952), beside the nats of the right pages, which are read like any
other page. The cost of a name by itself is on both sides and cancels.
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
from stages.language.read.pages import pad_pages, page_batch, telling, telling_pieces

PREFERRING = 0.2
"""Weight of the preference beside the nats a byte of reading. Its gradient is three to twenty-five times as large
before anything of it is learned."""
FILLS = b"\n"
"""Padding behind a page. Each byte is predicted from those before it, so padding changes nothing before it."""


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` minimal pairs of four pages each, two right and two wrong ones."""
    named = ("lesson", context.seed % EXAM_SEEDS_FROM, update)
    return of_pairs([pair(TWICE, *named, row, of=TAUGHT) for row in range(rows)])


def of_pairs(some_pairs: list[Pair]) -> dict[str, Any]:
    """The pages of pairs as a Batch, a pair's right pages before its wrong ones, with `length` int64 [N] in bytes."""
    return of_pages([page for one in some_pairs for page in (*one.right, *one.wrong)])


def of_pages(texts: list[str]) -> dict[str, Any]:
    """Pages of any length as a Batch, padded to the longest, with `length` int64 [N] in bytes."""
    rows = [as_bytes(text) for text in texts]
    longest = -(-max(map(len, rows)) // 8) * 8
    full = np.stack([np.frombuffer(bytes(row).ljust(longest, FILLS), np.uint8) for row in rows])
    return page_batch(full) | {"length": torch.tensor([len(row) for row in rows])}


def nats_of(agent: Agent, batch: Mapping[str, Any]) -> Tensor:
    """The cost in nats of each page of a Batch of `of_pages`, float32 [N]."""
    encoder, length = reader(agent), batch["length"]
    if encoder.pieces is not None:
        rows = zip(batch["pieces"].flatten(1).tolist(), length.tolist(), strict=True)
        texts = [bytes(row[:n]).decode() for row, n in rows]
        ids = [encoder.pieces.encode(text, add_special_tokens=False).ids for text in texts]
        return telling_pieces(agent, pad_pages(ids)).sum(1)
    nats = telling(agent, {name: value for name, value in batch.items() if name != "length"})
    there = torch.arange(nats.shape[1]) < length[:, None].cpu()
    return (nats * there.to(nats.device)).sum(1)


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Nats a byte of the right pages, and the preference loss of right over wrong ones."""
    right, wrong = nats_of(agent, batch).unflatten(0, (-1, 2, 2)).unbind(1)
    nats = right.sum() / batch["length"].unflatten(0, (-1, 2, 2))[:, 0].sum()
    behind = (right - wrong).sum(1)
    return nats + PREFERRING * F.softplus(behind).mean(), {
        "nats": nats.detach(),
        "told apart": (behind < 0).float().mean(),
    }
