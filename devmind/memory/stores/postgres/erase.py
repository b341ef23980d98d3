"""Erases deleted entries from the files of PostgreSQL's tables, as far as a user's rights reach.

VACUUM FULL rewrites tables, their TOAST and indexes, and the old files are removed. It does two things silently, which
this code detects: it skips tables that belong to another role, and it keeps rows that an older snapshot still sees. The
write-ahead log holds everything written until the server drops its segments: if the role has the rights, this code ends
the segment and calls a checkpoint. The server's settings decide when old segments, archives, replicas and backups are
removed.
"""

from __future__ import annotations

import contextlib
import re
import time

import psycopg
from psycopg import errors

from devmind.errors import TracesError
from devmind.memory.stores.postgres.link import FIRST_PAUSE_S, LONGEST_PAUSE_S, PATIENCE_S, Connection
from devmind.memory.stores.postgres.rows import rows_of

TABLES = ("entries", "keys", "recalls")


def erase(connection: Connection, place: str, wait_s: float | None = None) -> None:
    """Rewrite the tables; outside a transaction.

    Args:
        wait_s: how long to wait for a lock, and for an older snapshot to end; None: `PATIENCE_S`. The server's own
            ANALYZE holds one for some milliseconds.

    Raises:
        TracesError: another process is reading, or the tables belong to another role; traces may be left then.
    """
    wait_s = PATIENCE_S if wait_s is None else wait_s
    give_up_s, pause_s = time.monotonic() + wait_s, FIRST_PAUSE_S
    while _rewrite(connection, place, wait_s):
        if time.monotonic() + pause_s > give_up_s:
            raise TracesError(_busy(place))
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    connection.execute("UPDATE devmind.state SET erase_due = false")
    _end_log(connection)


def _rewrite(connection: Connection, place: str, wait_s: float) -> int:
    """Rewrite the tables once; returns how many deleted rows stay in them, for an older snapshot that sees them."""
    kept: list[int] = []

    def listen(notice: psycopg.errors.Diagnostic) -> None:
        # "12 dead row versions cannot be removed yet", in the server's language.
        number = re.match(r"\D*(\d+)", notice.message_detail or "")
        if number and "devmind." in (notice.message_primary or ""):
            kept.append(int(number[1]))

    files = _files(connection)
    connection.execute("SELECT set_config('lock_timeout', %s, false)", (f"{wait_s:g}s",))
    connection.add_notice_handler(listen)
    try:
        for table in TABLES:
            connection.execute(f"VACUUM (FULL, VERBOSE) devmind.{table}".encode())
    except errors.LockNotAvailable as error:
        raise TracesError(_busy(place)) from error
    finally:
        connection.remove_notice_handler(listen)
        if not connection.closed:
            connection.execute("SELECT set_config('lock_timeout', %s, false)", (f"{PATIENCE_S:g}s",))
    if set(_files(connection)) & set(files):
        raise TracesError(
            f"It is deleted, but the tables of '{place}' belong to another role, and its traces stay in their files "
            "until that one erases them: be a member of that role (GRANT owner TO you), and delete once more."
        )
    return sum(kept)


def _busy(place: str) -> str:
    return (
        f"It is deleted, but another process is reading '{place}', and until that one ends traces may stay in its "
        "files; end it and delete once more to be sure."
    )


def _files(connection: Connection) -> list[int]:
    names = [f"devmind.{table}" for table in TABLES]
    return [row[0] for row in rows_of(connection, "SELECT pg_relation_filenode(n) FROM unnest(%s::text[]) n", (names,))]


def _end_log(connection: Connection) -> None:
    """Let the server drop what it can of its write-ahead log, if the role may ask for it."""
    for statement in (b"SELECT pg_switch_wal()", b"CHECKPOINT"):
        with contextlib.suppress(errors.InsufficientPrivilege):
            connection.execute(statement)
