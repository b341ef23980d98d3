"""Many entries as columns, for the index, the budget and statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Facts:
    """Facts of n entries besides keys and payloads, in ascending order of their numbers.

    Args:
        ids: int64 [n].
        time_s: float64 [n], time of writing, seconds since 1970.
        importance: float64 [n].
        names: n names, None for entries without one.
        recalled: int64 [n], number of recalls.
        recalled_s: float64 [n], time of the last recall; NaN for never.
        payload_bytes: int64 [n], of the stored payload.
        changed: int64 [n], grows with every change of an entry or its keys, except for counts of recalls.
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
        checksums: int64 [n], of number, sense, encoder and vector (`stores.rows.key_checksum`).
        encoder: the encoder of all of them.
    """

    ids: np.ndarray
    vectors: np.ndarray
    checksums: np.ndarray
    encoder: str


@dataclass(frozen=True, eq=False)
class Changes:
    """The update of a copy of facts and keys from one revision to another, read at one moment.

    Args:
        revision: of the store at this moment.
        anew: the copy must be replaced: `facts` and `keys` are complete. Otherwise they are of the new and changed
            entries.
        facts, keys: of these entries, keys by sense. A changed entry has no other keys.
        deleted: int64 [m], numbers of deleted entries.
        keys_total, keys_sum: number of keys in the whole store now, and the sum of their checksums: a copy with other
            values is wrong and must be rebuilt.
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
    """The size of a store, known without reading it: entries, and bytes of payloads and of keys with features."""

    entries: int
    payload_bytes: int
    key_bytes: int

    @property
    def bytes(self) -> int:
        """All of them, without the database's overhead."""
        return self.payload_bytes + self.key_bytes
