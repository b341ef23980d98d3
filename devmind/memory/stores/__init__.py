"""Stores of memory. A store is a plugin of the group `devmind.stores`; `devmind.testing.check_store` checks its
contract.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol, Self

from devmind import plugins
from devmind.errors import StoreError
from devmind.memory.entry import Entry, Filters, Key
from devmind.memory.tables import Changes, Facts, Sizes


class Store(Protocol):
    """Entries on a disk (or in RAM); every function may be called from any thread.

    All raise StoreError with a sentence when the store cannot be read or written, or when the requested data is damaged
    (entries, keys and features carry checksums: `stores.rows`). All keys of one sense are of one encoder: a write
    that would mix two is refused and changes nothing.
    """

    def add(self, entries: Sequence[Entry]) -> list[int]:
        """Store entries, all or none, and return their numbers. When it returns, killing the process loses none."""
        ...

    def find(self, filters: Filters = ..., payloads: bool = True) -> list[Entry]:
        """Entries that pass, the oldest number first; without `payloads` their senses are left empty."""
        ...

    def get(self, ids: Iterable[int]) -> list[Entry]:
        """The entries of these numbers, in this order; missing ones are left out."""
        ...

    def replace_keys(self, keys: Mapping[int, Mapping[str, Key]]) -> None:
        """Replace all keys of entries by new ones, in one step: for all entries or none.

        Missing numbers are skipped.
        """
        ...

    def mark_recalled(self, times: Mapping[int, int], at_s: float) -> None:
        """Count so many more recalls by entry, the last one at `at_s`; deleted entries are skipped.

        It does not change the revision, and a kill may lose it.
        """
        ...

    def delete(self, ids: Iterable[int], erase: bool = True) -> int:
        """Delete entries; returns how many there were.

        With `erase` nothing of them, nor of entries deleted before, stays in the store's files, which takes as long as
        writing the whole store; without it, they are only never found again.
        """
        ...

    def revision(self) -> str:
        """Changes whenever any process has changed entries or keys: caches must then be updated."""
        ...

    def changes(self, since: str | None = None) -> Changes:
        """Additions, changes and deletions since a revision; everything for None or an unknown revision."""
        ...

    def facts(self, filters: Filters = ...) -> Facts:
        """Facts of entries that pass: what is known without keys and payloads."""
        ...

    def sizes(self) -> Sizes:
        """The store's size; quick at any size."""
        ...

    def check(self, mend: bool = False) -> list[str]:
        """Read everything and give a sentence for each fault; [] when all is well.

        With `mend`, derived data is rebuilt, and other damaged data is deleted; a sentence says so.
        """
        ...

    def close(self) -> None:
        """Close the files. Closing twice does no harm."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


def watching(store: Store, changed: Callable[[], None]) -> AbstractContextManager[object]:
    """Inside it, `changed` is called from a thread soon after each write of any process, by a store that gets
    notifications (PostgreSQL). Other stores call nothing: polling `revision` finds writes with every store.
    """
    watch = getattr(store, "watch", None)
    return watch(changed) if watch else nullcontext()


def open_store(place: Path | str | None, kind: str | None = None, mend: bool = False) -> Store:
    """The store at `place`, made if it does not exist.

    Args:
        place: a folder; a URL, whose scheme names the kind of store (postgresql://user@host:port/database); None keeps
            everything in RAM, and nothing reaches a disk.
        kind: which plugin of the group `devmind.stores`; by default the URL's scheme, sqlite for folders and RAM.
        mend: open a damaged store as far as it is whole, for `Store.check` to mend.

    Raises:
        PluginError: no such kind of store.
        StoreError: it cannot be opened, or is of a newer version.
    """
    scheme = scheme_of(place)
    if scheme and (kind or scheme) == "sqlite":
        raise StoreError(f"A memory of kind sqlite lies in a folder; got the URL '{place}': give a path.")
    found = place if scheme or place is None else Path(place)
    return plugins.load("stores", kind or scheme or "sqlite")(found, mend=mend)


def folder_of(place: Path | str) -> Path | None:
    """The folder of a place; None for a URL."""
    return None if scheme_of(place) else Path(place)


def scheme_of(place: Path | str | None) -> str | None:
    """The part before :// of a URL; None for a folder."""
    found = re.match(r"([a-z][a-z0-9+.-]*)://", place) if isinstance(place, str) else None
    return found[1] if found else None
