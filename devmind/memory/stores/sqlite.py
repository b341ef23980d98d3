"""The embedded store: one SQLite database in a folder of its own, or in RAM.

Write-ahead logging with `synchronous=FULL`: acknowledged writes survive a kill and a power cut. Two processes may write
one store. Deleted content is overwritten (`secure_delete`), the log is overwritten before it is emptied, and a file
that is not large is packed. The file is opened so that it survives kills, and updated to today's tables.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from devmind.errors import StoreError, TracesError
from devmind.memory.entry import Entry, Filters, Key
from devmind.memory.payload import pack
from devmind.memory.stores.checksums import key_parts
from devmind.memory.stores.migrations import APPLICATION_ID, MIGRATIONS
from devmind.memory.stores.sql import add_functions, cut_off, make_private, size_of, why
from devmind.memory.stores.sqlite_changes import forget_deletions, read_changes, revision_of
from devmind.memory.stores.sqlite_check import faults, mended
from devmind.memory.stores.sqlite_rows import add_entry, mixed, read_entries, read_facts
from devmind.memory.stores.sqlite_search import where
from devmind.memory.stores.sqlite_traces import empty_log, pack_overwritten, writing
from devmind.memory.stores.wal import damaged_log, let_go
from devmind.memory.tables import Changes, Facts, Sizes

FILE = "memory.sqlite3"
BUSY_S = 10.0
"""How long a write waits for another process that is writing."""
RETRY_S = 0.01
MADE_WITHIN_S = 2.0
"""Another process that makes a new database has written to it within this time."""
SYNCHRONOUS = "FULL"
"""SQLite waits at each commit until the data are on the disk: a power cut loses nothing that was acknowledged."""
LOGGED_SINCE = 4
"""From this version on a file says whether a log belongs to it."""
PACKED_BYTES = 512 << 20
"""Larger files are not packed when something is forgotten."""
_PARAMETERS = 500
"""Numbers in one statement; SQLite limits them."""


def _parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    return (ids[start : start + _PARAMETERS] for start in range(0, len(ids), _PARAMETERS))


def _marks(part: Sequence[int]) -> str:
    return ", ".join("?" * len(part))


def _write_ahead(database: sqlite3.Connection) -> str:
    """Turn the write-ahead log on, and return the resulting mode.

    SQLite waits for others everywhere but here: of several that open a new file at once, some get the error "locked".
    """
    give_up_s = time.monotonic() + BUSY_S
    while True:
        try:
            return str(database.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_s:
                raise
        time.sleep(RETRY_S)


def _may_only_be_read(folder: Path) -> bool:
    """Whether a store is there in which this user may not write: SQLite makes files beside it for every change."""
    file = folder / FILE
    return file.exists() and not (os.access(file, os.W_OK) and os.access(folder, os.W_OK | os.X_OK))


class SqliteStore:
    """See `Store`; usable from any thread. Blobs of keys are little-endian float32.

    A database that the user may not write, or whose folder, is read only (`read_only`), and every write is refused.

    Args:
        folder: holds the database; made with rights 0700. None: nothing is written to any disk.
        mend: continue with the whole part of a damaged write-ahead log, which is otherwise refused.

    Raises:
        StoreError: the folder cannot be used, the file is no store or damaged, or it is of a newer version.
    """

    def __init__(self, folder: Path | None, mend: bool = False) -> None:
        self.place = "memory in RAM" if folder is None else str(folder / FILE)
        self._log = None if folder is None else folder / f"{FILE}-wal"
        self._lock = threading.RLock()
        self._private, self._misses_log, self.without_log = folder is None, False, ""
        self.read_only = folder is not None and _may_only_be_read(folder)
        self._connection: sqlite3.Connection | None = None
        with self._explained():
            if folder is not None:
                self._check_there(folder / FILE)
                self._check_files(folder, mend)
            self._connection = self._connect_to_read() if self.read_only else self._connect()
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
            database, self._connection = self._connection, None
            if database is None:
                return
            try:
                # Once more after a temporary fault: with the row left as it is, the next opening would miss a log.
                for _ in range(0 if self._private or self.read_only else 2):
                    # The last process to close lets SQLite delete the log, which overwrites nothing.
                    with suppress(sqlite3.Error, OSError, StoreError):
                        database.execute("PRAGMA busy_timeout = 0")
                        if not self.without_log:  # reported again until it is mended
                            with writing(database, self._log):
                                database.execute("UPDATE state SET logged = 0")
                        empty_log(database, Path(f"{self.place}-wal"))
                        break
            finally:
                database.close()
                let_go()

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

    # -- the file ------------------------------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        # Transactions are begun by hand: the module's own would not cover making the tables.
        place = ":memory:" if self._private else self.place
        return sqlite3.connect(place, BUSY_S, isolation_level=None, check_same_thread=False)

    def _connect_to_read(self) -> sqlite3.Connection:
        """A connection that writes nothing, not even beside the database.

        With a log (its owner has it open, or was killed) SQLite reads both, for which it needs the log's index, that it
        cannot make here. Without one nobody writes, and `immutable` lets SQLite do without any file beside.
        """
        file = Path(self.place).absolute()
        log, index = file.with_name(f"{FILE}-wal"), file.with_name(f"{FILE}-shm")
        if size_of(log) and not index.exists() and not os.access(file.parent, os.W_OK):
            raise StoreError(
                f"'{self.place}' may only be read by this user, and what was written last is in its log '{log.name}', "
                "which cannot be read without the right to write. Let its owner open it once, or copy both elsewhere."
            )
        self._is_closed = not log.exists() and not index.exists()
        self._read_at = file.stat().st_mtime_ns
        how = "immutable=1" if self._is_closed else "mode=ro"
        return sqlite3.connect(
            f"{file.as_uri()}?{how}", BUSY_S, isolation_level=None, check_same_thread=False, uri=True
        )

    def _read_anew(self, database: sqlite3.Connection) -> sqlite3.Connection:
        """`database`, or a new connection where its owner has opened or changed the file since."""
        is_open = Path(f"{self.place}-wal").exists()
        if not self._is_closed or (not is_open and Path(self.place).stat().st_mtime_ns == self._read_at):
            return database
        database.close()
        self._connection = self._connect_to_read()
        self._set_up(self._connection)
        return self._connection

    def _check_there(self, file: Path) -> None:
        """Make the file if it does not exist. Refuse an empty one: its data is lost, and SQLite would not report it."""
        log = file.with_name(f"{FILE}-wal")
        # Check the log first: another process that makes a store has written to the database before.
        if size_of(log) and not size_of(file):
            raise StoreError(
                f"'{file}' is missing or empty, and what its log '{log.name}' holds would be lost. Take both from a "
                "backup, or move the log elsewhere to begin anew."
            )
        give_up_s = time.monotonic() + MADE_WITHIN_S
        if not self.read_only and make_private(file):
            return
        while not size_of(file):
            if time.monotonic() > give_up_s:
                raise StoreError(
                    f"'{file}' is empty, and a memory never is: take a copy of it from a backup, or delete it to begin "
                    "anew."
                )
            time.sleep(RETRY_S)

    def _check_files(self, folder: Path, mend: bool) -> None:
        """Refuse a damaged log and a truncated database, before SQLite silently uses them."""
        log = folder / f"{FILE}-wal"
        fault = "" if mend else damaged_log(log)
        if fault:
            raise StoreError(
                f"The log '{log}' is damaged: {fault}. What was written last may be lost; "
                "'devmind memory check --mend' goes on with what is whole."
            )
        self._misses_log = not mend and not log.exists()
        if not log.exists() and (missing := cut_off(folder / FILE)):
            raise StoreError(
                f"'{self.place}' is cut off: {missing} bytes are missing; take a copy of it from a backup."
            )

    def _prepare(self) -> None:
        """Refuse tables of other programs or newer versions before any change; then update the tables."""
        with self._open() as database:
            self._set_up(database)
            database.execute("BEGIN")  # at one moment: another process may be making the tables now
            try:
                version = self._check_version(database)
                if version >= LOGGED_SINCE and self._misses_log:
                    self._check_log(database)
            finally:
                database.execute("COMMIT")
            if self.read_only:
                if version < len(MIGRATIONS):
                    raise StoreError(
                        f"'{self.place}' is of version {version} and has to be updated to {len(MIGRATIONS)}, but may "
                        "only be read by this user: let its owner open it once."
                    )
                return
            if not self._private:
                mode = _write_ahead(database)
                if mode != "wal":
                    raise StoreError(
                        f"The file system of '{self.place}' allows no write-ahead log; keep memory on a local disk."
                    )
                database.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
                self._settle(database)
        with self._writing() as database:
            for statements in MIGRATIONS[self._check_version(database) :]:
                for statement in statements:
                    database.execute(statement)
            database.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            database.execute("UPDATE state SET logged = 1")
        if not self._private:  # into the file itself, before anything else is written
            with self._open() as database:
                database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _set_up(self, database: sqlite3.Connection) -> None:
        add_functions(database)
        database.execute("PRAGMA temp_store = MEMORY")
        database.execute("PRAGMA secure_delete = ON")
        database.execute("PRAGMA foreign_keys = ON")

    def _check_log(self, database: sqlite3.Connection) -> None:
        """Report that a file was copied while open and came without its log, in place of "all is well".

        It is no error, because a whole file looks the same if the disk was full when it was closed.
        """
        is_logged = database.execute("SELECT logged FROM state").fetchone() == (1,)
        if is_logged and not size_of(Path(f"{self.place}-wal")):  # another process may have opened it just now
            self.without_log = (
                f"'{self.place}' was copied or moved without its log '{FILE}-wal', or that was deleted, or the disk "
                "was full when it was closed: what was written last may not be in it. Copy both, while nobody writes; "
                "'devmind memory check --mend' goes on without."
            )
            warnings.warn(self.without_log, stacklevel=2)

    def _settle(self, database: sqlite3.Connection) -> None:
        """Empty the log that a killed process has left: it may hold what that process had just deleted.

        It does not wait for another working process, which empties the log itself.
        """
        database.execute("PRAGMA busy_timeout = 0")
        empty_log(database, Path(f"{self.place}-wal"))
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

    def _erase(self) -> None:
        """Leave nothing of deleted rows in the files, nor on the disk below if it overwrites in place.

        Free pages are zeroed, the log is overwritten and emptied, the file packed, and its end zeroed before it is cut
        off. A large file is not packed, because SQLite's copy of it would be in RAM; its free pages are zeroed already.
        """
        with self._open() as database:
            log = Path(f"{self.place}-wal")
            try:
                done = self._private or empty_log(database, log)
                (pages,) = database.execute("PRAGMA page_count").fetchone()
                (page,) = database.execute("PRAGMA page_size").fetchone()
                if pages * page <= PACKED_BYTES:
                    if self._private:
                        database.execute("VACUUM")
                    else:
                        done = pack_overwritten(database, log) and done
            except (sqlite3.OperationalError, OSError) as error:
                if not isinstance(error, OSError) and "locked" in str(error):
                    done = False
                else:
                    reason = why(error, BUSY_S) if isinstance(error, sqlite3.Error) else error.strerror
                    raise TracesError(
                        f"It is deleted, but its traces in '{self.place}' could not all be overwritten ({reason}); "
                        "mend that and delete once more."
                    ) from error
            if not done:
                raise TracesError(
                    f"It is deleted, but another process is reading '{self.place}', and until that one ends traces may "
                    "stay in its files; end it and delete once more to be sure."
                )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._explained():
            if self._connection is None:
                raise StoreError(f"'{self.place}' is closed; open it again.")
            yield self._read_anew(self._connection) if self.read_only else self._connection

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A transaction in which all reads see one moment."""
        with self._open() as database:
            database.execute("BEGIN")
            try:
                yield database
            except (TypeError, ValueError, AttributeError, struct.error) as error:  # a text in place of a number
                raise StoreError(
                    f"'{self.place}' holds what was never written ({error}); 'devmind memory check --mend' mends it."
                ) from error
            finally:
                database.execute("COMMIT")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        if self.read_only:
            raise StoreError(
                f"'{self.place}' may only be read by this user, so nothing in it can be changed: choose another place "
                "(--memory DIR), or ask its owner for the right to write."
            )
        with self._open() as database, writing(database, self._log):
            yield database

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """The error of SQLite or the system, as a sentence."""
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"'{self.place}' cannot be used: {why(error, BUSY_S)}.") from error
        except OSError as error:
            raise StoreError(
                f"'{self.place}' cannot be used: {error.strerror or error}; choose another folder."
            ) from error
        except UnicodeEncodeError as error:
            raise StoreError(f"A name or path that is no text cannot be kept ({error.reason}).") from error
