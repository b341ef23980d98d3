"""Where memory is kept. A store is a plugin of the group `devmind.stores`; `devmind.testing.check_store` is its law."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, Self

from devmind import plugins
from devmind.memory.entry import Entry, Filters, Key


class Store(Protocol):
    """Entries on a disk (or in RAM); every function may be called from any thread.

    All raise StoreError with a sentence when the store cannot be read or written. Keys of one sense are all of one
    encoder: what would mix two is refused and changes nothing.
    """

    def add(self, entries: Sequence[Entry]) -> list[int]:
        """Store entries, all or none, and give their numbers. When it returns, killing the process loses none."""
        ...

    def find(self, filters: Filters = ..., payloads: bool = True) -> list[Entry]:
        """Entries that pass, the oldest number first; without `payloads` their senses are left empty."""
        ...

    def get(self, ids: Iterable[int]) -> list[Entry]:
        """The entries of these numbers, in this order; those that are not there are left out."""
        ...

    def replace_keys(self, keys: Mapping[int, Mapping[str, Key]]) -> None:
        """Give entries new keys instead of all their old ones, in one step: all of them or none."""
        ...

    def delete(self, ids: Iterable[int]) -> int:
        """Delete entries, so that nothing of them stays in the store's files; gives how many there were."""
        ...

    def revision(self) -> Hashable:
        """Changes whenever the content may have changed, by whatever process: caches are made anew then."""
        ...

    def close(self) -> None:
        """Let go of files. Closing twice does no harm."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


def open_store(folder: Path | str | None, kind: str = "sqlite") -> Store:
    """The store in `folder`, made if it is not there; None keeps all in RAM, and nothing reaches a disk.

    Raises:
        PluginError: no such kind of store.
        StoreError: it cannot be opened, or is of a newer version.
    """
    return plugins.load("stores", kind)(None if folder is None else Path(folder))
