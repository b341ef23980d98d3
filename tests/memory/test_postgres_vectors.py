"""Vectors in PostgreSQL: exact to the bit on the wire, and found by pgvector as by the store's own index."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import psycopg
import pytest
from postgres_server import PostgresServer, binaries

from devmind.errors import StoreError
from devmind.memory import Entry, Filters, Key, Memory, open_store
from devmind.memory.episodic import ASKED_OF_THE_STORE
from devmind.memory.stores.postgres.store import PostgresStore
from devmind.memory.stores.postgres.vectors import nearest_query
from devmind.memory.stores.postgres.wire import Reals, register
from devmind.testing import check_store
from devmind.testing.laws import ATOL
from devmind.testing.stores import example


@pytest.fixture(scope="module")
def with_pgvector() -> Iterator[PostgresServer]:
    """A server of the wheel `pgserver`, which includes the extension; it is in the extra `dev`."""
    found = binaries(vector=True)
    if found is None:
        pytest.skip("no pgvector: pip install pgserver (Python 3.12 or older)")
    server = PostgresServer(found)
    yield server
    server.close()


@pytest.mark.parametrize("length", [0, 1, 64, 1000])
def test_vectors_round_trip_bit_for_bit(url: str, length: int) -> None:
    vector = np.random.default_rng(0).normal(size=length).astype("<f4")
    vector[:1] = -0.0
    vector[3:6] = np.array([np.nan, np.inf, 1e-42], "<f4")[: max(0, length - 3)]
    with psycopg.connect(url, autocommit=True) as connection:
        register(connection)
        (row,) = connection.cursor(binary=True).execute("SELECT %s, cardinality(%s::real[])", [Reals(vector)] * 2)
    assert row == (vector.tobytes(), length)


def memories(n: int = 300) -> list[Entry]:
    """Entries with keys of sight; every third one also has a key of sound."""
    rng = np.random.default_rng(5)

    def key() -> Key:
        vector = rng.normal(size=64)
        return Key((vector / np.linalg.norm(vector)).astype(np.float32), "encoder-a")

    names = ("cup", "ball", None)
    return [
        Entry(float(i), 0.0, names[i % 3], {"sight": key()} | ({"sound": key()} if i % 3 == 0 else {}))
        for i in range(n)
    ]


def test_pgvector_finds_what_the_index_finds(with_pgvector: PostgresServer) -> None:
    url, entries = with_pgvector.database(), memories()
    with open_store(url) as store:
        assert isinstance(store, PostgresStore)
        store.add([*entries, entries[7]])  # ties return the newer entry first
        memory = Memory(store)
        memory.index.update()
        for number, filters in enumerate([Filters(), Filters(name="cup"), Filters(named=False), Filters(since_s=100)]):
            for keys in (entries[7].keys, entries[number].keys, {"sound": entries[9].keys["sound"]}):
                found = store.nearest(keys, 8, filters)
                wanted = memory.recall(keys, 8, filters)
                assert found is not None
                assert [number for number, _ in found] == [entry.id for entry in wanted]
                assert [cosine for _, cosine in found] == pytest.approx([entry.score for entry in wanted], abs=ATOL)
        assert store.nearest({}, 8) == []
        assert store.nearest(entries[0].keys, 0) == []
        with pytest.raises(StoreError, match="made by another encoder"):
            store.nearest(example(0, "encoder-b").keys, 8)


def test_a_process_without_an_index_sends_its_first_queries_to_the_server(with_pgvector: PostgresServer) -> None:
    entries = memories(40)
    with open_store(with_pgvector.database()) as store:
        store.add(entries)
        memory, indexed = Memory(store), Memory(store)
        indexed.index.update()
        for number in range(ASKED_OF_THE_STORE):
            found, wanted = memory.recall(entries[number].keys), indexed.recall(entries[number].keys)
            assert [entry.id for entry in found] == [entry.id for entry in wanted]
            assert not memory.index.table.revision
        assert [entry.id for entry in memory.recall(entries[9].keys, 1)] == [10]
        assert memory.index.table.revision


def test_the_store_keeps_its_law_with_pgvector(with_pgvector: PostgresServer) -> None:
    url = with_pgvector.database()
    check_store(lambda: open_store(url))


@pytest.mark.parametrize("schema", ["public", "Extensions"])
def test_pgvector_is_found_in_any_schema(with_pgvector: PostgresServer, schema: str) -> None:
    url = with_pgvector.database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'.encode())
        connection.execute(f'CREATE EXTENSION vector SCHEMA "{schema}"'.encode())
    with open_store(url) as store:
        store.add([example(0), example(1)])
        (first, _) = store.nearest(example(1).keys, 2)  # type: ignore[attr-defined, misc]
        assert first == (2, pytest.approx(1, abs=ATOL))


def test_a_user_who_may_not_create_pgvector_works_without_it(with_pgvector: PostgresServer) -> None:
    url = with_pgvector.database()
    name = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            f"CREATE ROLE modest LOGIN PASSWORD 'modest'; GRANT CREATE ON DATABASE {name} TO modest".encode()
        )
    with open_store(with_pgvector.url(name, "modest", "modest")) as store:
        store.add([example(0)])
        assert store.nearest(example(0).keys, 1) is None  # type: ignore[attr-defined]
        assert [entry.id for entry in Memory(store).recall(example(0).keys)] == [1]


def test_recall_works_on_a_server_without_pgvector(url: str) -> None:
    with open_store(url) as store:
        store.add([example(0)])
        assert store.nearest(example(0).keys, 1) is None  # type: ignore[attr-defined]
        assert [entry.id for entry in Memory(store).recall(example(0).keys)] == [1]


def test_the_query_quotes_the_schema_and_has_the_right_number_of_parameters() -> None:
    text = nearest_query('odd"schema', 2, "name = %s").as_string(None)
    assert text.count('"odd""schema".vector(64)') == 4
    assert text.count("%s") == 2 * 2 + 1 + 1
    assert "WHERE entry IN (SELECT id FROM devmind.entries WHERE name = %s) GROUP BY" in text
