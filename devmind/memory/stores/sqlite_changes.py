"""Changes of the SQLite store since a revision.

Every write that changes entries or keys gets the next number, which its rows keep in `changed`. Numbers of deleted
entries are kept with the change that deleted them; beyond a limit, the oldest are dropped.
"""

from __future__ import annotations

import sqlite3

import numpy as np

from devmind.memory.stores.sqlite_rows import ALL, read_facts, read_keys
from devmind.memory.tables import Changes

KEPT_DELETIONS = 100_000


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
