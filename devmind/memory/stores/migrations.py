"""The SQLite store's tables, as numbered steps. Steps are only ever appended: a store of any age gets what it lacks."""

from __future__ import annotations

APPLICATION_ID = 0x6465764D
"""'devM': marks the file as ours, so that another program's database is never touched."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE entries (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            time_s REAL NOT NULL,
            importance REAL NOT NULL,
            name TEXT,
            payload BLOB NOT NULL
        )
        """,
        """
        CREATE TABLE keys (
            entry INTEGER NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
            sense TEXT NOT NULL,
            encoder TEXT NOT NULL,
            vector BLOB NOT NULL,
            features BLOB,
            PRIMARY KEY (entry, sense)
        ) WITHOUT ROWID
        """,
        "CREATE INDEX entries_by_name ON entries (name) WHERE name IS NOT NULL",
        "CREATE INDEX keys_by_encoder ON keys (sense, encoder)",
    ),
)
