"""A real PostgreSQL server, started when a test first asks for it, with a database that is empty for each test."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from postgres_server import PostgresServer, binaries


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server that all tests share. A test that stops it must start it again."""
    found = binaries()
    if found is None:
        pytest.skip("no PostgreSQL server: make test-system")
    server = PostgresServer(found)
    yield server
    server.close()


@pytest.fixture(scope="session")
def database(postgres: PostgresServer) -> str:
    """One database for all tests: creating one takes longer than most tests."""
    return postgres.database()


@pytest.fixture
def url(database: str) -> str:
    """A database without a store."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS devmind CASCADE")
        connection.execute(f"ALTER DATABASE {database.rpartition('/')[2]} RESET ALL".encode())
    return database
