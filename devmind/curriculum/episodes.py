"""Which episode a value of an exam is of: a hash of the episode's content, which tells repeated episodes from new ones.

Seeds do not tell them apart: two seeds of a small world begin the same episode. So an episode is named by its content,
without the noise, and not by what an agent makes of it; lessons and exams, taught and untaught agents can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from hashlib import blake2b
from typing import Any

import numpy as np

from devmind.seeding import lesson_seeds

MakeWorld = Callable[..., Any]


def identities(content: Mapping[str, Any]) -> np.ndarray:
    """One number a row, int64 [N]: a hash of the row of every array (or tensor, or list of texts) [N, ...] by name."""
    columns = [_texts(name, _rows(value)) for name, value in sorted(content.items())]
    digests = (blake2b(b"".join(row), digest_size=8).digest() for row in zip(*columns, strict=True))
    return np.array([int.from_bytes(digest, "little", signed=True) for digest in digests], np.int64)


def _texts(name: str, column: np.ndarray) -> Iterator[bytes]:
    """Name, type and content of each row of a column [N, ...]."""
    if column.dtype.kind in "US" and column.ndim == 1:
        # A text's type is as long as the text, not as the longest one of the column.
        yield from (f"{name} {text.dtype.str} (1,)".encode() + text.tobytes() for text in map(np.asarray, column))
        return
    head, content = f"{name} {column.dtype.str} {column.shape[1:] or (1,)}".encode(), column.tobytes()
    size = len(content) // max(1, len(column))
    for row in range(len(column)):
        yield head + content[row * size : (row + 1) * size]


def of_worlds(make_world: MakeWorld, world: str, level: str, seeds: np.ndarray) -> np.ndarray:
    """The episodes that `seeds` begin in a world of Rules, int64 [N]: the first state, without the seed that only noise
    is drawn from.
    """
    state = make_world(world, level, seeds).state()
    named = {field.name: getattr(state, field.name) for field in fields(state) if field.name != "seed"}
    return identities({**named, "world": [world] * len(seeds)})


def of_lessons(make_world: MakeWorld, n: int, seed: int, world: str, levels: Sequence[str]) -> np.ndarray:
    """About `n` episodes that lessons in `levels` of a world may show, int64: as many of each level."""
    each = max(1, n // len(levels))
    parts = [of_worlds(make_world, world, level, lesson_seeds(each, seed, "episodes", level)) for level in levels]
    return np.concatenate(parts)


def per_episode(values: np.ndarray, episodes: np.ndarray | None) -> np.ndarray:
    """Means of the values [n] of each different episode, in the order in which episodes come first."""
    if episodes is None:
        return values
    _, which = np.unique(episodes, return_inverse=True)
    means = np.bincount(which, values) / np.bincount(which)
    return np.asarray(means[which[first_of_each(episodes)]])


def first_of_each(episodes: np.ndarray) -> np.ndarray:
    """Where each different episode comes first, int64 [distinct], ascending."""
    return np.sort(np.unique(episodes, return_index=True)[1])


def _rows(value: Any) -> np.ndarray:
    return np.asarray(value.cpu() if hasattr(value, "cpu") else value)
