"""The state of a database: the owner and the version of its tables, and the number of its last change."""

from __future__ import annotations

import uuid

from devmind.errors import StoreError
from devmind.memory.stores.postgres.link import Connection
from devmind.memory.stores.postgres.migrations import MIGRATIONS, PROGRAM
from devmind.memory.stores.postgres.rows import rows_of

OLDEST_SERVER = 13
_LOCK = 0x6465766D696E64
"""Lock for making the tables; 'devmind'."""
_STANDING = """
    SELECT current_setting('server_encoding'), EXISTS (SELECT FROM pg_namespace WHERE nspname = 'devmind'), EXISTS (
        SELECT FROM pg_namespace AS n JOIN pg_class AS c ON relnamespace = n.oid JOIN pg_attribute ON attrelid = c.oid
        WHERE nspname = 'devmind' AND relname = 'state' AND attname = 'program'
    )
"""
"""Reads the tables themselves: functions like to_regclass answer from a cache that does not see tables just made."""


def version_of(connection: Connection, place: str) -> int:
    """How many migration steps the tables have; 0 without tables.

    Raises:
        StoreError: the database cannot hold a store, belongs to another program, or is of a newer version.
    """
    server = connection.info.server_version // 10_000
    ((encoding, schema, marked),) = rows_of(connection, _STANDING)
    if server < OLDEST_SERVER or encoding != "UTF8":
        raise StoreError(
            f"'{place}' is PostgreSQL {server} with encoding {encoding}; devmind needs {OLDEST_SERVER} or newer and a "
            "database made with encoding UTF8."
        )
    if not schema:
        return 0
    state = rows_of(connection, "SELECT program, version FROM devmind.state") if marked else []
    if not state or state[0][0] != PROGRAM:
        raise StoreError(f"'{place}' has a schema devmind of another program; choose another database.")
    if state[0][1] > len(MIGRATIONS):
        raise StoreError(_newer(place, state[0][1]))
    return int(state[0][1])


def migrate(connection: Connection, place: str) -> None:
    """Append the missing steps, all of them or none, while other processes that open it at the same moment wait."""
    connection.execute("BEGIN")
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    version = version_of(connection, place)
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            connection.execute(statement.encode())
    if version == 0:
        made = "INSERT INTO devmind.state (program, version, identity) VALUES (%s, 0, %s)"
        connection.execute(made, (PROGRAM, uuid.uuid4().hex))
    connection.execute("UPDATE devmind.state SET version = %s", (len(MIGRATIONS),))
    connection.execute("COMMIT")


def next_change(connection: Connection, place: str, entries: int = 0) -> tuple[int, int]:
    """Number of the change that is being written, and the last number for so many new entries.

    Writers wait for each other here until the end of their transaction. So numbers grow in the order of commits, and a
    process that has seen one has missed none before it. A program older than the tables writes nothing.
    """
    row = connection.execute(
        "UPDATE devmind.state SET changed = changed + 1, last_entry = last_entry + %s WHERE version = %s "
        "RETURNING changed, last_entry",
        (entries, len(MIGRATIONS)),
    ).fetchone()
    if row is None:
        raise StoreError(_newer(place, rows_of(connection, "SELECT version FROM devmind.state")[0][0]))
    connection.execute("SELECT pg_notify('devmind', %s)", (str(row[0]),))
    return int(row[0]), int(row[1])


def _newer(place: str, version: int) -> str:
    return f"'{place}' is of version {version} and this devmind reads up to {len(MIGRATIONS)}: update devmind."
