"""What deletion leaves in a PostgreSQL server's files, searched byte by byte, and the rights that it needs."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest
from postgres_server import PostgresServer

from devmind.errors import StoreError
from devmind.memory import open_store
from devmind.memory.payload import pack
from devmind.memory.stores.postgres import link
from devmind.memory.stores.postgres.store import PostgresStore
from devmind.testing.stores import example

SECRET, KEPT = example(7770), example(2)  # no other test on this server writes the first entry


def marks(entry=SECRET) -> tuple[bytes, ...]:
    """Bytes of an entry to search files for: part of its payload, part of its features, and its words, case-folded."""
    features = entry.keys["sight"].features
    return pack(entry.senses)[20:60], features.tobytes()[4:24], f"{entry.senses['words']}".casefold().encode()


def filled(url: str) -> PostgresStore:
    """A store whose first entry will be deleted, with everything written to its files and statistics gathered."""
    store = open_store(url)
    store.add([SECRET, *(example(number) for number in range(1, 40))])
    execute(url, "CHECKPOINT", "ANALYZE")
    return store  # type: ignore[return-value]


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def traces(postgres: PostgresServer, *found: bytes) -> set[str]:
    """Folders of the server whose files hold one of the marks."""
    return {name.partition("/")[0] for name in postgres.files_with(*found)}


@pytest.fixture
def member(postgres: PostgresServer, url: str) -> Iterator[str]:
    """The database's URL for a user who may create a schema and nothing more."""
    database = url.rpartition("/")[2]
    execute(url, f"CREATE ROLE agent LOGIN PASSWORD 'agent'; GRANT CREATE ON DATABASE {database} TO agent")
    yield postgres.url(database, "agent", "agent")
    execute(url, "DROP OWNED BY agent CASCADE; DROP ROLE agent")


def test_a_deleted_entry_leaves_no_trace_in_tables_indexes_and_statistics(postgres: PostgresServer, url: str) -> None:
    with filled(url) as store:
        assert {"base", "pg_wal"} <= traces(postgres, *marks())  # the scan does find what is there
        assert store.delete([1]) == 1
        assert "base" not in traces(postgres, *marks())
        assert "base" in traces(postgres, *marks(KEPT))
        assert len(store.find()) == 39


@pytest.mark.slow
def test_deletion_by_a_superuser_leaves_no_trace_where_the_log_is_never_recycled(postgres: PostgresServer) -> None:
    server = PostgresServer(postgres.bin, {"wal_recycle": "off"})
    try:
        with filled(server.database()) as store:
            assert {"base", "pg_wal"} <= traces(server, *marks())
            store.delete([1])
            assert traces(server, *marks()) == set()
    finally:
        server.close()


def test_deletion_without_rights_erases_the_tables_but_not_the_log(postgres: PostgresServer, member: str) -> None:
    with open_store(member) as store:
        store.add([SECRET, *(example(number) for number in range(1, 40))])
        store.delete([1])
        execute(postgres.url(member.rpartition("/")[2]), "CHECKPOINT")
        assert traces(postgres, *marks()) <= {"pg_wal"}


def test_tables_of_another_role_are_reported(postgres: PostgresServer, url: str, member: str) -> None:
    with filled(url):
        execute(url, "GRANT USAGE ON SCHEMA devmind TO agent", "GRANT ALL ON ALL TABLES IN SCHEMA devmind TO agent")
    with open_store(member) as store:
        with pytest.raises(StoreError, match="belong to another role"):
            store.delete([1])
        assert next(entry.id for entry in store.find()) == 2
    with open_store(url):  # the owner finishes the erasure on opening the store
        assert "base" not in traces(postgres, *marks())


@pytest.mark.parametrize("reads", ["SELECT count(*) FROM devmind.entries", "SELECT count(*) FROM devmind.state"])
def test_a_reader_that_blocks_erasing_is_reported(
    postgres: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch, reads: str
) -> None:
    """Either its lock on the table or its older snapshot, for which PostgreSQL keeps deleted rows."""
    monkeypatch.setattr(link, "PATIENCE_S", 0.3)
    monkeypatch.setattr("devmind.memory.stores.postgres.erase.PATIENCE_S", 0.3)
    with filled(url) as store:
        with psycopg.connect(url) as reader:
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            reader.execute(reads.encode())
            with pytest.raises(StoreError, match="another process is reading"):
                store.delete([1])
            assert next(entry.id for entry in store.find()) == 2
        assert store.delete([1]) == 0
        assert "base" not in traces(postgres, *marks())


def test_erasing_waits_for_a_reader_that_soon_ends(postgres: PostgresServer, url: str) -> None:
    """Such as the server's own ANALYZE, which may begin at any time."""
    with filled(url) as store, psycopg.connect(url) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM devmind.state")
        end = threading.Timer(0.5, reader.rollback)
        end.start()
        assert store.delete([1]) == 1
        end.join()
        assert "base" not in traces(postgres, *marks())


def test_opening_erases_what_a_kill_after_deleting_left(
    postgres: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled(url) as store, monkeypatch.context() as killed:
        killed.setattr(PostgresStore, "_erase", lambda self: None)
        store.delete([1])
        execute(url, "CHECKPOINT")
        assert "base" in traces(postgres, *marks())
    with open_store(url):
        assert "base" not in traces(postgres, *marks())


def test_a_role_that_may_not_create_a_schema_is_told_what_it_needs(
    postgres: PostgresServer, url: str, member: str
) -> None:
    execute(url, f"REVOKE CREATE ON DATABASE {url.rpartition('/')[2]} FROM agent")
    with pytest.raises(StoreError, match=r"permission denied .* docs/postgres\.md"):
        open_store(member)
