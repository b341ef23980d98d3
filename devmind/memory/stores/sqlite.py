"""The embedded store: one SQLite database in a folder of its own, or in RAM.

Write-ahead logging with `synchronous=FULL`: what was acknowledged survives a kill and a power cut. Two processes may
write one store. Deleted content is overwritten (`secure_delete`), the log emptied and the file packed.
"""

from __future__ import annotations

import sqlite3
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from devmind.errors import StoreError
from devmind.memory.entry import Entry, Filters, Key
from devmind.memory.payload import pack
from devmind.memory.stores.checksums import key_parts
from devmind.memory.stores.migrations import APPLICATION_ID, MIGRATIONS
from devmind.memory.stores.sql import cut_off, make_private, where, why
from devmind.memory.stores.sqlite_changes import forget_deletions, read_changes, revision_of
from devmind.memory.stores.sqlite_check import faults, mended
from devmind.memory.stores.sqlite_functions import add_functions
from devmind.memory.stores.sqlite_rows import add_entry, read_entries, read_facts
from devmind.memory.stores.wal import damaged_log
from devmind.memory.tables import Changes, Facts, Sizes

FILE = "memory.sqlite3"
BUSY_S = 10.0
"""How long a write waits for another process that is writing."""
RETRY_S = 0.01
_PARAMETERS = 500
"""How many numbers a statement is given at once; SQLite allows only so many."""


def _parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    return (ids[start : start + _PARAMETERS] for start in range(0, len(ids), _PARAMETERS))


def _marks(part: Sequence[int]) -> str:
    return ", ".join("?" * len(part))


def _write_ahead(database: sqlite3.Connection) -> str:
    """Turn the write-ahead log on, and give the mode there is then.

    SQLite waits for others everywhere but here: of several that open a new file at once, some are told "locked".
    """
    give_up_s = time.monotonic() + BUSY_S
    while True:
        try:
            return str(database.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_s:
                raise
        time.sleep(RETRY_S)


class SqliteStore:
    """See `Store`. Blobs of keys are little-endian float32.

    Args:
        folder: holds the database; made with rights 0700. None: nothing is written to any disk.
        mend: go on with what is whole of a damaged write-ahead log, where it would be refused.

    Raises:
        StoreError: the folder cannot be used, the file is no store or damaged, or it is of a newer version.
    """

    def __init__(self, folder: Path | None, mend: bool = False) -> None:
        self.place = "memory in RAM" if folder is None else str(folder / FILE)
        self._lock = threading.RLock()
        self._private = folder is None
        self._connection: sqlite3.Connection | None = None
        with self._explained():
            if folder is not None:
                make_private(folder / FILE)
                self._check_files(folder, mend)
            # Transactions are begun by hand: the module's own would not cover the tables' making.
            self._connection = sqlite3.connect(
                ":memory:" if self._private else self.place, BUSY_S, isolation_level=None, check_same_thread=False
            )
        try:
            with self._explained():
                self._prepare()
        except StoreError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

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
        conditions, values = where(filters)
        with self._reading() as database:
            return read_entries(database, f"WHERE {conditions}", values, payloads)

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
            change, there = self._next_change(database), []
            for number, new in keys.items():
                if database.execute("UPDATE entries SET changed = ? WHERE id = ?", (change, number)).rowcount:
                    database.execute("DELETE FROM keys WHERE entry = ?", (number,))
                    self._put_keys(database, number, new)
                    there.append(new)
            self._one_encoder(database, there)

    def mark_recalled(self, times: Mapping[int, int], at_s: float) -> None:
        rows = [(count, at_s, number) for number, count in times.items()]
        with self._writing() as database:
            database.executemany("UPDATE entries SET recalled = recalled + ?, recalled_s = ? WHERE id = ?", rows)

    def delete(self, ids: Iterable[int], erase: bool = True) -> int:
        gone = 0
        with self._writing() as database:
            change = self._next_change(database)
            for number in map(int, ids):
                if database.execute("DELETE FROM entries WHERE id = ?", (number,)).rowcount:
                    database.execute("INSERT OR REPLACE INTO deletions VALUES (?, ?)", (number, change))
                    gone += 1
            forget_deletions(database)
        if erase:
            self._erase()
        return gone

    def revision(self) -> str:
        with self._open() as database:
            return revision_of(database)

    def changes(self, since: str | None = None) -> Changes:
        with self._reading() as database:
            return read_changes(database, since)

    def facts(self, filters: Filters = Filters()) -> Facts:  # noqa: B008 - it is frozen
        conditions, values = where(filters)
        with self._reading() as database:
            return read_facts(database, f"WHERE {conditions}", values)

    def sizes(self) -> Sizes:
        with self._open() as database:
            return Sizes(*database.execute("SELECT entries, payload_bytes, key_bytes FROM state").fetchone())

    def check(self, mend: bool = False) -> list[str]:
        if not mend:
            with self._reading() as database:
                return [fault.sentence for fault in faults(database)]
        with self._writing() as database:
            told = mended(database, self._next_change(database))
        if told:
            self._erase()
        return told

    # -- inside ----------------------------------------------------------------------------------------------------

    def _check_files(self, folder: Path, mend: bool) -> None:
        """Refuse a log that is damaged and a database that was cut off, before SQLite makes the best of it."""
        log = folder / f"{FILE}-wal"
        fault = "" if mend else damaged_log(log)
        if fault:
            raise StoreError(
                f"The log '{log}' is damaged: {fault}. What was written last may be lost; "
                "'devmind memory check --mend' goes on with what is whole."
            )
        if not log.exists() and (missing := cut_off(folder / FILE)):
            raise StoreError(
                f"'{self.place}' is cut off: {missing} bytes are missing; take a copy of it from a backup."
            )

    def _prepare(self) -> None:
        """Refuse what is not ours or newer before anything is changed; then bring the tables up to date."""
        with self._open() as database:
            add_functions(database)
            database.execute("PRAGMA temp_store = MEMORY")
            database.execute("PRAGMA secure_delete = ON")
            database.execute("PRAGMA foreign_keys = ON")
            database.execute("BEGIN")  # of one moment: another process may be making the tables just now
            try:
                self._check_version(database)
            finally:
                database.execute("COMMIT")
            if not self._private:
                mode = _write_ahead(database)
                if mode != "wal":
                    raise StoreError(
                        f"The file system of '{self.place}' allows no write-ahead log; keep memory on a local disk."
                    )
                database.execute("PRAGMA synchronous = FULL")
                self._settle(database)
        with self._writing() as database:
            for statements in MIGRATIONS[self._check_version(database) :]:
                for statement in statements:
                    database.execute(statement)
            database.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    def _settle(self, database: sqlite3.Connection) -> None:
        """Empty the log that a killed process has left: it may hold what that one had just deleted.

        When another process is at work it does not wait for it; that one empties the log.
        """
        database.execute("PRAGMA busy_timeout = 0")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        database.execute(f"PRAGMA busy_timeout = {int(1000 * BUSY_S)}")

    def _check_version(self, database: sqlite3.Connection) -> int:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        (application,) = database.execute("PRAGMA application_id").fetchone()
        (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != APPLICATION_ID and (tables or version or application):
            raise StoreError(f"'{self.place}' is a database of another program; choose another folder.")
        if version > len(MIGRATIONS):
            raise StoreError(
                f"'{self.place}' is of version {version} and this devmind reads up to {len(MIGRATIONS)}: "
                "update devmind."
            )
        return int(version)

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
        """Raise StoreError (which rolls back) when the keys just written are not of the one encoder of their sense."""
        for sense, encoder in {(sense, key.encoder) for keys in written for sense, key in keys.items()}:
            # Two comparisons and not <>, which no index answers.
            for other in ("<", ">"):
                found = f"SELECT 1 FROM keys WHERE sense = ? AND encoder {other} ? LIMIT 1"
                if database.execute(found, (sense, encoder)).fetchone():
                    raise StoreError(
                        f"Keys of '{sense}' from two encoders cannot be compared: after a change of weights, rebuild "
                        "all keys of the memory first."
                    )

    def _erase(self) -> None:
        """Leave nothing of deleted rows in the files: pages zeroed, the log emptied, the file packed."""
        with self._open() as database:
            busy = 0
            try:
                if not self._private:
                    busy |= database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
                database.execute("VACUUM")
                if not self._private:
                    busy |= database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
                busy = 1
            if busy:
                raise StoreError(
                    f"It is deleted, but another process is reading '{self.place}', and until that one ends traces may "
                    "stay in its files; end it and delete once more to be sure."
                )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._explained():
            if self._connection is None:
                raise StoreError(f"'{self.place}' is closed; open it again.")
            yield self._connection

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Everything that is read inside is of one moment."""
        with self._open() as database:
            database.execute("BEGIN")
            try:
                yield database
            except (TypeError, ValueError, AttributeError, struct.error) as error:  # a text where a number should be
                raise StoreError(
                    f"'{self.place}' holds what was never written ({error}); 'devmind memory check --mend' mends it."
                ) from error
            finally:
                database.execute("COMMIT")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """What SQLite and the system say, as a sentence."""
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"'{self.place}' cannot be used: {why(error, BUSY_S)}.") from error
        except OSError as error:
            raise StoreError(
                f"'{self.place}' cannot be used: {error.strerror or error}; choose another folder."
            ) from error
