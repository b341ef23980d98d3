"""Many entries at once, as columns: what an index, a budget and statistics are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of n entries besides keys and payloads, in ascending order of their numbers.

    Args:
        ids: int64 [n].
        time_s: float64 [n], when they were written, seconds since 1970.
        importance: float64 [n].
        names: n names, None for what has none.
        recalled: int64 [n], how often each was recalled.
        recalled_s: float64 [n], when last; NaN when never.
        payload_bytes: int64 [n], of the stored payload.
        changed: int64 [n], grows with every change of an entry or its keys; marking as recalled is none.
    """

    ids: np.ndarray
    time_s: np.ndarray
    importance: np.ndarray
    names: list[str | None]
    recalled: np.ndarray
    recalled_s: np.ndarray
    payload_bytes: np.ndarray
    changed: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class KeyRows:
    """Keys of one sense of n entries, in ascending order of their numbers.

    Args:
        ids: int64 [n].
        vectors: float32 [n, 64].
        checksums: int64 [n], of number, sense, encoder and vector (`stores.checksums.key_checksum`).
        encoder: what made all of them.
    """

    ids: np.ndarray
    vectors: np.ndarray
    checksums: np.ndarray
    encoder: str


@dataclass(frozen=True, eq=False)
class Changes:
    """What brings a copy of facts and keys from one revision to another, read in one moment.

    Args:
        revision: of the store at this moment.
        anew: the copy is of no use: `facts` and `keys` are all there are. Else they are of the new and changed entries.
        facts, keys: of these entries, keys by sense. A changed entry has no keys but those given here.
        deleted: int64 [m], numbers of entries that are gone.
        keys_total, keys_sum: how many keys the whole store has now, and the sum of their checksums: a copy that does
            not come to the same is wrong and must be made anew.
    """

    revision: str
    anew: bool
    facts: Facts
    keys: Mapping[str, KeyRows]
    deleted: np.ndarray
    keys_total: int
    keys_sum: int


@dataclass(frozen=True)
class Sizes:
    """How large a store is, known without reading it: entries, and bytes of payloads and of keys with features."""

    entries: int
    payload_bytes: int
    key_bytes: int

    @property
    def bytes(self) -> int:
        """All of them, without what the database needs besides."""
        return self.payload_bytes + self.key_bytes
