"""Long-term memory over a store: write experience, recall similar entries.

Recall is exact: the cosine of the asked key with every key of that sense, from an index that follows the store's
changes (`index.py`). Beyond a million keys an approximate index proposes candidates, if the extra `ann` is installed
(`approximate`).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Protocol

import numpy as np

from devmind.errors import KeptError, SessionError, StoreError, TracesError
from devmind.memory.approximate import Graphs
from devmind.memory.columns import top
from devmind.memory.entry import Entry, Filters, Key, Pointer
from devmind.memory.forgetting import Budget, surplus
from devmind.memory.index import Index, Precision, Table
from devmind.memory.scoring import Weights, passing, scores
from devmind.memory.stores import Store
from devmind.moment import Moment, Sense

ASKED_OF_THE_STORE = 8
"""Questions that a store with its own search answers before this process builds an index, which reads all keys."""
COUNTED_AT_ONCE = 256
"""Recalls counted before they are written: each write waits for the disk."""


Describe = Callable[[Mapping[str, Sense]], Mapping[str, Key]]
"""Keys of a payload."""
LOOKED_AT, DESCRIBED = 64, 4
"""Entries sampled to find a sense without any key, and entries with that sense that are then described."""


def has_new_senses(
    table: Table, get: Callable[[Iterable[int]], Iterable[Entry]], describe: Describe, encoders: Mapping[str, str]
) -> bool:
    """Whether entries hold senses that are now described and have no keys yet.

    To be cheap at every opening it looks at a sample, spread evenly: a sense that hardly any entry holds may be missed.
    """
    senses, ids = encoders.keys() - table.senses.keys(), table.ids[table.alive]
    if not senses or not len(ids):
        return False
    places = np.unique(np.linspace(0, len(ids) - 1, LOOKED_AT).astype(int))
    found = (entry.senses for number in ids[places].tolist() for entry in get([number]))
    holding = islice((held for held in found if senses & held.keys()), DESCRIBED)
    return any(senses & describe(held).keys() for held in holding)


def describe_entry(entry: Entry, describe: Describe, encoders: Mapping[str, str]) -> dict[str, Key]:
    """New keys of an entry; only examples of names keep features.

    An old key is dropped when its source is gone, because a key of an old encoder compares with nothing.
    """
    strange = {sense: key for sense, key in entry.keys.items() if sense not in encoders}
    new = {
        sense: replace(k, features=k.features if entry.name else None) for sense, k in describe(entry.senses).items()
    }
    return {**strange, **new}


class Pointed(Protocol):
    """Reads and deletes what pointers lead to; `devmind.sessions.pointed.Pointed` does it for recordings."""

    def fetch(self, place: Pointer) -> Mapping[str, Sense] | None:
        """The senses at a pointer, or None when they are not there (any more)."""
        ...

    def forget(self, places: Iterable[Pointer]) -> list[str]:
        """Delete what is pointed to; a sentence for each place where that cannot be done."""
        ...


class Memory:
    """Entries of one store.

    Args:
        store: the store of the entries.
        clock: gives the time of writing an entry, seconds since 1970.
        precision: of the index's keys; see `Index`.
        pointed: reads what pointers lead to; without it, such entries come with only their own senses.
        budget: an entry over it is deleted on writing, the least valuable first (`forgetting.py`).
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = time.time,
        precision: Precision = "float32",
        pointed: Pointed | None = None,
        budget: Budget = Budget(),  # noqa: B008 - it is frozen
    ) -> None:
        self.store, self.index, self.pointed, self.budget = store, Index(store, precision), pointed, budget
        self.graphs, self._clock = Graphs(), clock
        self._asked_of_store = 0
        self._lock, self._recalled = threading.Lock(), Counter[int]()

    @property
    def now_s(self) -> float:
        """The time of an entry that would be written now."""
        return self._clock()

    def write(
        self,
        moment: Moment,
        keys: Mapping[str, Key],
        importance: float = 0.0,
        name: str | None = None,
        pointer: Pointer | None = None,
    ) -> Entry:
        """Keep a Moment's senses under its keys; with a name it is an example of that name.

        When it returns, the entry survives a kill. With a pointer, `moment` holds the senses to keep besides. The
        budget may delete older entries.

        Raises:
            StoreError: no key at all, a negative importance, keys of another encoder than the store's, a disk that
                refuses, or a budget filled by examples of names, which only `forget` deletes.
        """
        if not keys:
            raise StoreError("An entry needs a key of at least one sense; got none, so nothing could recall it.")
        if not (np.isfinite(importance) and importance >= 0):
            raise StoreError(f"Importance is a number from 0 on; got {importance}.")
        entry = Entry(self._clock(), float(importance), name, dict(keys), dict(moment.senses), pointer=pointer)
        entry = replace(entry, id=self.store.add([entry])[0])
        self.keep_to_budget(newest=entry.id)
        return entry

    def keep_to_budget(self, newest: int | None = None) -> int:
        """Delete the entries over the budget; returns their number.

        They are never found again. Their bytes are deleted from the database, and may stay in its log until something
        is forgotten on request.

        Args:
            newest: the number of the entry just written: it goes last, and not silently.

        Raises:
            StoreError: there was no room for `newest`.
        """
        sizes = self.store.sizes()
        if not self.budget.exceeded(sizes):
            return 0
        self.flush()
        forgotten = surplus(self.store.facts(), sizes, self.budget, self._clock(), newest).tolist()
        count = self.store.delete(forgotten, erase=False)
        if newest in forgotten:
            raise StoreError(
                "Memory is full of examples of names, which are never deleted automatically, and this one was not "
                "kept: forget some ('devmind memory forget --name NAME'), or give memory a larger budget."
            )
        return count

    def recall(
        self,
        keys: Mapping[str, Key],
        k: int = 4,
        filters: Filters = Filters(),  # noqa: B008 - it is frozen
        weights: Weights = Weights(),  # noqa: B008
    ) -> list[Entry]:
        """The k entries most similar to the keys, the highest score first; of equal ones the newer first.

        An entry's `score` is the mean cosine over the asked senses that it has a key of, unless `weights` add more.
        Recalls are counted (`Entry.recalled`), and written by `flush` or a little later.

        Raises:
            StoreError: a key of another encoder than the store's, or a store that cannot be read.
        """
        ranked = self._found_by_store(keys, k, filters) if weights == Weights() else None
        if ranked is None:
            ranked = self.nearest(self.index.update(), keys, k, filters, weights)
        entries = [replace(entry, score=ranked[entry.id]) for entry in self.get(ranked)]
        self.count(entry.id for entry in entries)
        return entries

    def nearest(
        self, table: Table, keys: Mapping[str, Key], k: int, filters: Filters, weights: Weights
    ) -> dict[int, float]:
        """Scores by number of the k best rows of a table, the best first."""
        now_s = self._clock() if weights.recency else 0.0
        proposed = self.graphs.propose(table, keys, k) if filters == Filters() and table.compared(keys) else None
        if proposed is not None:
            some = replace(
                table, ids=table.ids[proposed], time_s=table.time_s[proposed], importance=table.importance[proposed]
            )
            total = scores(some, table.relevance_at(proposed, keys), weights, now_s)
            best = top(total, some.ids, k)
            return dict(zip(some.ids[best].tolist(), total[best].tolist(), strict=True))
        relevance = table.relevance(keys)
        if filters != Filters() or not table.all_alive:
            mask = passing(table, filters)
            if not (filters.words is None and filters.session is None and filters.says is None):
                mask = mask & np.isin(table.ids, self.store.facts(filters).ids)
            relevance = np.where(mask, relevance, np.float32(-np.inf))
        total = scores(table, relevance, weights, now_s)
        places = top(total, table.ids, k)
        return dict(zip(table.ids[places].tolist(), total[places].tolist(), strict=True))

    def _found_by_store(self, keys: Mapping[str, Key], k: int, filters: Filters) -> dict[int, float] | None:
        """The same by cosine alone, searched by the store; None when this process has an index, or must have one."""
        search = getattr(self.store, "nearest", None)
        if search is None or self.index.table.revision or self._asked_of_store >= ASKED_OF_THE_STORE:
            return None
        self._asked_of_store += 1
        found = search(keys, k, filters)
        return None if found is None else dict(found)

    def get(self, ids: Iterable[int]) -> list[Entry]:
        """Entries by their numbers, in this order, with the senses that they point to; deleted ones are left out."""
        return [self._whole(entry) for entry in self.store.get(ids)]

    def count(self, ids: Iterable[int]) -> None:
        """Count one more recall of these."""
        with self._lock:
            self._recalled.update(ids)
            full = self._recalled.total() >= COUNTED_AT_ONCE
        if full:
            self.flush()

    def flush(self) -> None:
        """Write the counts of recalls to the store."""
        with self._lock:
            recalled, self._recalled = self._recalled, Counter()
        if recalled:
            self.store.mark_recalled(recalled, self._clock())

    def _whole(self, entry: Entry) -> Entry:
        """With the senses that it points to; its own senses are kept."""
        leads = self.pointed and entry.pointer and not entry.pointer.span  # with a span it is whole
        pointed = self.pointed.fetch(entry.pointer) if leads else None  # type: ignore[union-attr, arg-type]
        return replace(entry, senses={**pointed, **entry.senses}) if pointed else entry

    def forget(self, filters: Filters, tell: Callable[[str], object] = str) -> int:
        """Delete the entries that pass, leaving nothing of them on the disk; returns their number. See `erase`.

        Args:
            tell: gets each sentence about what was not found or changed.
        """
        ids = self.store.facts(filters).ids.tolist()
        for sentence in self.erase(ids):
            tell(sentence)
        return len(ids)

    def erase(self, ids: Iterable[int]) -> list[str]:
        """Delete entries with the ticks that they point to, leaving nothing of them in any file.

        What weights have learned from them stays in the weights. An entry whose recording cannot be rewritten is kept,
        because its number is the only way to the recorded ticks; the others are deleted all the same.

        Returns:
            a sentence for each recording that is not there (any more); its entries are deleted all the same.

        Raises:
            StoreError: an entry points somewhere and this memory has no `pointed`; or the store cannot be written.
                Nothing is deleted then.
            KeptError: recordings of some entries cannot be rewritten; these entries stay, and the others are deleted.
            TracesError: all are deleted, and traces may stay in the store's files.
        """
        ids = list(ids)
        by_session: dict[str, dict[int, Pointer]] = {}
        for number in ids:
            for entry in self.store.get([number]):
                if entry.pointer is not None:
                    by_session.setdefault(entry.pointer.session, {})[number] = entry.pointer
        if by_session and self.pointed is None:
            raise StoreError(
                "Some of these point into recordings, which are not available here; forget with 'devmind memory'."
            )
        messages, refused, kept_ids = list[str](), list[str](), set[int]()
        for places in by_session.values() if self.pointed else ():
            try:
                messages += self.pointed.forget(places.values())  # type: ignore[union-attr]
            except SessionError as error:
                refused.append(str(error))
                kept_ids |= places.keys()
        try:
            self.store.delete(number for number in ids if number not in kept_ids)
        except TracesError as error:
            messages.append(str(error))
            if not kept_ids:
                raise TracesError(" ".join(messages)) from error
        if kept_ids:
            raise KeptError(
                " ".join([*refused, f"So {len(kept_ids)} of {len(ids)} entries stay.", *messages]), len(kept_ids)
            )
        return messages

    def rebuild(self, describe: Describe, encoders: Mapping[str, str]) -> int:
        """Make new keys for all entries from their payloads, unless the keys are already of today's encoders.

        It takes as long as describing every entry; from any thread.

        Args:
            describe: makes the keys of a payload.
            encoders: today's encoder by sense; keys of other senses stay as they are.

        Returns:
            number of entries with new keys.
        """
        table = self.index.update()
        used = {(sense, held.encoder) for sense, held in table.senses.items() if sense in encoders}
        if used <= set(encoders.items()) and not has_new_senses(table, self.get, describe, encoders):
            return 0
        # One by one: all payloads together may not fit into RAM.
        old = table.ids[table.alive].tolist()
        new = {entry.id: describe_entry(entry, describe, encoders) for number in old for entry in self.get([number])}
        self.store.replace_keys(new)
        return len(new)
