"""Long-term memory over a store: write what was lived, recall what is like it.

Recall is exact: the cosine of the asked key with every key of that sense, from a cache that is made anew whenever the
store has changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from devmind.errors import StoreError
from devmind.memory.entry import Entry, Filters, Key
from devmind.memory.stores import Store
from devmind.moment import Moment, Sense


@dataclass(frozen=True)
class _Index:
    """All keys of one sense: `ids` int64 [n] ascending, `vectors` float32 [n, 64], made by `encoder`."""

    ids: np.ndarray
    vectors: np.ndarray
    encoder: str


class Memory:
    """Entries of one store.

    Args:
        store: where they are kept.
        clock: gives the time an entry is written at, seconds since 1970.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self.store = store
        self._clock = clock
        self._indexes: dict[str, _Index] = {}
        self._indexed: Hashable = None

    def write(self, moment: Moment, keys: Mapping[str, Key], importance: float = 0.0, name: str | None = None) -> Entry:
        """Keep a Moment's senses under its keys; with a name it is an example of that name.

        When it returns, the entry survives a kill.

        Raises:
            StoreError: no key at all, a negative importance, keys of another encoder than the store's, or a disk that
                refuses.
        """
        if not keys:
            raise StoreError("An entry needs a key of one sense at least; got none, so nothing could recall it.")
        if not (np.isfinite(importance) and importance >= 0):
            raise StoreError(f"Importance is a number from 0 on; got {importance}.")
        entry = Entry(self._clock(), float(importance), name, dict(keys), dict(moment.senses))
        return replace(entry, id=self.store.add([entry])[0])

    def recall(self, keys: Mapping[str, Key], k: int = 4, filters: Filters = Filters()) -> list[Entry]:  # noqa: B008
        """The k entries most like what is asked, the most alike first; of equal ones the newer first.

        An entry's `score` is the mean cosine over the asked senses that it has a key of.

        Raises:
            StoreError: a key of another encoder than the store's, or a store that cannot be read.
        """
        totals: dict[int, list[float]] = {}
        for sense, key in keys.items():
            index = self._index(sense)
            if index is None:
                continue
            if index.encoder != key.encoder:
                raise StoreError(
                    f"The memory's keys of '{sense}' were made by another encoder ({index.encoder[:8]}, asked with "
                    f"{key.encoder[:8]}); rebuild them first."
                )
            for number, score in zip(index.ids.tolist(), (index.vectors @ key.vector).tolist(), strict=True):
                totals.setdefault(number, []).append(score)
        if filters != Filters():
            passed = {entry.id for entry in self.store.find(filters, payloads=False)}
            totals = {number: scores for number, scores in totals.items() if number in passed}
        scores = {number: float(np.mean(each)) for number, each in totals.items()}
        best = sorted(scores, key=lambda number: (-scores[number], -number))[: max(0, k)]
        return [replace(entry, score=scores[entry.id]) for entry in self.store.get(best)]

    def forget(self, filters: Filters) -> int:
        """Delete the entries that pass, so that nothing of them stays in the store's files; gives how many."""
        return self.store.delete([entry.id for entry in self.store.find(filters, payloads=False)])

    def rebuild(self, describe: Callable[[Mapping[str, Sense]], Mapping[str, Key]], encoders: Mapping[str, str]) -> int:
        """Make the keys of all entries anew from their payloads, unless they are of today's encoders already.

        It takes as long as describing every entry does; from any thread.

        Args:
            describe: keys of a payload.
            encoders: today's encoder by sense; keys of senses that are not in it stay as they are.

        Returns:
            how many entries got new keys.
        """
        old = self.store.find(payloads=False)
        used = {(sense, key.encoder) for entry in old for sense, key in entry.keys.items() if sense in encoders}
        if used <= set(encoders.items()):
            return 0
        # One by one, since the payloads of all of them may not fit into memory together.
        self.store.replace_keys({entry.id: self._described(entry, describe) for entry in old})
        return len(old)

    def _described(self, entry: Entry, describe: Callable[[Mapping[str, Sense]], Mapping[str, Key]]) -> dict[str, Key]:
        """New keys of an entry found without its payload; features are kept for examples of names only."""
        keys = describe(self.store.get([entry.id])[0].senses)
        new = {sense: replace(key, features=key.features if entry.name else None) for sense, key in keys.items()}
        return {**entry.keys, **new}

    def _index(self, sense: str) -> _Index | None:
        revision = self.store.revision()
        if revision != self._indexed:
            self._indexes, self._indexed = _indexes(self.store.find(payloads=False)), revision
        return self._indexes.get(sense)


def _indexes(entries: list[Entry]) -> dict[str, _Index]:
    found = {}
    for sense in {sense for entry in entries for sense in entry.keys}:
        having = [entry for entry in entries if sense in entry.keys]
        vectors = np.stack([entry.keys[sense].vector for entry in having])
        found[sense] = _Index(np.array([e.id for e in having]), vectors, having[0].keys[sense].encoder)
    return found
