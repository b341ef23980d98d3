"""Long-term memory over a store: write what was lived, recall what is like it.

Recall is exact: the cosine of the asked key with every key of that sense, from an index that follows the store's
changes (`index.py`). Beyond a million keys an approximate index proposes what to compare, where the extra `ann` is
installed (`approximate`).
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
"""So many questions a store that searches itself answers, before an index is made here: that reads all its keys."""
COUNTED_AT_ONCE = 256
"""So many recalls are counted before they are written down: each writing waits for the disk."""


Describe = Callable[[Mapping[str, Sense]], Mapping[str, Key]]
"""Keys of a payload."""
LOOKED_AT, DESCRIBED = 64, 4
"""So many entries are looked at for a sense that no key is of, and so many of those that hold it are described."""


def gained(
    table: Table, get: Callable[[Iterable[int]], Iterable[Entry]], describe: Describe, encoders: Mapping[str, str]
) -> bool:
    """Whether entries hold senses that are described today and have no keys yet.

    To be cheap at every opening it looks at a sample, spread evenly: a sense that hardly any entry holds may be missed.
    """
    senses, ids = encoders.keys() - table.senses.keys(), table.ids[table.alive]
    if not senses or not len(ids):
        return False
    places = np.unique(np.linspace(0, len(ids) - 1, LOOKED_AT).astype(int))
    found = (entry.senses for number in ids[places].tolist() for entry in get([number]))
    holding = islice((held for held in found if senses & held.keys()), DESCRIBED)
    return any(senses & describe(held).keys() for held in holding)


def described(entry: Entry, describe: Describe, encoders: Mapping[str, str]) -> dict[str, Key]:
    """New keys of an entry; features are kept for examples of names only.

    An old key that cannot be made anew, since what it was made of is gone, goes as well: it compares with nothing.
    """
    strange = {sense: key for sense, key in entry.keys.items() if sense not in encoders}
    new = {
        sense: replace(k, features=k.features if entry.name else None) for sense, k in describe(entry.senses).items()
    }
    return {**strange, **new}


class Pointed(Protocol):
    """Where pointers lead to; `devmind.sessions.pointed.Pointed` reads recordings."""

    def fetch(self, place: Pointer) -> Mapping[str, Sense] | None:
        """What a pointer points to, or None when it is not there (any more)."""
        ...

    def forget(self, places: Iterable[Pointer]) -> list[str]:
        """Delete what is pointed to; a sentence for each place where that cannot be."""
        ...


class Memory:
    """Entries of one store.

    Args:
        store: where they are kept.
        clock: gives the time an entry is written at, seconds since 1970.
        precision: of the index's keys; see `Index`.
        pointed: where pointers lead to; without, such entries come with what they hold themselves.
        budget: what is over goes when something is written, the least valuable first (`forgetting.py`).
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
        """The time that something written now would have."""
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

        When it returns, the entry survives a kill. With a pointer, `moment` holds what is to be kept besides. What
        the budget takes for it is older.

        Raises:
            StoreError: no key at all, a negative importance, keys of another encoder than the store's, a disk that
                refuses, or a budget that is filled by examples of names, which only `forget` takes.
        """
        if not keys:
            raise StoreError("An entry needs a key of one sense at least; got none, so nothing could recall it.")
        if not (np.isfinite(importance) and importance >= 0):
            raise StoreError(f"Importance is a number from 0 on; got {importance}.")
        entry = Entry(self._clock(), float(importance), name, dict(keys), dict(moment.senses), pointer=pointer)
        entry = replace(entry, id=self.store.add([entry])[0])
        self.keep_to_budget(newest=entry.id)
        return entry

    def keep_to_budget(self, newest: int | None = None) -> int:
        """Let go of what is over the budget; gives how many went.

        They are never found again. Their bytes are gone from the database, and may stay in its log until something is
        forgotten on purpose.

        Args:
            newest: the number of what was just written: it goes last, and not in silence.

        Raises:
            StoreError: there was no room for `newest`.
        """
        sizes = self.store.sizes()
        if not self.budget.exceeded(sizes):
            return 0
        self.flush()
        gone = surplus(self.store.facts(), sizes, self.budget, self._clock(), newest).tolist()
        count = self.store.delete(gone, erase=False)
        if newest in gone:
            raise StoreError(
                "Memory is full of examples of names, which never go by themselves, and this one was not kept: forget "
                "some ('devmind memory forget --name NAME'), or give memory a larger budget."
            )
        return count

    def recall(
        self,
        keys: Mapping[str, Key],
        k: int = 4,
        filters: Filters = Filters(),  # noqa: B008 - it is frozen
        weights: Weights = Weights(),  # noqa: B008
    ) -> list[Entry]:
        """The k entries most like what is asked, the highest score first; of equal ones the newer first.

        An entry's `score` is the mean cosine over the asked senses that it has a key of, unless `weights` add more.
        Recalls are counted (`Entry.recalled`), and written down by `flush` or a little later.

        Raises:
            StoreError: a key of another encoder than the store's, or a store that cannot be read.
        """
        found = self._found_by_store(keys, k, filters) if weights == Weights() else None
        if found is None:
            found = self.nearest(self.index.update(), keys, k, filters, weights)
        entries = [replace(entry, score=found[entry.id]) for entry in self.get(found)]
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
        """The same by cosine alone, found where the keys are; None when this process has an index, or must have one."""
        search = getattr(self.store, "nearest", None)
        if search is None or self.index.table.revision or self._asked_of_store >= ASKED_OF_THE_STORE:
            return None
        self._asked_of_store += 1
        found = search(keys, k, filters)
        return None if found is None else dict(found)

    def get(self, ids: Iterable[int]) -> list[Entry]:
        """Entries by their numbers, in this order, with what they point to; those that are gone are left out."""
        return [self._whole(entry) for entry in self.store.get(ids)]

    def count(self, ids: Iterable[int]) -> None:
        """These were recalled once more."""
        with self._lock:
            self._recalled.update(ids)
            full = self._recalled.total() >= COUNTED_AT_ONCE
        if full:
            self.flush()

    def flush(self) -> None:
        """Write down how often entries were recalled."""
        with self._lock:
            recalled, self._recalled = self._recalled, Counter()
        if recalled:
            self.store.mark_recalled(recalled, self._clock())

    def _whole(self, entry: Entry) -> Entry:
        """With what it points to; what it holds itself is kept."""
        leads = self.pointed and entry.pointer and not entry.pointer.span  # with a span it is whole
        pointed = self.pointed.fetch(entry.pointer) if leads else None  # type: ignore[union-attr, arg-type]
        return replace(entry, senses={**pointed, **entry.senses}) if pointed else entry

    def forget(self, filters: Filters, tell: Callable[[str], object] = str) -> int:
        """Delete the entries that pass, so that nothing of them stays on the disk; gives how many. See `erase`.

        Args:
            tell: is given each of the sentences about what was not found or changed.
        """
        ids = self.store.facts(filters).ids.tolist()
        for sentence in self.erase(ids):
            tell(sentence)
        return len(ids)

    def erase(self, ids: Iterable[int]) -> list[str]:
        """Delete entries with what they point to, so that nothing of them stays in any file.

        What weights have learned from them stays in the weights. An entry whose recording cannot be rewritten stays as
        well, since its number is the only way to what was recorded; the others are deleted all the same.

        Returns:
            a sentence for each recording that is not there (any more); their entries are gone all the same.

        Raises:
            StoreError: an entry points somewhere and this memory was not told how to get there; or the store cannot be
                written. Nothing is deleted then.
            KeptError: recordings of some entries cannot be rewritten; these stay, and the others are gone.
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
                "Some of these point into recordings, which are not at hand; forget with 'devmind memory'."
            )
        told, refused, kept = list[str](), list[str](), set[int]()
        for places in by_session.values() if self.pointed else ():
            try:
                told += self.pointed.forget(places.values())  # type: ignore[union-attr]
            except SessionError as error:
                refused.append(str(error))
                kept |= places.keys()
        try:
            self.store.delete(number for number in ids if number not in kept)
        except TracesError as error:
            told.append(str(error))
            if not kept:
                raise TracesError(" ".join(told)) from error
        if kept:
            raise KeptError(" ".join([*refused, f"So entries stay: {len(kept)} of {len(ids)}.", *told]), len(kept))
        return told

    def rebuild(self, describe: Describe, encoders: Mapping[str, str]) -> int:
        """Make the keys of all entries anew from their payloads, unless they are of today's encoders already.

        It takes as long as describing every entry does; from any thread.

        Args:
            describe: keys of a payload.
            encoders: today's encoder by sense; keys of senses that are not in it stay as they are.

        Returns:
            how many entries got new keys.
        """
        table = self.index.update()
        used = {(sense, held.encoder) for sense, held in table.senses.items() if sense in encoders}
        if used <= set(encoders.items()) and not gained(table, self.get, describe, encoders):
            return 0
        # One by one, since the payloads of all of them may not fit into memory together.
        old = table.ids[table.alive].tolist()
        new = {entry.id: described(entry, describe, encoders) for number in old for entry in self.get([number])}
        self.store.replace_keys(new)
        return len(new)
