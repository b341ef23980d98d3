"""The index of a memory: all keys and facts of a store in RAM, searched exactly and updated by the store's changes.

It is a cache and never the truth. Changes come as `Changes`, whose sum of checksums tells whether the copy is still
right; if not, the copy is rebuilt. Search is one product of a matrix and a vector, which reads all keys at the speed of
the memory bus: 25.6 MB for 10^5 keys in float32, a quarter of it in int8 (each number of a key rounded to 1/127 of its
largest).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from devmind.errors import StoreError
from devmind.memory.columns import Column
from devmind.memory.entry import KEY_SIZE, Key
from devmind.memory.stores import Store
from devmind.memory.tables import Changes, Facts, KeyRows

Precision = Literal["float32", "int8"]
_DEAD = 0.25
"""Above this share of deleted rows the rest is packed together."""


class SenseKeys(NamedTuple):
    """Keys of one sense, made by `encoder`: of the rows `places` [m] of a table.

    `vectors` [m, 64] float32, or int8 in units of `scales` [m].
    """

    places: np.ndarray
    vectors: np.ndarray
    scales: np.ndarray
    encoder: str


@dataclass(frozen=True, eq=False)
class Table:
    """The content of the index at one revision; it never changes.

    Args:
        ids, time_s, importance, changed: [n] of each row, as in `Facts`.
        names: int32 [n], the name's number in `known`, -1 for none.
        known: names by their numbers.
        alive: bool [n], False for deleted rows.
        senses: keys by sense.
        epoch: a new one means that rows have moved; otherwise rows were only added at the end.
    """

    revision: str
    ids: np.ndarray
    time_s: np.ndarray
    importance: np.ndarray
    changed: np.ndarray
    names: np.ndarray
    known: Mapping[str, int]
    alive: np.ndarray
    senses: Mapping[str, SenseKeys]
    epoch: int = 0

    @cached_property
    def all_alive(self) -> bool:
        """Whether no row belongs to a deleted entry."""
        return bool(self.alive.all())

    def relevance(self, keys: Mapping[str, Key]) -> np.ndarray:
        """The mean cosine of each row [n] over the asked senses that it has a key of; -inf without any.

        Raises:
            StoreError: a key of another encoder than the memory's.
        """
        pairs = self.compared(keys)
        n = len(self.ids)
        if len(pairs) == 1 and len(pairs[0][0].places) == n:
            return cosines(pairs[0][0].vectors, pairs[0][1].vector, pairs[0][0].scales)  # in order: places are 0..n-1
        total, count = np.zeros(n, np.float32), np.zeros(n, np.float32)
        for sense_keys, key in pairs:
            total[sense_keys.places] += cosines(sense_keys.vectors, key.vector, sense_keys.scales)
            count[sense_keys.places] += 1
        return np.where(count > 0, total / np.maximum(count, 1), np.float32(-np.inf))

    def relevance_at(self, places: np.ndarray, keys: Mapping[str, Key]) -> np.ndarray:
        """`relevance` of some rows [p], by their places in ascending order."""
        total, count = np.zeros(len(places), np.float32), np.zeros(len(places), np.float32)
        for sense_keys, key in self.compared(keys):
            at = np.minimum(np.searchsorted(sense_keys.places, places), len(sense_keys.places) - 1)
            there = sense_keys.places[at] == places
            total += np.where(there, cosines(sense_keys.vectors[at], key.vector, sense_keys.scales[at]), 0)
            count += there
        return np.where(count > 0, total / np.maximum(count, 1), np.float32(-np.inf))

    def compared(self, keys: Mapping[str, Key]) -> list[tuple[SenseKeys, Key]]:
        """The keys to compare each asked key with; StoreError for one of another encoder."""
        found = []
        for sense, key in keys.items():
            sense_keys = self.senses.get(sense)
            if sense_keys is not None and sense_keys.encoder != key.encoder:
                raise StoreError(
                    f"The memory's keys of '{sense}' were made by another encoder "
                    f"({sense_keys.encoder[:8]}, asked with {key.encoder[:8]}); rebuild them first."
                )
            if sense_keys is not None:
                found.append((sense_keys, key))
        return found


class _Sense:
    """One sense's growing keys with the entries' numbers and the keys' checksums."""

    def __init__(self, precision: Precision) -> None:
        self.places, self.sums = Column(np.zeros(0, np.int64)), Column(np.zeros(0, np.int64))
        self.vectors = Column(np.zeros((0, KEY_SIZE), np.int8 if precision == "int8" else np.float32))
        self.scales = Column(np.zeros(0, np.float32))
        self.encoder, self.living = "", 0


class Index:
    """Keeps a table of a store up to date; from any thread.

    Args:
        store: the truth.
        precision: of the keys here; the store always keeps float32.
    """

    def __init__(self, store: Store, precision: Precision = "float32") -> None:
        self.store, self.precision = store, precision
        self._lock, self._epoch = threading.Lock(), 0
        self._clear()
        self.table = self._snapshot("")

    def update(self) -> Table:
        """Update the table and return it. `table` is always the last one, without waiting.

        Raises:
            StoreError: the store cannot be read, or its keys are not those that were written.
        """
        with self._lock:
            if self.store.revision() != self.table.revision:
                self.table = self._take(self.store.changes(self.table.revision or None))
            return self.table

    def _take(self, changes: Changes) -> Table:
        if changes.anew:
            self._clear()
        self._drop(np.concatenate((changes.deleted, changes.facts.ids)))
        self._append(changes)
        if (self._keys, self._sum) != (changes.keys_total, changes.keys_sum):
            if changes.anew:
                raise StoreError(
                    f"The memory has {self._keys} keys, and should have {changes.keys_total}, or they are not those "
                    "that were written; 'devmind memory check --mend' mends it."
                )
            return self._take(self.store.changes(None))
        dead = len(self._alive) - int(self._alive.sum())
        if dead > _DEAD * len(self._alive):
            self._pack()
        return self._snapshot(changes.revision)

    def _clear(self) -> None:
        self._epoch += 1
        self._ids, self._changed = Column(np.zeros(0, np.int64)), Column(np.zeros(0, np.int64))
        self._time_s, self._importance = Column(np.zeros(0)), Column(np.zeros(0))
        self._names, self._known = Column(np.zeros(0, np.int32)), dict[str, int]()
        self._alive = np.zeros(0, bool)
        self._senses: dict[str, _Sense] = {}
        self._keys = self._sum = 0

    def _drop(self, ids: np.ndarray) -> None:
        """Mark the rows of these entries as deleted. Readers keep the old mask."""
        if not len(ids) or not len(self._ids):
            return
        removed = np.isin(self._ids.rows, ids) & self._alive
        if not removed.any():
            return
        self._alive = self._alive & ~removed
        for sense, sense_keys in list(self._senses.items()):
            affected = removed[sense_keys.places.rows]
            count = int(affected.sum())
            self._keys -= count
            self._sum -= int(sense_keys.sums.rows[affected].sum())
            sense_keys.living -= count
            if not sense_keys.living:
                del self._senses[sense]  # the next keys may be of another encoder, and are numbered anew
                self._epoch += 1

    def _append(self, changes: Changes) -> None:
        facts, first = changes.facts, len(self._ids)
        for column, rows in (
            (self._ids, facts.ids), (self._changed, facts.changed), (self._time_s, facts.time_s),
            (self._importance, facts.importance), (self._names, self._numbers(facts)),
        ):  # fmt: skip
            column.append(rows)
        self._alive = np.concatenate((self._alive, np.ones(len(facts), bool)))
        for sense, keys in changes.keys.items():
            self._append_keys(sense, keys, np.searchsorted(facts.ids, keys.ids) + np.int64(first))

    def _append_keys(self, sense: str, rows: KeyRows, places: np.ndarray) -> None:
        sense_keys = self._senses.setdefault(sense, _Sense(self.precision))
        sense_keys.places.append(places)
        sense_keys.sums.append(rows.checksums)
        ones = np.ones(len(rows.ids), np.float32)
        vectors, scales = quantise_keys(rows.vectors) if self.precision == "int8" else (rows.vectors, ones)
        sense_keys.vectors.append(vectors)
        sense_keys.scales.append(scales)
        sense_keys.encoder, sense_keys.living = rows.encoder, sense_keys.living + len(rows.ids)
        self._keys += len(rows.ids)
        self._sum += int(rows.checksums.sum())

    def _numbers(self, facts: Facts) -> np.ndarray:
        """Numbers int32 [n] of the entries' names, new ones for new names."""
        known = dict(self._known)  # readers have the old one
        numbers = [-1 if name is None else known.setdefault(name, len(known)) for name in facts.names]
        self._known = known
        return np.array(numbers, np.int32)

    def _pack(self) -> None:
        self._epoch += 1
        alive, to = self._alive, np.cumsum(self._alive) - 1
        for sense_keys in self._senses.values():
            affected = alive[sense_keys.places.rows]
            for column in (sense_keys.places, sense_keys.sums, sense_keys.vectors, sense_keys.scales):
                column.keep(affected)
            sense_keys.places = Column(to[sense_keys.places.rows])
        for column in (self._ids, self._changed, self._time_s, self._importance, self._names):
            column.keep(alive)
        self._alive = np.ones(len(self._ids), bool)

    def _snapshot(self, revision: str) -> Table:
        senses = {
            sense: SenseKeys(
                sense_keys.places.rows, sense_keys.vectors.rows, sense_keys.scales.rows, sense_keys.encoder
            )
            for sense, sense_keys in self._senses.items()
        }
        return Table(
            revision, self._ids.rows, self._time_s.rows, self._importance.rows, self._changed.rows,
            self._names.rows, self._known, self._alive, senses, self._epoch,
        )  # fmt: skip


_FULL_SCALE = 127
_BLOCK = 8192
"""Rows of int8 converted to float32 at a time, so that they stay in the processor's cache."""


def cosines(vectors: np.ndarray, vector: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Cosines float32 [m] of keys [m, 64] (float32, or int8 in units of `scales` [m]) with one key float32 [64]."""
    if vectors.dtype == np.float32:
        import torch  # here, because a caller with keys has loaded it for its agent, and others need not load it

        # Numpy's product of a matrix by rows takes one and a half times as long.
        return np.asarray(torch.mv(torch.from_numpy(vectors), torch.from_numpy(np.array(vector, np.float32))))
    found = np.empty(len(vectors), np.float32)
    for start in range(0, len(vectors), _BLOCK):
        found[start : start + _BLOCK] = vectors[start : start + _BLOCK].astype(np.float32) @ vector
    return found * scales


def quantise_keys(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keys float32 [m, 64] as int8 [m, 64] and their units float32 [m]: 1/127 of each key's largest number."""
    scales = np.abs(vectors).max(1, initial=1e-12).astype(np.float32) / np.float32(_FULL_SCALE)
    return np.round(vectors / scales[:, None]).astype(np.int8), scales
