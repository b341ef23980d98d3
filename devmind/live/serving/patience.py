"""Limits of the server: it closes requests that never end and excess connections.

Anyone who reaches the port may open connections, even without a token. So a request's head must come within seconds,
and the number of open connections is limited. Above the limit, the connection that has waited longest without a request
is closed first: the page itself sends its request at once. A WebSocket waits until the page's key has come, since
whoever has the cookie alone can open one. Some places are kept for WebSockets with the key, and some for all others.
Every end that the server decides is one within a second, whatever the other side does. Refusals make one line in the
log, once a minute.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

HEAD_S = 5.0
"""Time limit for a request's head; a page's takes milliseconds."""
CONNECTIONS = 64
"""A page holds at most seven: six for requests and its WebSocket."""
KEPT = 8
"""So many of them only connections with the key may take, and so many only those without it."""
LET_GO_S = 1.0
"""The other side of a connection that has ended here has so long to end it too."""
TELL_EVERY_S = 60.0
TOO_MANY = "there were too many connections"

log = logging.getLogger("devmind.live.serving")


class PatientProtocol(H11Protocol):
    """HTTP/1.1 that closes connections without a request."""

    _waiting: asyncio.TimerHandle | None = None
    _has_begun = False
    """Whether a part of a request has come that is not answered yet."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        others = [one for one in self.connections if not getattr(one, "has_key", False)]
        if len(self.connections) > CONNECTIONS or len(others) > CONNECTIONS - KEPT:
            ours = [one for one in others if isinstance(one, PatientProtocol | PatientSocket)]
            idle = [one for one in ours if one.idle_since_s is not None]
            oldest = min(idle, key=lambda one: one.idle_since_s or 0.0, default=self)
            oldest._let_go(TOO_MANY)
            if oldest is self:
                return
        self._wait()

    def data_received(self, data: bytes) -> None:
        self._has_begun = True
        super().data_received(data)
        if self._is_answering:
            self._wait_no_more()

    def on_response_complete(self) -> None:
        self._has_begun = False
        super().on_response_complete()
        if not self._is_answering and not self.transport.is_closing():
            self._wait()

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._wait_no_more()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    @property
    def idle_since_s(self) -> float | None:
        """When it began to wait for a request, on the loop's clock; None while a request is answered."""
        return None if self._waiting is None else self._waiting.when() - HEAD_S

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(HEAD_S, self._let_go, "its request did not end")

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _let_go(self, why: str) -> None:
        self._wait_no_more()
        self.connections.discard(self)
        self.transport.abort()
        if why == TOO_MANY or self._has_begun:  # browsers hold spare connections: their end is no refusal
            refusals.log(f"a connection was closed, because {why}")


class PatientSocket(WebSocketsSansIOProtocol):
    """A WebSocket that is gone a second after its end here, and gives its place to others until it has shown the key.

    The app finds it as `scope["state"]["socket"]`.

    Attributes:
        has_key: whether the page's key has come.
        idle_since_s: when it was opened, on the loop's clock; None once the key has come.
    """

    has_key = False
    idle_since_s: float | None = None

    def connection_made(self, transport: Any) -> None:
        self.idle_since_s = self.loop.time()
        super().connection_made(transport)

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if not self.close_sent:  # the app runs in a task, which has not begun
            self.scope["state"]["socket"] = self

    def admit(self) -> bool:
        """The key has come; False where all places for connections with the key are taken."""
        keys = [one for one in self.connections if getattr(one, "has_key", False)]
        self.has_key = len(keys) < CONNECTIONS - KEPT
        if self.has_key:
            self.idle_since_s = None
        return self.has_key

    async def run_asgi(self) -> None:
        await super().run_asgi()
        self._end()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.add(self)  # it may have given its place away; now the server forgets it
        super().connection_lost(exc)

    def _end(self) -> None:
        """Abort in a second what the other side has not ended until then: what it does not read would wait for ever."""
        if not self.disconnected:
            self.loop.call_later(LET_GO_S, self.transport.abort)

    def _let_go(self, why: str) -> None:
        self.connections.discard(self)
        self.transport.abort()
        refusals.log(f"a connection was closed, because {why}")


class Refusals:
    """One line in the log for many refusals, so that nobody can fill a terminal with failed requests."""

    def __init__(self) -> None:
        self._last_message_s, self._untold = -TELL_EVERY_S, 0

    def log(self, what: str) -> None:
        """Log a refusal at once or, within a minute of the last line, count it."""
        self._untold += 1
        if time.monotonic() - self._last_message_s >= TELL_EVERY_S:
            log.warning("The page's server: %s (%s refused since the last line).", what, f"{self._untold:,}")
            self._last_message_s, self._untold = time.monotonic(), 0


refusals = Refusals()


class Quiet(logging.Filter):
    """A filter for the server's own log: messages that strangers can cause become refusals, without a traceback."""

    STRANGERS = ("ASGI callable returned without completing", "Invalid HTTP request", "socket.accept() out of system")

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written."""
        text = record.getMessage()
        for start in self.STRANGERS:
            if text.startswith(start):
                refusals.log("a request was refused" if "ASGI" in start else text[:80].rstrip("."))
                return False
        return True


def quiet() -> None:
    """Apply the filter to the loggers of uvicorn and asyncio."""
    for name in ("uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        if not any(isinstance(one, Quiet) for one in logger.filters):
            logger.addFilter(Quiet())
