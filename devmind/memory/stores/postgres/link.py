"""A connection to a PostgreSQL server that reconnects when it is lost, and never acknowledges a write that was not
kept.

A connection may break during COMMIT, and then this process does not know whether it was carried out. So each write
leaves its number in a row of its writer, inside its own transaction; after such a break that row gives the answer.
Every write holds a lock on the row of `devmind.state` until it ends, so a process that gets the lock sees the result of
the write. Errors of the server become sentences for people.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg import errors, pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from devmind.errors import StoreError
from devmind.memory.stores.postgres.wire import register

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
Result = TypeVar("Result")

PATIENCE_S = 10.0
"""How long to wait for a server that is away, and for another process that writes."""
OPENING_S = 2.0
"""The same when opening a store: a wrong address is reported soon."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
_DEFAULTS: dict[str, int | str] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "fallback_application_name": "devmind",
}
_SETTINGS = """
    SELECT set_config('lock_timeout', %s, false), set_config('idle_in_transaction_session_timeout', '60s', false),
        set_config('jit', 'off', false),
        CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
            THEN set_config('synchronous_commit', 'on', false) END
"""
_AGAIN = (errors.SerializationFailure, errors.DeadlockDetected)


class Link:
    """See the module. Every function may be called from any thread; calls run one at a time.

    Args:
        url: as libpq takes it.

    Raises:
        StoreError: an invalid URL, or a server that cannot be reached.
    """

    def __init__(self, url: str) -> None:
        try:
            url_parts = conninfo_to_dict(url)
        except psycopg.Error:
            # Not libpq's message: it would repeat the password.
            raise StoreError(
                "The URL of the PostgreSQL store cannot be read; it is postgresql://user@host:port/database."
            ) from None
        self.conninfo = make_conninfo("", **{**_DEFAULTS, **url_parts})
        self.place = shown_place(url_parts)
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._closed = False
        self._gave_up = False
        self._writer, self._writes = uuid.uuid4(), 0
        self._with_patience(lambda connection: None, OPENING_S)

    def close(self) -> None:
        """Close the connection."""
        self._closed = True  # calls that wait for the server stop waiting
        with self._lock:
            self._drop()

    def read(self, act: Callable[[Connection], Result]) -> Result:
        """The result of `act`, which reads everything at one moment; it may be called again after a break."""

        def once(connection: Connection) -> Result:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            result = act(connection)
            connection.execute("COMMIT")
            return result

        return self._with_patience(once)

    def alone(self, act: Callable[[Connection], Result]) -> Result:
        """Run `act` outside a transaction, in independent statements that may be repeated."""
        return self._with_patience(act)

    def write(self, act: Callable[[Connection], Result]) -> Result:
        """Run `act`, which writes in one transaction, kept exactly once when this returns; `act` may be called again.

        `act` begins with a statement that locks the row of `devmind.state`.
        """
        with self._lock:
            self._writes += 1
            return self._with_patience(_Write(act, self._writer, self._writes))

    # -- inside ----------------------------------------------------------------------------------------------------

    def _with_patience(self, act: Callable[[Connection], Result], patience_s: float | None = None) -> Result:
        """Call it, and again after each break, until it succeeds or the time limit is over.

        Raises:
            StoreError: with the server's message.
        """
        with self._lock:
            # After a call that waited in vain, the next one does not wait as long again.
            patience_s = 0.0 if self._gave_up else PATIENCE_S if patience_s is None else patience_s
            give_up_s, pause_s = time.monotonic() + patience_s, FIRST_PAUSE_S
            while True:
                if self._closed:
                    raise StoreError(f"'{self.place}' is closed; open it again.")
                try:
                    result = act(self._connected())
                    self._gave_up = False
                    return result
                except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                    gone = self._lost(error)
                    if not gone and not isinstance(error, _AGAIN):
                        raise StoreError(self._why(error)) from error
                    if time.monotonic() + pause_s > give_up_s:
                        self._gave_up = gone
                        raise StoreError(self._why(error) + _fate(act)) from error
                except psycopg.Error as error:
                    self._roll_back()
                    raise StoreError(self._why(error)) from error
                except BaseException:
                    self._roll_back()
                    raise
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self.conninfo)
        return self._connection

    def _lost(self, error: psycopg.Error) -> bool:
        """Whether the server has gone; then waiting may help. Otherwise prepare the connection for the next call."""
        connection = self._connection
        if connection is None:
            # A server that has asked for a password is up, and will give the same answer again.
            needs_password = error.pgconn is not None and (error.pgconn.used_password or error.pgconn.needs_password)
            return not needs_password
        if connection.closed:
            return True
        if isinstance(error, errors.AdminShutdown | errors.CrashShutdown | errors.CannotConnectNow):
            self._drop()
            return True
        self._roll_back()
        return connection.closed

    def _roll_back(self) -> None:
        connection = self._connection
        if connection is None or connection.closed:
            return
        try:
            if connection.info.transaction_status != pq.TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
        except psycopg.Error:
            self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _why(self, error: psycopg.Error) -> str:
        return f"'{self.place}' cannot be used: {why(error, PATIENCE_S)}."


class _Write:
    """One write with its number; its result is looked up after a break that left it open."""

    def __init__(self, act: Callable[[Connection], Result], writer: uuid.UUID, number: int) -> None:
        self._act, self._writer, self._number = act, writer, number
        self._result: Any = None
        self.in_doubt = False

    def __call__(self, connection: Connection) -> Any:
        if self.in_doubt:
            if self._was_committed(connection):
                return self._result
            self.in_doubt = False
        connection.execute("BEGIN")
        self._result = self._act(connection)
        connection.execute(
            "INSERT INTO devmind.writers VALUES (%s, %s, now()) "
            "ON CONFLICT (writer) DO UPDATE SET write = EXCLUDED.write, at = EXCLUDED.at",
            (self._writer, self._number),
        )
        self.in_doubt = True
        try:
            connection.execute("COMMIT")
        except psycopg.Error:
            self.in_doubt = connection.closed  # a refusal is an answer too
            raise
        self.in_doubt = False
        return self._result

    def _was_committed(self, connection: Connection) -> bool:
        # Overrides the role's setting: data kept during the wait must be visible.
        connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        connection.execute("SELECT FROM devmind.state FOR UPDATE")
        row = connection.execute("SELECT write FROM devmind.writers WHERE writer = %s", (self._writer,)).fetchone()
        connection.execute("COMMIT")
        return row is not None and int(row[0]) == self._number


def connect(conninfo: str) -> Connection:
    """A connection with independent statements, where every acknowledged write is on the server's disk."""
    connection = psycopg.connect(conninfo, autocommit=True, client_encoding="utf8")
    try:
        register(connection)
        connection.execute(_SETTINGS, (f"{PATIENCE_S:g}s",))
    except BaseException:
        connection.close()
        raise
    return connection


def _fate(act: object) -> str:
    if isinstance(act, _Write) and act.in_doubt:
        return " Whether the last write was kept is not known: look before you write it again."
    return ""


def why(error: psycopg.Error, waited_s: float) -> str:
    """PostgreSQL's error, with what to do; one line without a full stop."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    if isinstance(error, errors.LockNotAvailable):
        return f"another process has been writing to it for {waited_s:g} s; end that one or wait"
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return "the server takes no writes (a standby?); give the URL of its primary"
    if isinstance(error, errors.DiskFull):
        return f"the server's disk is full ({first}); free some space"
    if isinstance(error, errors.InsufficientPrivilege):
        return f"{first}; ask the owner of the database for the rights that docs/postgres.md lists"
    if isinstance(error, errors.DataCorrupted | errors.IndexCorrupted):
        return f"it is damaged ({first}); restore a backup"
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return f"no connection to the server ({first}); look whether it runs"
    return first


def shown_place(url_parts: dict[str, Any]) -> str:
    """The place for messages, without password."""
    user = f"{url_parts['user']}@" if url_parts.get("user") else ""
    port = f":{url_parts['port']}" if url_parts.get("port") else ""
    return f"postgresql://{user}{url_parts.get('host') or ''}{port}/{url_parts.get('dbname') or ''}"
