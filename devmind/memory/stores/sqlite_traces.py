"""What SQLite leaves on a disk besides its rows: the write-ahead log, and the end of a packed file.

SQLite zeroes free pages (`secure_delete`), but truncates or deletes files as they are. Here the log is overwritten
before it is cut off, and a database is packed so that only zeros are cut off at its end. A process that opens the store
between any two steps, or after a power cut, finds it whole.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devmind.erasing import overwrite
from devmind.memory.stores.wal import OVERWRITTEN, drop_untold

_TRIES = 5


@contextmanager
def writing(database: sqlite3.Connection, log: Path | None) -> Iterator[sqlite3.Connection]:
    """A transaction that writes; rolled back when something is raised inside.

    Every write begins here, so that no writer overwrites what a killed one has left at the end of the log.

    Args:
        database: the connection.
        log: of its file; None for a database in RAM.

    Raises:
        sqlite3.Error: it cannot be begun or written.
        OSError: the disk refuses.
    """
    database.execute("BEGIN IMMEDIATE")
    try:
        if log is not None:
            drop_untold(log)
        yield database
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # a full disk has already rolled back
            database.execute("ROLLBACK")
        raise


def empty_log(database: sqlite3.Connection, log: Path) -> bool:
    """Copy the log into the database, overwrite it and cut it off; False while somebody reads or writes with it.

    Everything is in the database then, and nobody may write: readers use the database alone. A checkpoint must be the
    last event, or a reader could have begun on a newer part of the log; `data_version` tells.
    """
    for _ in range(_TRIES):
        (version,) = database.execute("PRAGMA data_version").fetchone()
        busy, _, _ = database.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        if busy:
            return False
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            return False
        try:
            if database.execute("PRAGMA data_version").fetchone()[0] != version:
                continue
            _overwrite_log(log)
            return True
        finally:
            database.execute("ROLLBACK")
    return False


def _overwrite_log(log: Path) -> None:
    """The head first: SQLite ignores a log without a head, but would use the start of one without an end."""
    try:
        file = os.open(log, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        if os.fstat(file).st_size:
            overwrite(file, OVERWRITTEN)
            os.ftruncate(file, 0)
    finally:
        os.close(file)


def pack_overwritten(database: sqlite3.Connection, log: Path) -> bool:
    """Rewrite the database without gaps, with zeros over its old content; False while another process reads.

    A packed file is shorter, and its end would be cut off as it is. So a table of zeros first makes it longer, and
    packing puts the table last: the end of the file is then zeros, and the second packing cuts off nothing else.
    """
    _empty_filler(database, log)
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    (page,) = database.execute("PRAGMA page_size").fetchone()
    (held,) = database.execute("SELECT payload_bytes + key_bytes FROM state").fetchone()
    filler = max(0, pages - held // page) + 8  # so that the packed file is not shorter than this one
    with writing(database, log):
        database.execute("CREATE TABLE IF NOT EXISTS filler (zeros BLOB NOT NULL)")
        database.execute("INSERT INTO filler VALUES (zeroblob(?))", (filler * page,))
    try:
        database.execute("VACUUM")
        done = empty_log(database, log)
    finally:
        _empty_filler(database, log)
    if done:  # else the zeros are not in the file yet, and old content would be cut off
        database.execute("VACUUM")
        done = empty_log(database, log)
    return done


def _empty_filler(database: sqlite3.Connection, log: Path) -> None:
    """The table stays: without it all pages behind its first would move up, and the last one would be cut off."""
    if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'filler'").fetchone():
        with writing(database, log):
            database.execute("DELETE FROM filler")
