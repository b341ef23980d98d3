"""The store for several agents or machines: one PostgreSQL database, named by its URL.

>>> with open_store("postgresql://devmind@127.0.0.1:5432/memory") as store:
...     print(store.sizes())

The database is the truth. Every process keeps its own index as a cache, updated from the store's changes. psycopg is
imported here only, and only when a store is opened.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from devmind.errors import StoreError

if TYPE_CHECKING:
    from devmind.memory.stores.postgres.store import PostgresStore

SCHEMES = ("postgresql://", "postgres://")


def open_postgres(url: Path | str | None, mend: bool = False) -> PostgresStore:
    """The store in the database at `url`; its tables are made if they do not exist.

    Args:
        url: as libpq takes it, postgresql://user@host:port/database. Keep the password out of it: libpq reads it from
            ~/.pgpass or the variable PGPASSWORD.

    `mend` changes nothing: the server maintains its files, and `check` the rest.

    Raises:
        StoreError: psycopg is not installed, no such server or database, it belongs to another program, or its store is
            of a newer version.
    """
    if not isinstance(url, str) or not url.startswith(SCHEMES):
        what = "nothing" if url is None else f"'{url}'"
        raise StoreError(f"A PostgreSQL store is opened by a URL, postgresql://user@host:port/database; got {what}.")
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise StoreError(f"A PostgreSQL store needs psycopg ({error}): pip install 'devmind[postgres]'.") from error
    from devmind.memory.stores.postgres.store import PostgresStore

    return PostgresStore(url)
