"""The PostgreSQL store's tables, as numbered steps, only ever appended: a store of any age gets the steps it lacks.

Everything is in the schema `devmind`; nothing outside it is touched. The database itself enforces what must hold for
every writer: keys of one sense are of one encoder (a foreign key, checked at the end of a write), and triggers keep
totals and the numbers of deleted entries. Statistics of contents are never gathered, because the planner's copy of a
value would outlive it.
"""

from __future__ import annotations

PROGRAM = "devmind memory"
"""Marks the tables as ours."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE SCHEMA devmind",
        """
        CREATE TABLE devmind.state (
            one boolean PRIMARY KEY DEFAULT true CHECK (one),
            program text NOT NULL,
            version integer NOT NULL,
            identity text NOT NULL,
            changed bigint NOT NULL DEFAULT 0,
            deletions_since bigint NOT NULL DEFAULT 0,
            last_entry bigint NOT NULL DEFAULT 0,
            entries bigint NOT NULL DEFAULT 0,
            payload_bytes bigint NOT NULL DEFAULT 0,
            keys bigint NOT NULL DEFAULT 0,
            key_bytes bigint NOT NULL DEFAULT 0,
            keys_sum bigint NOT NULL DEFAULT 0,
            erase_due boolean NOT NULL DEFAULT false
        ) WITH (fillfactor = 50)
        """,
        """
        CREATE TABLE devmind.entries (
            id bigint PRIMARY KEY,
            time_s double precision NOT NULL,
            importance double precision NOT NULL,
            name text,
            payload bytea NOT NULL,
            text text NOT NULL,
            session text,
            tick bigint,
            session_identity text,
            changed bigint NOT NULL,
            checksum bigint NOT NULL,
            payload_checksum bigint NOT NULL
        )
        """,
        """
        CREATE TABLE devmind.encoders (
            sense text PRIMARY KEY,
            encoder text NOT NULL,
            UNIQUE (sense, encoder)
        )
        """,
        """
        CREATE TABLE devmind.keys (
            entry bigint NOT NULL REFERENCES devmind.entries (id) ON DELETE CASCADE,
            sense text NOT NULL,
            encoder text NOT NULL,
            vector real[] NOT NULL CHECK (cardinality(vector) = 64),
            checksum bigint NOT NULL,
            features real[],
            features_checksum bigint NOT NULL,
            PRIMARY KEY (entry, sense),
            CONSTRAINT one_encoder FOREIGN KEY (sense, encoder) REFERENCES devmind.encoders (sense, encoder)
                DEFERRABLE INITIALLY DEFERRED
        )
        """,
        """
        CREATE TABLE devmind.recalls (
            entry bigint PRIMARY KEY REFERENCES devmind.entries (id) ON DELETE CASCADE,
            recalled bigint NOT NULL,
            recalled_s double precision
        ) WITH (fillfactor = 70)
        """,
        "CREATE TABLE devmind.deletions (entry bigint PRIMARY KEY, changed bigint NOT NULL)",
        "CREATE TABLE devmind.writers (writer uuid PRIMARY KEY, write bigint NOT NULL, at timestamptz NOT NULL)",
        "CREATE INDEX entries_by_name ON devmind.entries (name) WHERE name IS NOT NULL",
        "CREATE INDEX entries_by_change ON devmind.entries (changed)",
        "CREATE INDEX entries_by_session ON devmind.entries (session_identity) WHERE session_identity IS NOT NULL",
        "CREATE INDEX keys_by_encoder ON devmind.keys (sense, encoder)",
        "CREATE INDEX deletions_by_change ON devmind.deletions (changed)",
        """
        ALTER TABLE devmind.entries
            ALTER name SET STATISTICS 0, ALTER payload SET STATISTICS 0, ALTER text SET STATISTICS 0,
            ALTER session SET STATISTICS 0,
            ALTER payload SET STORAGE EXTERNAL  -- it is compressed already
        """,
        "ALTER TABLE devmind.keys ALTER vector SET STATISTICS 0, ALTER features SET STATISTICS 0",
        """
        CREATE FUNCTION devmind.entries_added() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            UPDATE devmind.state SET
                entries = entries + (SELECT count(*) FROM rows),
                payload_bytes = payload_bytes + (SELECT coalesce(sum(length(payload)), 0) FROM rows);
            RETURN NULL;
        END $$
        """,
        """
        CREATE FUNCTION devmind.entries_deleted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            UPDATE devmind.state SET
                entries = entries - (SELECT count(*) FROM rows),
                payload_bytes = payload_bytes - (SELECT coalesce(sum(length(payload)), 0) FROM rows);
            INSERT INTO devmind.deletions SELECT rows.id, state.changed FROM rows, devmind.state;
            RETURN NULL;
        END $$
        """,
        """
        CREATE FUNCTION devmind.keys_added() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            UPDATE devmind.state SET
                keys = keys + (SELECT count(*) FROM rows),
                keys_sum = keys_sum + (SELECT coalesce(sum(checksum), 0) FROM rows),
                key_bytes = key_bytes +
                    (SELECT coalesce(sum(4 * (cardinality(vector) + coalesce(cardinality(features), 0))), 0) FROM rows);
            RETURN NULL;
        END $$
        """,
        """
        CREATE FUNCTION devmind.keys_deleted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            UPDATE devmind.state SET
                keys = keys - (SELECT count(*) FROM rows),
                keys_sum = keys_sum - (SELECT coalesce(sum(checksum), 0) FROM rows),
                key_bytes = key_bytes -
                    (SELECT coalesce(sum(4 * (cardinality(vector) + coalesce(cardinality(features), 0))), 0) FROM rows);
            RETURN NULL;
        END $$
        """,
        """
        CREATE TRIGGER entries_added AFTER INSERT ON devmind.entries REFERENCING NEW TABLE AS rows
            FOR EACH STATEMENT EXECUTE FUNCTION devmind.entries_added()
        """,
        """
        CREATE TRIGGER entries_deleted AFTER DELETE ON devmind.entries REFERENCING OLD TABLE AS rows
            FOR EACH STATEMENT EXECUTE FUNCTION devmind.entries_deleted()
        """,
        """
        CREATE TRIGGER keys_added AFTER INSERT ON devmind.keys REFERENCING NEW TABLE AS rows
            FOR EACH STATEMENT EXECUTE FUNCTION devmind.keys_added()
        """,
        """
        CREATE TRIGGER keys_deleted AFTER DELETE ON devmind.keys REFERENCING OLD TABLE AS rows
            FOR EACH STATEMENT EXECUTE FUNCTION devmind.keys_deleted()
        """,
    ),
    # How many ticks of a recording the entry was made of; 0: its pointer leads to the parts that it does not hold.
    ("ALTER TABLE devmind.entries ADD COLUMN span bigint NOT NULL DEFAULT 0",),
)
