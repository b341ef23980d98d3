"""The SQLite store's tables, as numbered steps. Steps are only ever appended: a store of any age gets the steps it
lacks.
"""

from __future__ import annotations

APPLICATION_ID = 0x6465764D
"""'devM': marks the file as ours, so that another program's database is never touched."""

SEARCHED = (
    """
    CREATE TABLE searched (
        entry INTEGER PRIMARY KEY REFERENCES entries (id) ON DELETE CASCADE,
        name BLOB,
        text BLOB NOT NULL,
        name_checksum INTEGER NOT NULL,
        text_checksum INTEGER NOT NULL
    )
    """,
    """
    CREATE TRIGGER searched_added AFTER INSERT ON searched BEGIN
        UPDATE state SET names_sum = names_sum + NEW.name_checksum, texts_sum = texts_sum + NEW.text_checksum;
    END
    """,
    """
    CREATE TRIGGER searched_deleted AFTER DELETE ON searched BEGIN
        UPDATE state SET names_sum = names_sum - OLD.name_checksum, texts_sum = texts_sum - OLD.text_checksum;
    END
    """,
)
"""The table for searching names and texts, and its triggers; `check --mend` rebuilds them."""

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
    (
        "ALTER TABLE entries ADD COLUMN text TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE entries ADD COLUMN session TEXT",
        "ALTER TABLE entries ADD COLUMN tick INTEGER",
        "ALTER TABLE entries ADD COLUMN session_identity TEXT",
        "ALTER TABLE entries ADD COLUMN recalled INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE entries ADD COLUMN recalled_s REAL",
        "ALTER TABLE entries ADD COLUMN changed INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE entries ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE entries ADD COLUMN payload_checksum INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE keys ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE keys ADD COLUMN features_checksum INTEGER NOT NULL DEFAULT 0",
        # Functions of `sqlite.py`: the content of these columns cannot be computed in SQL.
        """
        UPDATE entries SET
            text = devmind_text(name, payload),
            checksum = devmind_facts_checksum(id, time_s, importance, name, session, tick, session_identity)
        """,
        "UPDATE entries SET payload_checksum = devmind_payload_checksum(checksum, payload)",
        "UPDATE keys SET checksum = devmind_key_checksum(entry, sense, encoder, vector)",
        "UPDATE keys SET features_checksum = devmind_features_checksum(checksum, features)",
        "CREATE TABLE deletions (entry INTEGER PRIMARY KEY, changed INTEGER NOT NULL)",
        """
        CREATE TABLE state (
            identity TEXT NOT NULL,
            changed INTEGER NOT NULL,
            deletions_since INTEGER NOT NULL,
            entries INTEGER NOT NULL,
            payload_bytes INTEGER NOT NULL,
            keys INTEGER NOT NULL,
            key_bytes INTEGER NOT NULL,
            keys_sum INTEGER NOT NULL
        )
        """,
        """
        INSERT INTO state SELECT
            lower(hex(randomblob(16))), 0, 0,
            (SELECT count(*) FROM entries),
            (SELECT coalesce(sum(length(payload)), 0) FROM entries),
            (SELECT count(*) FROM keys),
            (SELECT coalesce(sum(length(vector) + coalesce(length(features), 0)), 0) FROM keys),
            (SELECT coalesce(sum(checksum), 0) FROM keys)
        """,
        """
        CREATE TRIGGER entry_added AFTER INSERT ON entries BEGIN
            UPDATE state SET entries = entries + 1, payload_bytes = payload_bytes + length(NEW.payload);
        END
        """,
        """
        CREATE TRIGGER entry_deleted AFTER DELETE ON entries BEGIN
            UPDATE state SET entries = entries - 1, payload_bytes = payload_bytes - length(OLD.payload);
        END
        """,
        """
        CREATE TRIGGER key_added AFTER INSERT ON keys BEGIN
            UPDATE state SET keys = keys + 1, keys_sum = keys_sum + NEW.checksum,
                key_bytes = key_bytes + length(NEW.vector) + coalesce(length(NEW.features), 0);
        END
        """,
        """
        CREATE TRIGGER key_deleted AFTER DELETE ON keys BEGIN
            UPDATE state SET keys = keys - 1, keys_sum = keys_sum - OLD.checksum,
                key_bytes = key_bytes - length(OLD.vector) - coalesce(length(OLD.features), 0);
        END
        """,
        "CREATE INDEX entries_by_change ON entries (changed)",
        "CREATE INDEX entries_by_session ON entries (session_identity) WHERE session_identity IS NOT NULL",
        "CREATE INDEX deletions_by_change ON deletions (changed)",
    ),
    (
        # See `sqlite.py`. The column entries.text stays and is not read any more: removing it would rewrite
        # every payload.
        SEARCHED[0],
        # Rebuilt, because the old text may be damaged; for a damaged payload the old text is better.
        """
        INSERT INTO searched SELECT id, CAST(name AS BLOB),
            CAST(CASE WHEN payload_checksum = devmind_payload_checksum(checksum, payload)
                THEN devmind_text(name, payload) ELSE text END AS BLOB),
            0, 0 FROM entries
        """,
        """
        UPDATE searched SET
            name_checksum = CASE WHEN name IS NULL THEN 0 ELSE devmind_search_checksum(name, entry) END,
            text_checksum = devmind_search_checksum(text, entry)
        """,
        "ALTER TABLE state ADD COLUMN names_sum INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE state ADD COLUMN texts_sum INTEGER NOT NULL DEFAULT 0",
        """
        UPDATE state SET
            names_sum = (SELECT coalesce(sum(name_checksum), 0) FROM searched),
            texts_sum = (SELECT coalesce(sum(text_checksum), 0) FROM searched)
        """,
        *SEARCHED[1:],
        "DROP INDEX entries_by_name",
    ),
    # 1 in the file itself from an opening to the next closing: without its log it is incomplete then.
    ("ALTER TABLE state ADD COLUMN logged INTEGER NOT NULL DEFAULT 0",),
    # How many ticks of a recording the entry was made of; 0: its pointer leads to the parts that it does not hold.
    ("ALTER TABLE entries ADD COLUMN span INTEGER NOT NULL DEFAULT 0",),
)
