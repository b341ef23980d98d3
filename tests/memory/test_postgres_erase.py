"""What deleting leaves in a PostgreSQL server's files, looked for byte by byte; and the rights that it takes."""

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

SECRET, KEPT = example(7770), example(2)  # no other test of this server writes the first


def marks(entry=SECRET) -> tuple[bytes, ...]:
    """What of an entry would be found in a file: its payload, a stretch of features, and its words, case folded."""
    features = entry.keys["sight"].features
    return pack(entry.senses)[20:60], features.tobytes()[4:24], f"{entry.senses['words']}".casefold().encode()


def filled(url: str) -> PostgresStore:
    """A store whose first entry is to go, everything in its files, statistics gathered."""
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
    """The database as a user sees it who may make a schema, and nothing more."""
    database = url.rpartition("/")[2]
    execute(url, f"CREATE ROLE agent LOGIN PASSWORD 'agent'; GRANT CREATE ON DATABASE {database} TO agent")
    yield postgres.url(database, "agent", "agent")
    execute(url, "DROP OWNED BY agent CASCADE; DROP ROLE agent")


def test_nothing_of_a_deleted_entry_stays_in_tables_indexes_and_statistics(postgres: PostgresServer, url: str) -> None:
    with filled(url) as store:
        assert {"base", "pg_wal"} <= traces(postgres, *marks())  # the scan does find what is there
        assert store.delete([1]) == 1
        assert "base" not in traces(postgres, *marks())
        assert "base" in traces(postgres, *marks(KEPT))
        assert len(store.find()) == 39


@pytest.mark.slow
def test_a_superuser_of_a_server_that_never_recycles_its_log_leaves_nothing_at_all(postgres: PostgresServer) -> None:
    server = PostgresServer(postgres.bin, {"wal_recycle": "off"})
    try:
        with filled(server.database()) as store:
            assert {"base", "pg_wal"} <= traces(server, *marks())
            store.delete([1])
            assert traces(server, *marks()) == set()
    finally:
        server.close()


def test_a_user_without_rights_erases_the_tables_and_not_the_log(postgres: PostgresServer, member: str) -> None:
    with open_store(member) as store:
        store.add([SECRET, *(example(number) for number in range(1, 40))])
        store.delete([1])
        execute(postgres.url(member.rpartition("/")[2]), "CHECKPOINT")
        assert traces(postgres, *marks()) <= {"pg_wal"}


def test_tables_of_another_role_are_told_of(postgres: PostgresServer, url: str, member: str) -> None:
    with filled(url):
        execute(url, "GRANT USAGE ON SCHEMA devmind TO agent", "GRANT ALL ON ALL TABLES IN SCHEMA devmind TO agent")
    with open_store(member) as store:
        with pytest.raises(StoreError, match="belong to another role"):
            store.delete([1])
        assert next(entry.id for entry in store.find()) == 2
    with open_store(url):  # what it owed is done by who may, when that one opens the store
        assert "base" not in traces(postgres, *marks())


@pytest.mark.parametrize("reads", ["SELECT count(*) FROM devmind.entries", "SELECT count(*) FROM devmind.state"])
def test_a_reader_in_the_way_of_erasing_is_told_of(
    postgres: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch, reads: str
) -> None:
    """Its lock on the table, or its older snapshot, for which PostgreSQL keeps what was deleted."""
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


def test_a_reader_that_soon_ends_is_waited_for(postgres: PostgresServer, url: str) -> None:
    """As the server's own ANALYZE, which it begins whenever it likes."""
    with filled(url) as store, psycopg.connect(url) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM devmind.state")
        end = threading.Timer(0.5, reader.rollback)
        end.start()
        assert store.delete([1]) == 1
        end.join()
        assert "base" not in traces(postgres, *marks())


def test_a_kill_between_deleting_and_erasing_leaves_nothing_for_the_next_opening(
    postgres: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled(url) as store, monkeypatch.context() as killed:
        killed.setattr(PostgresStore, "_erase", lambda self: None)
        store.delete([1])
        execute(url, "CHECKPOINT")
        assert "base" in traces(postgres, *marks())
    with open_store(url):
        assert "base" not in traces(postgres, *marks())


def test_a_role_that_may_not_make_a_schema_is_told_what_it_needs(
    postgres: PostgresServer, url: str, member: str
) -> None:
    execute(url, f"REVOKE CREATE ON DATABASE {url.rpartition('/')[2]} FROM agent")
    with pytest.raises(StoreError, match=r"permission denied .* docs/postgres\.md"):
        open_store(member)
