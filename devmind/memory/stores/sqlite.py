"""The embedded store: one SQLite database in a folder of its own, or in RAM.

Write-ahead logging with `synchronous=FULL`: acknowledged writes survive a kill and a power cut. Two processes may write
one store. Deleted content is overwritten (`secure_delete`), the log is overwritten before it is emptied, and a file
that is not large is packed. The file is opened so that it survives kills, and updated to today's tables.
"""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import threading
import time
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np

from devmind.errors import StoreError, TracesError
from devmind.memory.entry import Entry, Filters, Key, searchable
from devmind.memory.payload import pack, unpack
from devmind.memory.stores.migrations import APPLICATION_ID, MIGRATIONS, SEARCHED
from devmind.memory.stores.rows import (
    KEPT_DELETIONS,
    Fault,
    as_entry,
    as_facts,
    as_pointer,
    compare_count,
    condition,
    facts_checksum,
    features_checksum,
    key_checksum,
    key_parts,
    keys_of,
    mixed_keys_error,
    payload_checksum,
    plain,
    read_key,
    read_keys,
    search_checksum,
)
from devmind.memory.stores.sqlite_files import (
    cut_off,
    damaged_log,
    empty_log,
    let_go,
    make_private,
    pack_overwritten,
    size_of,
    writing,
)
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
COLUMNS = (
    "id, time_s, importance, name, session, tick, session_identity, span, recalled, recalled_s, checksum, "
    "payload_checksum"
)
ALL = "WHERE TRUE"


def _parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    return (ids[start : start + _PARAMETERS] for start in range(0, len(ids), _PARAMETERS))


def _placeholders(part: Sequence[int]) -> str:
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
                entries = read_entries(database, f"WHERE id IN ({_placeholders(part)})", part, payloads=True)
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
            mended_faults = mend_entries(database, self._next_change(database))
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
                    raise mixed_keys_error(f"'{sense}'")

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


# -- rows --------------------------------------------------------------------------------------------------------------


def read_entries(database: sqlite3.Connection, condition: str, values: Sequence[object], payloads: bool) -> list[Entry]:
    """Entries that pass a condition (a WHERE clause), the oldest number first.

    Raises:
        StoreError: one is damaged.
    """
    statement = f"SELECT {COLUMNS}, {'payload' if payloads else 'NULL'} FROM entries {condition} ORDER BY id"
    rows = database.execute(statement, values).fetchall()
    if condition == ALL:
        count_all(database, "entries", len(rows))
    keys: dict[int, dict[str, Key]] = {row[0]: {} for row in rows}
    for row in database.execute(
        "SELECT entry, sense, encoder, vector, checksum, features, features_checksum FROM keys WHERE entry IN "
        f"(SELECT id FROM entries {condition})",
        values,
    ):
        keys_of(keys, row[0])[row[1]] = read_key(row)
    if condition == ALL:
        count_all(database, "keys", sum(map(len, keys.values())))
    return [as_entry(row, keys[row[0]]) for row in rows]


def add_entry(database: sqlite3.Connection, entry: Entry, payload: bytes, change: int) -> int:
    """Write an entry without its keys as part of a change; returns its number. Inside a transaction."""
    entry = plain(entry)
    pointer = entry.pointer
    cursor = database.execute(
        "INSERT INTO entries (time_s, importance, name, payload, session, tick, session_identity, span, "
        "recalled, recalled_s, changed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            entry.time_s, entry.importance, entry.name, payload, pointer and pointer.session,
            pointer and pointer.tick, pointer and pointer.identity, pointer.span if pointer else 0, entry.recalled,
            entry.recalled_s, change,
        ),
    )  # fmt: skip
    number = int(cursor.lastrowid or 0)
    own = facts_checksum(number, entry.time_s, entry.importance, entry.name, pointer)
    sums = own, payload_checksum(own, payload), number
    database.execute("UPDATE entries SET checksum = ?, payload_checksum = ? WHERE id = ?", sums)
    put_text(database, number, entry)
    return number


def count_all(database: sqlite3.Connection, what: str, found: int) -> None:
    """StoreError unless so many 'entries' or 'keys' were written: a damaged page may hide others."""
    compare_count(what, found, database.execute(f"SELECT {what} FROM state").fetchone()[0])


def read_facts(database: sqlite3.Connection, condition: str, values: Sequence[object]) -> Facts:
    """Facts of the entries that pass a condition; StoreError when one is damaged."""
    rows = database.execute(
        "SELECT id, time_s, importance, name, recalled, recalled_s, length(payload), changed, session, tick, "
        f"session_identity, span, checksum FROM entries {condition} ORDER BY id",
        values,
    ).fetchall()
    if condition == ALL:
        count_all(database, "entries", len(rows))
    return as_facts(rows)


# -- changes since a revision ------------------------------------------------------------------------------------------
# Every write that changes entries or keys gets the next number, which its rows keep in `changed`. Numbers of deleted
# entries are kept with the change that deleted them; beyond a limit, the oldest are dropped.


def revision_of(database: sqlite3.Connection) -> str:
    """`identity:number`. A copy of the store that was changed separately gives the same: see `Changes.keys_sum`."""
    identity, changed = database.execute("SELECT identity, changed FROM state").fetchone()
    return f"{identity}:{changed}"


def read_changes(database: sqlite3.Connection, since: str | None) -> Changes:
    """See `Store.changes`; inside a transaction."""
    row = database.execute("SELECT identity, changed, deletions_since, keys, keys_sum FROM state").fetchone()
    identity, changed, deletions_since, keys_total, keys_sum = row
    after = _number(since, identity)
    anew = after is None or not deletions_since <= after <= changed
    condition, values = (ALL, ()) if anew else ("WHERE changed > ?", (after,))
    gone = [] if anew else database.execute("SELECT entry FROM deletions WHERE changed > ? ORDER BY entry", values)
    rows = database.execute(
        "SELECT entry, sense, encoder, vector, checksum FROM keys "
        + ("" if anew else "WHERE entry IN (SELECT id FROM entries WHERE changed > ?) ")
        + "ORDER BY entry",
        values,
    )
    return Changes(
        f"{identity}:{changed}",
        anew,
        read_facts(database, condition, values),
        read_keys(rows),
        np.array([number for (number,) in gone], np.int64),
        keys_total,
        keys_sum,
    )


def forget_deletions(database: sqlite3.Connection) -> None:
    """Keep only the newest numbers of deleted entries; a process that asks for older ones has to rebuild its copy."""
    (count,) = database.execute("SELECT count(*) FROM deletions").fetchone()
    if count <= KEPT_DELETIONS:
        return
    (oldest,) = database.execute(
        "SELECT changed FROM deletions ORDER BY changed DESC LIMIT 1 OFFSET ?", (KEPT_DELETIONS // 2,)
    ).fetchone()
    database.execute("DELETE FROM deletions WHERE changed <= ?", (oldest,))
    database.execute("UPDATE state SET deletions_since = ?", (oldest,))


def _number(revision: str | None, identity: str) -> int | None:
    of, _, number = (revision or "").rpartition(":")
    return int(number) if of == identity and number.isdecimal() else None


# -- search: a small table of names and texts, checked before use ----------------------------------------------------
# One flipped bit in a text or in an index would silently hide an entry. So a search by name or by words reads all
# names or texts of this table, which has no payloads, and no index. They are kept as bytes (UTF-8): checksums cover
# these, and SQLite compares bytes as they are.

_GIVEN = "json_each(?)"
"""A list of numbers as one value, however many they are."""
_SUM = """
    UPDATE searched SET name_checksum = CASE WHEN name IS NULL THEN 0 ELSE devmind_search_checksum(name, entry) END,
        text_checksum = devmind_search_checksum(text, entry)
"""


def where(database: sqlite3.Connection, filters: Filters) -> tuple[str, list[object]]:
    """Filters as a WHERE clause of `entries` and its values; inside a transaction.

    Raises:
        StoreError: the search needs names or texts, and their table is damaged.
    """
    others, more = condition(replace(filters, name=None, named=None, words=None, says=None), "?", "instr")
    names, texts, values = _searched(filters)
    if not names + texts:
        return f"WHERE {others}", more
    for column, used in (("name", names), ("text", texts)):
        if used:
            _compare_searched(database, column)
    found = database.execute(f"SELECT entry FROM searched WHERE {' AND '.join(names + texts)}", values).fetchall()
    ids = json.dumps([number for (number,) in found])
    lost = f"SELECT value FROM {_GIVEN} LEFT JOIN entries ON entries.id = value WHERE entries.id IS NULL LIMIT 1"
    if row := database.execute(lost, (ids,)).fetchone():
        raise _unsearchable(f"entry {row[0]} is not there any more")
    return f"WHERE id IN (SELECT value FROM {_GIVEN}) AND {others}", [ids, *more]


def put_text(database: sqlite3.Connection, number: int, entry: Entry) -> None:
    """Keep the name and text by which an entry is found."""
    name, text = None if entry.name is None else entry.name.encode(), entry.text.encode()
    sums = 0 if name is None else search_checksum(name, number), search_checksum(text, number)
    database.execute("INSERT INTO searched VALUES (?, ?, ?, ?, ?)", (number, name, text, *sums))


def empty_searched(database: sqlite3.Connection) -> None:
    """Empty the table, whatever was in it: `fill_searched` derives it."""
    database.execute("DROP TABLE searched")
    for statement in SEARCHED:
        database.execute(statement)


def fill_searched(database: sqlite3.Connection) -> None:
    """Derive the empty table from the entries; the store's totals are not updated."""
    database.execute(
        "INSERT INTO searched SELECT id, CAST(name AS BLOB), CAST(devmind_text(name, payload) AS BLOB), 0, 0 "
        "FROM entries"
    )
    database.execute(_SUM)


def unfound(database: sqlite3.Connection) -> list[int]:
    """Numbers of entries that are not found by their content, or found and missing."""
    statement = """
        SELECT entry FROM searched WHERE entry NOT IN (SELECT id FROM entries)
            OR name IS NOT NULL AND devmind_search_checksum(name, entry) IS NOT name_checksum
            OR devmind_search_checksum(text, entry) IS NOT text_checksum
        UNION SELECT id FROM entries LEFT JOIN searched ON entry = id
            WHERE searched.name IS NOT CAST(entries.name AS BLOB)
            OR searched.text IS NOT CAST(devmind_text(entries.name, payload) AS BLOB)
        ORDER BY 1
    """
    return [number for (number,) in database.execute(statement).fetchall()]


def _searched(filters: Filters) -> tuple[list[str], list[str], list[object]]:
    """Conditions on names and on texts, and the values of both."""
    names, texts, values = list[str](), list[str](), list[object]()
    if filters.name is not None:
        names.append("name = ?")
        values.append(filters.name.encode())
    if filters.named is not None:
        names.append(f"name IS {'NOT ' if filters.named else ''}NULL")
    if filters.words is not None:
        texts.append("instr(text, ?) > 0")
        values.append(searchable(filters.words).encode())
    if filters.says is not None:
        texts.append(f"length(text) {'>' if filters.says else '='} 0")
    return names, texts, values


def _compare_searched(database: sqlite3.Connection, column: str) -> None:
    """StoreError unless all names or texts are there and as they were written."""
    statement = f"""
        SELECT (SELECT count(*) FROM searched), coalesce(sum({column}_checksum), 0),
            max(CASE WHEN devmind_search_checksum({column}, entry) IS NOT {column}_checksum THEN entry END)
        FROM searched WHERE {column} IS NOT NULL
    """
    try:
        count, total, wrong = database.execute(statement).fetchone()
    except sqlite3.OperationalError as error:
        if "user-defined function" not in str(error):
            raise
        raise _unsearchable(f"a {column} that entries are found by is no longer valid") from error
    if wrong is not None:
        raise _unsearchable(f"the {column} that entry {wrong} is found by has changed")
    wanted = database.execute(f"SELECT entries, {column}s_sum FROM state").fetchone()
    if (count, total) != wanted:
        raise _unsearchable(f"the {column}s that entries are found by are incomplete")


def _unsearchable(what: str) -> StoreError:
    return StoreError(
        f"The memory is damaged: {what}, so a search could miss entries. 'devmind memory check --mend' rebuilds it."
    )


# -- a check of the whole store: what is damaged, and what can be mended ----------------------------------------------

MAX_FAULTS = 20
_TOTALS = """
    SELECT (SELECT count(*) FROM entries), (SELECT coalesce(sum(length(payload)), 0) FROM entries),
        (SELECT count(*) FROM keys),
        (SELECT coalesce(sum(length(vector) + coalesce(length(features), 0)), 0) FROM keys),
        (SELECT coalesce(sum(checksum), 0) FROM keys),
        (SELECT coalesce(sum(name_checksum), 0) FROM searched), (SELECT coalesce(sum(text_checksum), 0) FROM searched)
"""
_COUNTED = "entries, payload_bytes, keys, key_bytes, keys_sum, names_sum, texts_sum"


def faults(database: sqlite3.Connection) -> list[Fault]:
    """All faults. A file too damaged to be read at all is a fault as well."""
    try:
        kinds = (_page_faults, _entry_faults, _lost_key_faults, _total_faults)
        return [fault for find in kinds for fault in find(database)]
    except sqlite3.DatabaseError as error:
        return [Fault(f"The database cannot be read through ({error}); take a copy of it from a backup.")]


def mend_entries(database: sqlite3.Connection, change: int) -> list[str]:
    """Delete damaged entries and rebuild derived data, inside a transaction; a sentence for each repair.

    Raises:
        StoreError: pages are damaged in a way that only a backup mends.
    """
    found = faults(database)
    if not found:
        return []
    empty_searched(database)  # first: deleting an entry would read it
    for number in sorted({fault.entry for fault in found if fault.entry is not None}):
        database.execute("DELETE FROM keys WHERE entry = ?", (number,))
        database.execute("DELETE FROM entries WHERE id = ?", (number,))
        database.execute("INSERT OR REPLACE INTO deletions VALUES (?, ?)", (number, change))
    try:
        database.execute("REINDEX")
        fill_searched(database)
        totals = database.execute(_TOTALS).fetchone()
    except sqlite3.DatabaseError as error:
        raise StoreError(f"The memory cannot be mended ({error}); take a copy of it from a backup.") from error
    database.execute(f"UPDATE state SET ({_COUNTED}) = (?, ?, ?, ?, ?, ?, ?)", totals)
    left = faults(database)
    if left:
        raise StoreError(f"The memory cannot be mended: {left[0].sentence} Take a copy of it from a backup.")
    return [
        f"{fault.sentence} {'It was deleted.' if fault.entry is not None else 'It was rebuilt.'}" for fault in found
    ]


def _page_faults(database: sqlite3.Connection) -> Iterator[Fault]:
    for (text,) in database.execute(f"PRAGMA integrity_check({MAX_FAULTS})").fetchall():
        if text != "ok":
            yield Fault(f"The database's pages do not fit together: {text}.")


def _entry_faults(database: sqlite3.Connection) -> Iterator[Fault]:
    """Entries and keys that differ from what was written."""
    for (number,) in database.execute("SELECT id FROM entries ORDER BY id").fetchall():
        try:
            read_entries(database, "WHERE id = ?", (number,), payloads=True)
        except StoreError as error:
            yield Fault(str(error).split(". '")[0] + ".", number)
    for number in unfound(database):
        yield Fault(f"What entry {number} is found by in a search by words differs from its content.")


def _lost_key_faults(database: sqlite3.Connection) -> Iterator[Fault]:
    found = database.execute("SELECT * FROM keys WHERE entry NOT IN (SELECT id FROM entries)")
    for number in sorted({row[0] for row in found}):
        yield Fault(f"Keys of entry {number} are there, but the entry is missing.", number)


def _total_faults(database: sqlite3.Connection) -> Iterator[Fault]:
    kept = database.execute(f"SELECT {_COUNTED} FROM state").fetchall()
    counted = database.execute(_TOTALS).fetchone()
    if kept != [counted]:
        yield Fault(f"The store's totals say {kept}; the count is {counted}.")


# -- functions that its statements need and SQL lacks -----------------------------------------------------------------


def why(error: sqlite3.Error, waited_s: float) -> str:
    """SQLite's error, with what to do."""
    text = str(error)
    if "not a database" in text or "malformed" in text:
        return f"it is damaged or no database ({text}); take a copy of it from a backup, or choose another folder"
    if "locked" in text:
        return f"another process has been writing to it for {waited_s:g} s; end that one or wait"
    if "full" in text:
        return "the disk is full, and nothing was changed: free some space, then do it again"
    return text


def add_functions(database: sqlite3.Connection) -> None:
    """Register the functions on one connection."""
    for function in (
        devmind_text, devmind_facts_checksum, devmind_payload_checksum, devmind_key_checksum, devmind_features_checksum,
    ):  # fmt: skip
        arguments = function.__code__.co_argcount
        database.create_function(function.__name__, arguments, function, deterministic=True)
    # `search_checksum` without Python code, which would take longer than the rest of a search.
    database.create_function("devmind_search_checksum", 2, zlib.crc32, deterministic=True)


def devmind_text(name: str | None, payload: bytes) -> str:
    """The text for a search by words; for a damaged payload only the name."""
    try:
        senses = unpack(payload)
    except StoreError:
        senses = {}
    return Entry(0.0, 0.0, name, {}, senses).text


def devmind_facts_checksum(
    number: int,
    time_s: float,
    importance: float,
    name: str | None,
    session: str | None,
    tick: int | None,
    identity: str | None,
) -> int:
    """See `facts_checksum`."""
    return facts_checksum(number, time_s, importance, name, as_pointer(session, tick, identity))


def devmind_payload_checksum(facts_sum: int, payload: bytes) -> int:
    """See `payload_checksum`."""
    return payload_checksum(facts_sum, payload)


def devmind_key_checksum(entry: int, sense: str, encoder: str, vector: bytes) -> int:
    """See `key_checksum`."""
    return key_checksum(entry, sense, encoder, vector)


def devmind_features_checksum(key_sum: int, features: bytes | None) -> int:
    """See `features_checksum`."""
    return features_checksum(key_sum, features)
