"""A text, split in two, its pages, and n-grams that predict it."""

from __future__ import annotations

import math
import pydoc_data.topics
from collections import Counter, defaultdict
from functools import lru_cache
from pathlib import Path

import numpy as np

PAGE_BYTES = 255
"""With "a page begins" a page is 256 tokens."""
HELD_OUT = 0.1
"""The share of a text, at its end, that no lesson reads."""

Counts = list[dict[bytes, Counter[int]]]


@lru_cache(maxsize=4)
def split(folder: Path | None) -> tuple[bytes, bytes]:
    """The taught and the held-out part of all `text/*.txt` in a data folder; without any, of Python's own manual."""
    files = sorted((folder / "text").glob("*.txt")) if folder else []
    pages = [path.read_text("utf-8") for path in files] or [
        text for _, text in sorted(pydoc_data.topics.topics.items())
    ]
    # ASCII only, so that a page may begin at any byte.
    text = "\n".join(pages).encode("ascii", "replace").replace(b"\0", b"")
    cut = round(len(text) * (1 - HELD_OUT))
    return text[:cut], text[cut:]


def pages(text: bytes, n: int, rng: np.random.Generator) -> list[str]:
    """N pages with random beginnings in a text."""
    starts = rng.integers(0, len(text) - PAGE_BYTES, n)
    return [text[start : start + PAGE_BYTES].decode() for start in starts]


def apart(text: bytes, n: int) -> list[str]:
    """At most N pages that share no byte, spread evenly over a text."""
    starts = range(0, len(text) - PAGE_BYTES + 1, PAGE_BYTES)
    chosen = np.unique(np.linspace(0, len(starts) - 1, min(n, len(starts))).round().astype(int))
    return [text[starts[i] : starts[i] + PAGE_BYTES].decode() for i in chosen]


@lru_cache(maxsize=4)
def count(text: bytes, order: int = 5) -> Counts:
    """How often each byte follows each context of 0 to `order` - 1 bytes."""
    counts: Counts = [defaultdict(Counter) for _ in range(order)]
    for length, seen in enumerate(counts):
        for at in range(length, len(text)):
            seen[text[at - length : at]][text[at]] += 1
    return counts


def counted_nats(counts: Counts, page: str) -> float:
    """Nats a byte of a page by interpolated n-grams (Witten and Bell 1991, method C), from its own first byte on."""
    text, total = page.encode(), 0.0
    for at, byte in enumerate(text):
        probability = 1 / 256
        for length in range(min(at, len(counts) - 1) + 1):
            if seen := counts[length].get(text[at - length : at]):
                probability = (seen[byte] + len(seen) * probability) / (seen.total() + len(seen))
        total -= math.log(probability)
    return total / len(text)
