"""Nearest keys on the server, if it has the extension vector (pgvector): exact, without an index.

For a process without an index of its own (yet): only the answer is transferred. Keys are kept as real[], which pgvector
casts, so that the tables are the same with and without it. Source: pgvector's README, "Querying" and "Exact search":
`<#>` is the negative inner product, which for keys of length 1 is the negative cosine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from psycopg import errors, sql

from devmind.errors import StoreError
from devmind.memory.entry import KEY_SIZE, Filters, Key
from devmind.memory.stores.postgres.link import Connection
from devmind.memory.stores.postgres.rows import ALL, rows_of, where
from devmind.memory.stores.postgres.wire import Reals
from devmind.memory.stores.rows import VECTOR

_ALLOWED = """
    SELECT NOT superuser OR (trusted AND has_database_privilege(current_database(), 'CREATE'))
        OR current_setting('is_superuser')::boolean
    FROM pg_available_extension_versions WHERE name = 'vector' AND NOT installed ORDER BY 1 DESC LIMIT 1
"""
_NOT_FOR_US = (errors.InsufficientPrivilege, errors.FeatureNotSupported, errors.UndefinedFile, errors.UniqueViolation)
"""Includes the error when another process makes it at the same time."""
_WHERE_IT_IS = """
    SELECT nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector'
"""


def extension(connection: Connection) -> str | None:
    """The schema of pgvector, or None; it is created in the schema devmind if the role may and the server has it."""
    found = rows_of(connection, _WHERE_IT_IS)
    if not found and rows_of(connection, _ALLOWED) == [(True,)]:
        with contextlib.suppress(*_NOT_FOR_US):
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA devmind")
        found = rows_of(connection, _WHERE_IT_IS)
    return str(found[0][0]) if found else None


def nearest_query(schema: str, senses: int, condition: str) -> sql.Composed:
    """The statement: cosine by entry (the mean over the asked senses it has a key of), the most similar and newest
    first.

    Args:
        schema: of pgvector.
        senses: number of asked senses; each takes two values, the key (real[]) and its sense.
        condition: on entries, with its values after those of the senses; then comes the limit.
    """
    one = sql.SQL(
        "SELECT entry, -(vector::{schema}.vector({size}) OPERATOR({schema}.<#>) "
        "(SELECT %s::real[]::{schema}.vector({size}))) AS cosine FROM devmind.keys WHERE sense = %s"
    ).format(schema=sql.Identifier(schema), size=sql.Literal(KEY_SIZE))
    filtered = "" if condition == ALL else f"WHERE entry IN (SELECT id FROM devmind.entries WHERE {condition}) "
    return sql.SQL("SELECT entry, avg(cosine) FROM ({each}) AS each_sense {filtered}").format(
        each=sql.SQL(" UNION ALL ").join([one] * senses),
        filtered=sql.SQL(filtered),  # made of constants in `rows.where`
    ) + sql.SQL("GROUP BY entry ORDER BY 2 DESC, 1 DESC LIMIT %s")


def nearest(
    connection: Connection, schema: str, keys: Mapping[str, Key], k: int, filters: Filters
) -> list[tuple[int, float]]:
    """Numbers and cosines of the k entries most similar to the keys, exact; of equal ones the newer first.

    Raises:
        StoreError: keys of another encoder than the store's.
    """
    used = (
        "SELECT sense, encoder FROM devmind.encoders AS e WHERE EXISTS (SELECT FROM devmind.keys WHERE sense = e.sense)"
    )
    encoders = dict(rows_of(connection, used))
    for sense, key in keys.items():
        if encoders.get(sense, key.encoder) != key.encoder:
            raise StoreError(
                f"The memory's keys of '{sense}' were made by another encoder ({encoders[sense][:8]}, asked with "
                f"{key.encoder[:8]}); rebuild them first."
            )
    condition, values = where(filters)
    asked = [value for sense, key in keys.items() for value in (Reals(key.vector.astype(VECTOR).tobytes()), sense)]
    cursor = connection.cursor(binary=True)
    cursor.execute(nearest_query(schema, len(keys), condition), (*asked, *values, max(0, k)))
    return [(int(number), float(cosine)) for number, cosine in cursor]
