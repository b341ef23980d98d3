"""The PostgreSQL store itself; see the package."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self

from psycopg import errors

from devmind.errors import StoreError
from devmind.memory.entry import Entry, Filters, Key
from devmind.memory.payload import pack
from devmind.memory.stores.postgres import check
from devmind.memory.stores.postgres.erase import erase
from devmind.memory.stores.postgres.link import Connection, Link
from devmind.memory.stores.postgres.listen import Watch
from devmind.memory.stores.postgres.migrations import MIGRATIONS
from devmind.memory.stores.postgres.rows import (
    key_rows,
    many,
    put_encoders,
    put_entries,
    read_changes,
    read_entries,
    read_facts,
    rows_of,
    where,
)
from devmind.memory.stores.postgres.standing import migrate, next_change, version_of
from devmind.memory.stores.postgres.vectors import extension, nearest
from devmind.memory.stores.rows import KEPT_DELETIONS, mixed_keys_error, plain
from devmind.memory.tables import Changes, Facts, Sizes


class PostgresStore:
    """See `Store`. Its numbers of changes grow in the order of commits, so a late commit is never missed.

    Args:
        url: as libpq takes it.

    Raises:
        StoreError: no such server or database, it belongs to another program, or its store is of a newer version.
    """

    def __init__(self, url: str) -> None:
        self._link = Link(url)
        self.place = self._link.place
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._link.close()

    def add(self, entries: Sequence[Entry]) -> list[int]:
        packed = [(plain(entry), pack(entry.senses)) for entry in entries]

        def act(connection: Connection) -> list[int]:
            change, last = next_change(connection, self.place, len(packed))
            put_entries(connection, packed, last - len(packed) + 1, change)
            _one_encoder(connection)
            return list(range(last - len(packed) + 1, last + 1))

        return self._link.write(act)

    def find(self, filters: Filters = Filters(), payloads: bool = True) -> list[Entry]:  # noqa: B008 - it is frozen
        condition, values = where(filters)
        return self._link.read(lambda connection: read_entries(connection, condition, values, payloads))

    def get(self, ids: Iterable[int]) -> list[Entry]:
        ids = [int(number) for number in ids]
        read = self._link.read(lambda connection: read_entries(connection, "id = ANY(%s)", [ids], payloads=True))
        found = {entry.id: entry for entry in read}
        return [found[number] for number in ids if number in found]

    def replace_keys(self, keys: Mapping[int, Mapping[str, Key]]) -> None:
        def act(connection: Connection) -> None:
            change, _ = next_change(connection, self.place)
            update = "UPDATE devmind.entries SET changed = %s WHERE id = ANY(%s) RETURNING id"
            existing = [number for (number,) in connection.execute(update, (change, list(keys)))]
            connection.execute("DELETE FROM devmind.keys WHERE entry = ANY(%s)", (existing,))
            put_encoders(connection, [keys[number] for number in existing])
            many(connection, "keys", [row for number in existing for row in key_rows(number, keys[number])])
            _one_encoder(connection)

        self._link.write(act)

    def mark_recalled(self, times: Mapping[int, int], at_s: float) -> None:
        ids, counts = [int(number) for number in times], [int(count) for count in times.values()]

        def act(connection: Connection) -> None:
            # Neither lock waits for a writer, nor a writer for it, except for one that deletes these very entries.
            connection.execute("SELECT FROM devmind.state FOR KEY SHARE")
            connection.execute(
                "WITH kept AS (SELECT id FROM devmind.entries WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE) "
                "INSERT INTO devmind.recalls SELECT id, times, %s "
                "FROM unnest(%s::bigint[], %s::bigint[]) AS given (id, times) JOIN kept USING (id) "
                "ORDER BY id ON CONFLICT (entry) DO UPDATE "
                "SET recalled = recalls.recalled + EXCLUDED.recalled, recalled_s = EXCLUDED.recalled_s",
                (ids, float(at_s), ids, counts),
            )

        self._link.write(act)

    def delete(self, ids: Iterable[int], erase: bool = True) -> int:
        numbers = [int(number) for number in ids]

        def act(connection: Connection) -> int:
            next_change(connection, self.place)
            connection.execute("DELETE FROM devmind.keys WHERE entry = ANY(%s)", (numbers,))
            deleted = connection.execute("DELETE FROM devmind.entries WHERE id = ANY(%s)", (numbers,)).rowcount
            _tidy(connection)
            if erase:
                connection.execute("UPDATE devmind.state SET erase_due = true")
            return deleted

        deleted = self._link.write(act)
        if erase:
            self._erase()
        return deleted

    def revision(self) -> str:
        (row,) = self._link.alone(lambda connection: rows_of(connection, "SELECT identity, changed FROM devmind.state"))
        return f"{row[0]}:{row[1]}"

    def changes(self, since: str | None = None) -> Changes:
        return self._link.read(lambda connection: read_changes(connection, since))

    def facts(self, filters: Filters = Filters()) -> Facts:  # noqa: B008 - it is frozen
        condition, values = where(filters)
        return self._link.read(lambda connection: read_facts(connection, condition, values))

    def sizes(self) -> Sizes:
        statement = "SELECT entries, payload_bytes, key_bytes FROM devmind.state"
        (row,) = self._link.alone(lambda connection: rows_of(connection, statement))
        return Sizes(*row)

    def check(self, mend: bool = False) -> list[str]:
        if not mend:
            return self._link.read(lambda connection: [fault.sentence for fault in check.faults(connection)])
        faults = self._link.write(
            lambda connection: check.mend_entries(connection, next_change(connection, self.place)[0])
        )
        if faults:
            self._erase()
        return faults

    def watch(self, changed: Callable[[], None]) -> Watch:
        """Call `changed` soon after each write of any process, from a thread; a context manager."""
        return Watch(self._link.conninfo, changed)

    def nearest(self, keys: Mapping[str, Key], k: int, filters: Filters = Filters()) -> list[tuple[int, float]] | None:  # noqa: B008
        """Numbers and mean cosines of the k entries most similar to `keys`, from the server; None without pgvector."""
        if self._vector is None:
            return None
        schema = self._vector
        return self._link.read(lambda connection: nearest(connection, schema, keys, k, filters)) if keys else []

    # -- inside ----------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Refuse tables of other programs or newer versions before any change; then update the tables."""
        version = self._link.read(lambda connection: version_of(connection, self.place))
        if version < len(MIGRATIONS):
            self._link.alone(lambda connection: migrate(connection, self.place))
        self._vector = self._link.alone(extension)
        self._erase_what_is_due()

    def _erase(self) -> None:
        self._link.alone(lambda connection: erase(connection, self.place))

    def _erase_what_is_due(self) -> None:
        """Erase deletions of a process that was killed before it could; if another process is reading, a later call
        does it.
        """
        ((due,),) = self._link.alone(lambda connection: rows_of(connection, "SELECT erase_due FROM devmind.state"))
        if due:
            with contextlib.suppress(StoreError):
                self._link.alone(lambda connection: erase(connection, self.place, wait_s=1.0))


def _one_encoder(connection: Connection) -> None:
    """Let the database compare encoders now; StoreError (which rolls back) when two would mix."""
    try:
        connection.execute("SET CONSTRAINTS devmind.one_encoder IMMEDIATE")
    except errors.ForeignKeyViolation as error:
        raise mixed_keys_error("one sense") from error


def _tidy(connection: Connection) -> None:
    """Keep only the newest numbers of deleted entries, and the rows of working writers.

    A process that asks for older deletions has to rebuild its copy.
    """
    connection.execute("DELETE FROM devmind.writers WHERE at < now() - interval '30 days'")
    ((count,),) = rows_of(connection, "SELECT count(*) FROM devmind.deletions")
    if count > KEPT_DELETIONS:
        oldest = "SELECT changed FROM devmind.deletions ORDER BY changed DESC LIMIT 1 OFFSET %s"
        ((number,),) = rows_of(connection, oldest, (KEPT_DELETIONS // 2,))
        connection.execute("DELETE FROM devmind.deletions WHERE changed <= %s", (number,))
        connection.execute("UPDATE devmind.state SET deletions_since = %s", (number,))
