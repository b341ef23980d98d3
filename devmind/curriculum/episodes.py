"""The identity of an exam's episode: a hash of its content, by which repeated episodes are found.

A seed does not identify an episode: two seeds of a small world may begin the same one. The content is hashed without
noise and without the agent's actions, so episodes of lessons and exams, and of different agents, can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from hashlib import blake2b
from typing import Any

import numpy as np

from devmind.errors import ExamError
from devmind.seeding import lesson_seeds

MakeWorld = Callable[..., Any]


def identities(content: Mapping[str, Any]) -> np.ndarray:
    """A number for each row, int64 [N]: a hash of that row of all arrays (tensors, lists of texts) [N, ...] by name.

    Raises:
        ExamError: an array holds Python objects, which have no bytes of their own.
    """
    columns = [_texts(name, _rows(value)) for name, value in sorted(content.items())]
    digests = (blake2b(b"".join(row), digest_size=8).digest() for row in zip(*columns, strict=True))
    return np.array([int.from_bytes(digest, "little", signed=True) for digest in digests], np.int64)


def _texts(name: str, column: np.ndarray) -> Iterator[bytes]:
    """Name, type and content of each row of a column [N, ...]."""
    if column.dtype.kind in "US" and column.ndim == 1:
        # A text's type is as long as the text, not as the longest one of the column.
        yield from (f"{name} {text.dtype.str} (1,)".encode() + text.tobytes() for text in map(np.asarray, column))
        return
    if column.dtype.hasobject:
        raise ExamError(
            f"Episodes are told apart by numbers and texts; '{name}' holds Python objects: give what they hold."
        )
    head, content = f"{name} {column.dtype.str} {column.shape[1:] or (1,)}".encode(), column.tobytes()
    size = len(content) // max(1, len(column))
    for row in range(len(column)):
        yield head + content[row * size : (row + 1) * size]


def of_worlds(make_world: MakeWorld, world: str, level: str, seeds: np.ndarray) -> np.ndarray:
    """The episodes that `seeds` begin in a world of Rules, int64 [N]: the first state, without the seed that only noise
    is drawn from. Where a state holds environments that are objects, such as Gymnasium's, the first senses count.
    """
    made = make_world(world, level, seeds)
    state = made.state()
    named = {field.name: getattr(state, field.name) for field in fields(state) if field.name != "seed"}
    if any(column.dtype.hasobject for column in named.values()):
        named = {name: column for name, column in named.items() if not column.dtype.hasobject} | made.observe()
    return identities({**named, "world": [world] * len(seeds)})


def of_lessons(make_world: MakeWorld, n: int, seed: int, world: str, levels: Sequence[str]) -> np.ndarray:
    """About `n` episodes that lessons in `levels` of a world may show, int64: as many of each level."""
    each = max(1, n // len(levels))
    parts = [of_worlds(make_world, world, level, lesson_seeds(each, seed, "episodes", level)) for level in levels]
    return np.concatenate(parts)


def per_episode(values: np.ndarray, episodes: np.ndarray | None) -> np.ndarray:
    """The mean of the values [n] of each different episode, in order of first occurrence."""
    if episodes is None:
        return values
    _, which = np.unique(episodes, return_inverse=True)
    means = np.bincount(which, values) / np.bincount(which)
    return np.asarray(means[which[first_of_each(episodes)]])


def first_of_each(episodes: np.ndarray) -> np.ndarray:
    """The index of each different episode's first value, int64 [distinct], ascending."""
    return np.sort(np.unique(episodes, return_index=True)[1])


def _rows(value: Any) -> np.ndarray:
    return np.asarray(value.cpu() if hasattr(value, "cpu") else value)
