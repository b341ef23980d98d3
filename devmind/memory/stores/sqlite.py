"""The embedded store: one SQLite database in a folder of its own, or in RAM.

Write-ahead logging with `synchronous=FULL`: what was acknowledged survives a kill and a power cut. Two processes may
write one store. Deleted content is overwritten (`secure_delete`), the log emptied and the file packed.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from devmind.errors import StoreError
from devmind.memory.entry import Entry, Filters, Key
from devmind.memory.payload import pack, unpack
from devmind.memory.stores.migrations import APPLICATION_ID, MIGRATIONS
from devmind.memory.stores.sql import array, blob, make_private, where, why

FILE = "memory.sqlite3"
BUSY_S = 10.0
"""How long a write waits for another process that is writing."""
RETRY_S = 0.01


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

    Raises:
        StoreError: the folder cannot be used, the file is no store or damaged, or it is of a newer version.
    """

    def __init__(self, folder: Path | None) -> None:
        self.place = "memory in RAM" if folder is None else str(folder / FILE)
        self._lock = threading.RLock()
        self._private = folder is None
        self._connection: sqlite3.Connection | None = None
        with self._explained():
            if folder is not None:
                make_private(folder / FILE)
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
            for entry, payload in zip(entries, packed, strict=True):
                cursor = database.execute(
                    "INSERT INTO entries (time_s, importance, name, payload) VALUES (?, ?, ?, ?)",
                    (entry.time_s, entry.importance, entry.name, payload),
                )
                ids.append(int(cursor.lastrowid or 0))
                self._put_keys(database, ids[-1], entry.keys)
            self._one_encoder(database, [entry.keys for entry in entries])
        return ids

    def find(self, filters: Filters = Filters(), payloads: bool = True) -> list[Entry]:  # noqa: B008 - it is frozen
        conditions, values = where(filters)
        return self._read(f"WHERE {conditions}", values, payloads)

    def get(self, ids: Iterable[int]) -> list[Entry]:
        ids = [int(number) for number in ids]
        found: dict[int, Entry] = {}
        for start in range(0, len(ids), 500):  # SQLite allows only so many parameters
            part = ids[start : start + 500]
            marks = ", ".join("?" * len(part))
            found |= {entry.id: entry for entry in self._read(f"WHERE id IN ({marks})", part, payloads=True)}
        return [found[number] for number in ids if number in found]

    def replace_keys(self, keys: Mapping[int, Mapping[str, Key]]) -> None:
        with self._writing() as database:
            for number, new in keys.items():
                database.execute("DELETE FROM keys WHERE entry = ?", (number,))
                self._put_keys(database, number, new)
            self._one_encoder(database, keys.values())

    def delete(self, ids: Iterable[int]) -> int:
        with self._writing() as database:
            gone = sum(database.execute("DELETE FROM entries WHERE id = ?", (int(number),)).rowcount for number in ids)
        self._erase()
        return gone

    def revision(self) -> Hashable:
        with self._open() as database:
            (others,) = database.execute("PRAGMA data_version").fetchone()
            return others, database.total_changes

    # -- inside ----------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Refuse what is not ours or newer before anything is changed; then bring the tables up to date."""
        with self._open() as database:
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

    def _put_keys(self, database: sqlite3.Connection, number: int | None, keys: Mapping[str, Key]) -> None:
        database.executemany(
            "INSERT INTO keys (entry, sense, encoder, vector, features) VALUES (?, ?, ?, ?, ?)",
            [(number, sense, key.encoder, blob(key.vector), blob(key.features)) for sense, key in keys.items()],
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

    def _read(self, condition: str, values: Sequence[object], payloads: bool) -> list[Entry]:
        with self._open() as database:
            database.execute("BEGIN")  # entries and keys of one moment
            try:
                rows = database.execute(
                    f"SELECT id, time_s, importance, name, {'payload' if payloads else 'NULL'} FROM entries "
                    f"{condition} ORDER BY id",
                    values,
                ).fetchall()
                keys: dict[int, dict[str, Key]] = {row[0]: {} for row in rows}
                for number, sense, encoder, vector, features in database.execute(
                    f"SELECT entry, sense, encoder, vector, features FROM keys WHERE entry IN "
                    f"(SELECT id FROM entries {condition})",
                    values,
                ):
                    keys[number][sense] = Key(array(vector), encoder, array(features) if features else None)
            finally:
                database.execute("COMMIT")
        return [
            Entry(time_s, importance, name, keys[number], unpack(payload) if payload else {}, number)
            for number, time_s, importance, name, payload in rows
        ]

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
