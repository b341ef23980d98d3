"""Immediate notice of other processes' writes: LISTEN on a separate connection, in a separate thread.

A notification says only that something has changed; `Store.changes`, which counts every write, says what. So a lost
notification loses nothing: after a break, and whenever it has been quiet for a while, the counter is compared.
"""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from devmind.memory.stores.postgres.link import FIRST_PAUSE_S, LONGEST_PAUSE_S, Connection, connect
from devmind.memory.stores.postgres.rows import rows_of
from devmind.worker import Worker

CHANNEL = "devmind"
QUIET_S = 5.0
"""A lost notification is made up for after this time."""
_SLICE_S = 0.2


class Watch(Worker[None]):
    """While it is open, `changed` is called soon after each write of any process.

    It is called from the watch's thread, once for several writes that come together, also at the start and after a
    break of the connection.

    Args:
        conninfo: of the server.
        changed: must not raise and must be quick: setting an event is right.
    """

    def __init__(self, conninfo: str, changed: Callable[[], None]) -> None:
        super().__init__("memory-watch", idle_s=0.0)
        self._conninfo, self._changed, self.breaks = conninfo, changed, 0

    def idle(self) -> None:
        """Listen until the connection breaks; the next begins after a pause, longer each time."""
        self.idle_s = min(2 * self.idle_s or FIRST_PAUSE_S, LONGEST_PAUSE_S)
        try:
            with connect(self._conninfo) as connection:
                connection.execute(f"LISTEN {CHANNEL}".encode())
                self.idle_s = FIRST_PAUSE_S
                known = _counter(connection)  # before listening starts: later writes are reported again
                self._changed()
                self._hear(connection, known)
        except psycopg.Error:
            self.breaks += 1

    def _hear(self, connection: Connection, known: int) -> None:
        quiet_s = 0.0
        while not self.is_over:
            heard = sum(1 for _ in connection.notifies(timeout=_SLICE_S, stop_after=1))
            quiet_s = 0.0 if heard else quiet_s + _SLICE_S
            if heard or quiet_s >= QUIET_S:
                before, known, quiet_s = known, _counter(connection), 0.0
                if heard or known != before:
                    self._changed()


def _counter(connection: Connection) -> int:
    return int(rows_of(connection, "SELECT changed FROM devmind.state")[0][0])
