"""Immediate notice of other processes' writes: LISTEN on a separate connection, in a separate thread.

A notification says only that something has changed; `Store.changes`, which counts every write, says what. So a lost
notification loses nothing: after a break, and whenever it has been quiet for a while, the counter is compared.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

import psycopg

from devmind.memory.stores.postgres.link import FIRST_PAUSE_S, LONGEST_PAUSE_S, Connection, connect
from devmind.memory.stores.postgres.rows import rows_of

CHANNEL = "devmind"
QUIET_S = 5.0
"""A lost notification is made up for after this time."""
_SLICE_S = 0.2


class Watch:
    """A context manager: while it is open, `changed` is called soon after each write of any process.

    It is called from the watch's thread, once for several writes that come together, also at the start and after a
    break of the connection.

    Args:
        conninfo: of the server.
        changed: must not raise and must be quick: setting an event is right.
    """

    def __init__(self, conninfo: str, changed: Callable[[], None]) -> None:
        self._conninfo, self._changed = conninfo, changed
        self._ended, self.breaks = threading.Event(), 0
        self._thread = threading.Thread(target=self._run, name="memory-watch")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def _over(self) -> bool:
        return self._ended.is_set() or not threading.main_thread().is_alive()

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._over():
            try:
                with connect(self._conninfo) as connection:
                    connection.execute(f"LISTEN {CHANNEL}".encode())
                    pause_s = FIRST_PAUSE_S
                    known = _counter(connection)  # before listening starts: later writes are reported again
                    self._changed()
                    self._hear(connection, known)
            except psycopg.Error:
                self.breaks += 1
                self._ended.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _hear(self, connection: Connection, known: int) -> None:
        quiet_s = 0.0
        while not self._over():
            heard = sum(1 for _ in connection.notifies(timeout=_SLICE_S, stop_after=1))
            quiet_s = 0.0 if heard else quiet_s + _SLICE_S
            if heard or quiet_s >= QUIET_S:
                before, known, quiet_s = known, _counter(connection), 0.0
                if heard or known != before:
                    self._changed()


def _counter(connection: Connection) -> int:
    return int(rows_of(connection, "SELECT changed FROM devmind.state")[0][0])
