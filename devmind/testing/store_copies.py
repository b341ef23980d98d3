"""The law of a store's changes: a copy that applies them always equals the store, whoever wrote to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from devmind.memory import Changes, Store
from devmind.memory.stores.rows import key_parts
from devmind.testing.laws import require

Row = tuple[float, float, str | None]


class Copy:
    """A copy of a store's facts and keys, kept up to date by its changes.

    Args:
        store: the store whose changes each `follow` applies.
    """

    def __init__(self, store: Store) -> None:
        self.store, self.revision = store, ""
        self.facts: dict[int, Row] = {}
        self.keys: dict[tuple[int, str], tuple[bytes, str, int]] = {}

    def follow(self, after: str) -> Changes:
        """Apply the changes since the last time and compare with the whole store."""
        changes = self.store.changes(self.revision or None)
        require(bool(self.revision) or changes.anew, "changes begin anew without a revision", "`anew` is False")
        self._apply(changes)
        law = f"a copy kept up to date by changes equals the store {after}"
        require(self.revision == self.store.revision(), law, f"{self.revision}, not {self.store.revision()}")
        wanted = {entry.id: entry for entry in self.store.find(payloads=False)}
        facts = {number: (e.time_s, e.importance, e.name) for number, e in wanted.items()}
        require(self.facts == facts, law, f"facts of {_unlike(self.facts, facts)}")
        keys = {}
        for number, entry in wanted.items():
            for sense, key in entry.keys.items():
                vector, checksum, *_ = key_parts(number, sense, key)
                keys[number, sense] = (vector, key.encoder, checksum)
        require(self.keys == keys, law, f"keys of {_unlike(self.keys, keys)}")
        sums = len(keys), sum(checksum for *_, checksum in keys.values())
        reported = changes.keys_total, changes.keys_sum
        require(
            reported == sums, "changes tell how many keys there are and their checksums' sum", f"{reported}, not {sums}"
        )
        return changes

    def _apply(self, changes: Changes) -> None:
        facts = changes.facts
        touched = {*facts.ids.tolist(), *changes.deleted.tolist()}
        if changes.anew:
            touched |= self.facts.keys()
        self.facts = {number: row for number, row in self.facts.items() if number not in touched}
        self.keys = {at: key for at, key in self.keys.items() if at[0] not in touched}
        for number, *row in zip(facts.ids.tolist(), facts.time_s, facts.importance, facts.names, strict=True):
            self.facts[number] = (float(row[0]), float(row[1]), row[2])
        for sense, rows in changes.keys.items():
            ascending = bool(np.all(np.diff(rows.ids) > 0))
            require(ascending, "keys come in ascending order of their entries", f"{rows.ids[:9]}")
            for number, vector, checksum in zip(rows.ids.tolist(), rows.vectors, rows.checksums.tolist(), strict=True):
                self.keys[number, sense] = (vector.astype("<f4").tobytes(), rows.encoder, checksum)
        self.revision = changes.revision


def _unlike(found: dict[Any, Any], wanted: dict[Any, Any]) -> list[Any]:
    return sorted(at for at in found.keys() | wanted.keys() if found.get(at) != wanted.get(at))[:9]


def check_changes(make: Callable[[], Store], write: Callable[[Store], None], persistent: bool) -> None:
    """Check the law over some writes.

    Args:
        make: opens the store, which may hold entries already.
        write: adds one entry.
        persistent: whether two openings see the same entries.
    """
    with make() as store:
        for _ in range(4):
            write(store)
        copy = Copy(store)
        copy.follow("at first")
        write(store)
        changes = copy.follow("after an add")
        few = not changes.anew and len(changes.facts) == 1
        require(few, "changes after an add are that entry alone", f"{len(changes.facts)}, anew: {changes.anew}")
        write(store)
        last = max(copy.facts) + 1
        store.delete([min(copy.facts)], erase=False)
        copy.follow("after an add and a delete together")
        store.delete([last, *list(copy.facts)[:1]])
        changes = copy.follow("after deleting the newest and the oldest")
        require(not changes.anew and not len(changes.facts), "what was deleted is no new entry", f"{changes.facts.ids}")
        entries = store.find(payloads=False)[:2]
        store.replace_keys({entry.id: dict(list(entry.keys.items())[:1]) for entry in entries})
        copy.follow("after keys were replaced by fewer")
        before = store.revision()
        store.mark_recalled({entries[0].id: 1}, 5.0)
        require(store.revision() == before, "marking as recalled does not change the revision", store.revision())
        nothing = store.changes(before)
        quiet = not (nothing.anew or len(nothing.facts) or nothing.keys or len(nothing.deleted))
        require(quiet, "no changes since now", f"{nothing}")
        require(store.changes("of another store:3").anew, "a revision of another store begins anew", "`anew` is False")
        if persistent:
            with make() as second:
                write(second)
                copy.follow("after another opening added")
