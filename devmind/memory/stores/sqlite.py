"""The embedded store: one SQLite database in a folder of its own, or in RAM.

Write-ahead logging with `synchronous=FULL`: acknowledged writes survive a kill and a power cut. Two processes may write
one store. Deleted content is overwritten (`secure_delete`), the log is overwritten before it is emptied, and a file
that is not large is packed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence

from devmind.memory.entry import Entry, Filters, Key
from devmind.memory.payload import pack
from devmind.memory.stores.checksums import key_parts
from devmind.memory.stores.sqlite_changes import forget_deletions, read_changes, revision_of
from devmind.memory.stores.sqlite_check import faults, mended
from devmind.memory.stores.sqlite_file import FILE, SqliteFile
from devmind.memory.stores.sqlite_rows import add_entry, mixed, read_entries, read_facts
from devmind.memory.stores.sqlite_search import where
from devmind.memory.tables import Changes, Facts, Sizes

__all__ = ["FILE", "SqliteStore"]

_PARAMETERS = 500
"""Numbers in one statement; SQLite limits them."""


def _parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    return (ids[start : start + _PARAMETERS] for start in range(0, len(ids), _PARAMETERS))


def _marks(part: Sequence[int]) -> str:
    return ", ".join("?" * len(part))


class SqliteStore(SqliteFile):
    """See `Store`. Blobs of keys are little-endian float32.

    Args:
        folder: holds the database; made with rights 0700. None: nothing is written to any disk.
        mend: continue with the whole part of a damaged write-ahead log, which is otherwise refused.

    Raises:
        StoreError: the folder cannot be used, the file is no store or damaged, or it is of a newer version.
    """

    def add(self, entries: Sequence[Entry]) -> list[int]:
        packed = [pack(entry.senses) for entry in entries]
        ids: list[int] = []
        with self._writing() as database:
            change = self._next_change(database)
            for entry, payload in zip(entries, packed, strict=True):
                number = add_entry(database, entry, payload, change)
                self._put_keys(database, number, entry.keys)
                ids.append(number)
            self._one_encoder(database, [entry.keys for entry in entries])
        return ids

    def find(self, filters: Filters = Filters(), payloads: bool = True) -> list[Entry]:  # noqa: B008 - it is frozen
        with self._reading() as database:
            return read_entries(database, *where(database, filters), payloads)

    def get(self, ids: Iterable[int]) -> list[Entry]:
        ids = [int(number) for number in ids]
        found: dict[int, Entry] = {}
        with self._reading() as database:
            for part in _parts(ids):
                entries = read_entries(database, f"WHERE id IN ({_marks(part)})", part, payloads=True)
                found |= {entry.id: entry for entry in entries}
        return [found[number] for number in ids if number in found]

    def replace_keys(self, keys: Mapping[int, Mapping[str, Key]]) -> None:
        with self._writing() as database:
            change, existing = self._next_change(database), []
            for given, new in keys.items():
                number = int(given)
                if database.execute("UPDATE entries SET changed = ? WHERE id = ?", (change, number)).rowcount:
                    database.execute("DELETE FROM keys WHERE entry = ?", (number,))
                    self._put_keys(database, number, new)
                    existing.append(new)
            self._one_encoder(database, existing)

    def mark_recalled(self, times: Mapping[int, int], at_s: float) -> None:
        if self.read_only:  # a reader's recalls are not counted, and that is no reason to refuse them
            return
        rows = [(int(count), float(at_s), int(number)) for number, count in times.items()]
        with self._writing() as database:
            database.executemany("UPDATE entries SET recalled = recalled + ?, recalled_s = ? WHERE id = ?", rows)

    def delete(self, ids: Iterable[int], erase: bool = True) -> int:
        deleted = 0
        with self._writing() as database:
            change = self._next_change(database)
            for number in map(int, ids):
                if database.execute("DELETE FROM entries WHERE id = ?", (number,)).rowcount:
                    database.execute("INSERT OR REPLACE INTO deletions VALUES (?, ?)", (number, change))
                    deleted += 1
            forget_deletions(database)
        if erase:
            self._erase()
        return deleted

    def revision(self) -> str:
        with self._open() as database:
            return revision_of(database)

    def changes(self, since: str | None = None) -> Changes:
        with self._reading() as database:
            return read_changes(database, since)

    def facts(self, filters: Filters = Filters()) -> Facts:  # noqa: B008 - it is frozen
        with self._reading() as database:
            return read_facts(database, *where(database, filters))

    def sizes(self) -> Sizes:
        with self._open() as database:
            return Sizes(*database.execute("SELECT entries, payload_bytes, key_bytes FROM state").fetchone())

    def check(self, mend: bool = False) -> list[str]:
        if not mend:
            with self._reading() as database:
                return [*filter(None, [self.without_log]), *(fault.sentence for fault in faults(database))]
        with self._writing() as database:
            mended_faults = mended(database, self._next_change(database))
        if mended_faults:
            self._erase()
        return mended_faults

    def _next_change(self, database: sqlite3.Connection) -> int:
        """The number of the change that is being written. Writers wait for each other, so it grows in their order."""
        database.execute("UPDATE state SET changed = changed + 1")
        return int(database.execute("SELECT changed FROM state").fetchone()[0])

    def _put_keys(self, database: sqlite3.Connection, number: int, keys: Mapping[str, Key]) -> None:
        database.executemany(
            "INSERT INTO keys (entry, sense, encoder, vector, checksum, features, features_checksum) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(number, sense, key.encoder, *key_parts(number, sense, key)) for sense, key in keys.items()],
        )

    def _one_encoder(self, database: sqlite3.Connection, written: Iterable[Mapping[str, Key]]) -> None:
        """Raise StoreError (which rolls back) when the keys just written are not of their sense's one encoder."""
        for sense, encoder in {(sense, key.encoder) for keys in written for sense, key in keys.items()}:
            # Two comparisons and not <>, which cannot use an index.
            for other in ("<", ">"):
                found = f"SELECT 1 FROM keys WHERE sense = ? AND encoder {other} ? LIMIT 1"
                if database.execute(found, (sense, encoder)).fetchone():
                    raise mixed(f"'{sense}'")
