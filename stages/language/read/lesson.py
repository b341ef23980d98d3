"""The lesson `read`: pages from anywhere in the text, each byte told from those before it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context, Lesson
from devmind.seeding import numpy_rng
from stages.language.read.corpus import as_bytes, corpus
from stages.language.read.pages import LENGTHS, page_batch, telling
from stages.language.teaching import taught

ROWS = 16
"""Pages of a step: small ones teach more of the same bytes."""
STEPS = {"tiny": 60, "nursery": 2000, "child": 6000, "adult": 20000}


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    return taught(context, "read", loss, lesson_batch, STEPS, ROWS, 3e-3, 10.0, learns_from=(group(context),))


def group(context: Context) -> str:
    """How the text is listed in the agent's `trained_on`: another split of it would be no exam."""
    found = corpus(context)
    return f"text:{found.source}#{found.sha256[:16]}"


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` pages from anywhere in the taught part."""
    return pages_from(_taught(context), LENGTHS[context.config.size], numpy_rng(context.seed, "read", update), rows)


def pages_from(text: np.ndarray, length: int, rng: np.random.Generator, rows: int) -> dict[str, Any]:
    """`rows` pages of `length` bytes that begin anywhere in `text` uint8 [N], or of all of it where it is shorter."""
    length = min(length, len(text) - len(text) % 8)
    starts = rng.integers(0, len(text) - length + 1, rows)
    return page_batch(text[starts[:, None] + np.arange(length)])


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Nats a byte."""
    nats = telling(agent, dict(batch)).mean()
    return nats, {"nats": nats.detach()}


def _taught(context: Context) -> np.ndarray:
    return _bytes(corpus(context).taught)


@lru_cache(maxsize=2)
def _bytes(text: str) -> np.ndarray:
    return as_bytes(text)
