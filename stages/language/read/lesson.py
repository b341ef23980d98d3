"""Batches and loss of reading: pages from anywhere in the text, each byte predicted from those before it. If a run was
given texts, some pages of each step are still the caregiver's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context
from devmind.seeding import numpy_rng
from stages.language.parts import reader
from stages.language.read.corpus import as_bytes, caregiver, corpus
from stages.language.read.pages import LENGTHS, pad_pages, page_batch, telling, telling_pieces

GROUP = "text:"
"""Begins the entries of texts in an agent's `trained_on`."""
CAREGIVERS = 8
"""One of so many pages is the caregiver's, if there is another text."""


def group(context: Context) -> str:
    """The text's entry in the agent's `trained_on`, by which the exam refuses another split of it."""
    text = corpus(context)
    return f"{GROUP}{text.source}#{text.sha256[:16]}"


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` pages from anywhere in the taught part, at least one of them the caregiver's."""
    rng, length = numpy_rng(context.seed, "read", update), LENGTHS[context.config.size]
    read, spoken = corpus(context), caregiver(context)
    hers = 0 if read is spoken else -(-rows // CAREGIVERS)
    pages = [pieces(_bytes(text.taught), length, rng, n) for text, n in ((read, rows - hers), (spoken, hers)) if n]
    return page_batch(np.concatenate(pages))


def pieces(text: np.ndarray, length: int, rng: np.random.Generator, rows: int) -> np.ndarray:
    """`rows` pieces of `length` bytes that begin anywhere in `text` uint8 [N], which is longer."""
    starts = rng.integers(0, len(text) - length + 1, rows)
    return text[starts[:, None] + np.arange(length)]


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Nats a byte; with a vocabulary, the nats of all pieces over the bytes of the pages."""
    encoder = reader(agent)
    if encoder.pieces is not None:
        # A page may begin or end in the middle of a character, which is left out.
        texts = [bytes(row).decode(errors="ignore") for row in batch["pieces"].flatten(1).tolist()]
        pieces = pad_pages([encoder.pieces.encode(text, add_special_tokens=False).ids for text in texts])
        nats = telling_pieces(agent, pieces).sum() / sum(len(text.encode()) for text in texts)
    else:
        nats = telling(agent, dict(batch)).mean()
    return nats, {"nats": nats.detach()}


@lru_cache(maxsize=2)
def _bytes(text: str) -> np.ndarray:
    return as_bytes(text)
