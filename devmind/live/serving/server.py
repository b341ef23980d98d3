"""The page's server: one port on this machine, in a separate thread, closed within two seconds.

On a host other than loopback it needs TLS: otherwise anyone on the network could read the token and the pictures, and
browsers give such a page no camera.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from devmind.errors import ConfigError
from devmind.live.serving.conversation import (
    GONE_S,
    LARGEST_BYTES,
    Conversation,
    PageLife,
    ServerState,
    say_farewell,
)
from devmind.live.serving.guard import Guard
from devmind.live.serving.hosts import check_bind, check_host, listen
from devmind.live.serving.hub import Hub
from devmind.live.serving.patience import HEAD_S, TOO_MANY, PatientProtocol, PatientSocket, quiet, refusals

STOP_S = 2.0
FAREWELL_S = 0.5
"""Longest time for telling every page that the life has ended."""
START_S = 10.0
NO_KEY = 4403
"""The WebSocket's code for a page without the right key; the page knows it."""
NO_PLACE = 1013
"""And for one above the number of pages; the page tries again later."""
PING_S = 2.0
"""A page is asked for a sign of life so often; its browser answers by itself."""
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class PageServer:
    """Serves the page of one life while its `with` block lasts.

    Args:
        life: answers the page's commands.
        hub: the source of the views.
        host: the name or address to listen on, as viewers will type it; other than loopback only with `tls`.
        port: 0 takes a free one.
        tls: files with the certificate (chain) and its private key, in PEM.
        files: of another page, by name, beside those of the live page and in place of them.
        bind: the address to listen on, if that is not `host`: in a container a published port reaches 0.0.0.0, while
            the page is opened as 127.0.0.1. Only where the user asks for it: without TLS it relies on the port being
            published to one machine.

    Attributes:
        address: the address to open, with a token that works once; there from the start of the block.
        shared: counters of malformed and refused messages; guard: counter of refused requests.

    Raises:
        ConfigError: another host without TLS, an unreadable certificate, a port that is taken.
    """

    def __init__(
        self,
        life: PageLife,
        hub: Hub,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: tuple[Path, Path] | None = None,
        files: Mapping[str, bytes] | None = None,
        bind: str | None = None,
    ) -> None:
        check_host(host, tls is not None)
        if bind is not None:
            check_bind(bind, port)
        self.shared = ServerState(life, hub)
        files = _page_files() | dict(files or {})
        routes: list[BaseRoute] = [Route(f"/{name}", _file(data, name)) for name, data in files.items()]
        routes += [Route("/", _file(files["index.html"], "index.html")), WebSocketRoute("/ws", self._converse)]
        self.guard = Guard(Starlette(routes=routes), host, secure=tls is not None)
        self.host, self.port, self.address = host, port, ""
        self._bind = host if bind is None else bind
        self._secure = tls is not None
        quiet()
        self._server = uvicorn.Server(_config(self.guard, tls))

    def __enter__(self) -> Self:
        listener = listen(self._bind, self.port)
        self.port = listener.getsockname()[1]
        name = f"[{self.host.strip('[]')}]" if ":" in self.host else self.host
        self.address = f"http{'s' if self._secure else ''}://{name}:{self.port}/?token={self.guard.token}"
        self._thread = threading.Thread(target=self._serve, args=(listener,), name="page-server", daemon=True)
        self._thread.start()
        give_up_s = time.monotonic() + START_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > give_up_s:
                self.__exit__()
                raise ConfigError(f"The page's server did not start on {self.host}:{self.port}.")
            time.sleep(0.005)
        return self

    def __exit__(self, *error: object) -> None:
        self.shared.ended = True
        give_up_s = time.monotonic() + FAREWELL_S
        while self.shared.hub.watched and self._thread.is_alive() and time.monotonic() < give_up_s:
            time.sleep(0.005)
        self._server.should_exit = True
        self._thread.join(STOP_S)
        if self._thread.is_alive():
            self._server.force_exit = True

    def _serve(self, listener: socket.socket) -> None:
        try:
            self._server.run([listener])
        finally:
            self.shared.end()

    async def _converse(self, web_socket: WebSocket) -> None:
        await web_socket.accept()
        if not await self._has_key(web_socket):
            return
        if web_socket.scope["state"]["socket"].admit():
            await Conversation(web_socket, self.shared).run()
        else:
            refusals.log(f"a page was refused, because {TOO_MANY}")
            await say_farewell(web_socket, NO_PLACE)

    async def _has_key(self, web_socket: WebSocket) -> bool:
        """Whether the first message is the key that only the page has; without it the connection is closed."""
        message: Mapping[str, Any] = {}
        with contextlib.suppress(TimeoutError, WebSocketDisconnect):
            message = await asyncio.wait_for(web_socket.receive(), HEAD_S)
        if self.guard.is_key(message.get("text")):
            return True
        self.guard.refused += 1
        refusals.log("a WebSocket without the page's key was refused")
        if message.get("type") != "websocket.disconnect":
            await say_farewell(web_socket, NO_KEY)
        return False


def _config(guard: Guard, tls: tuple[Path, Path] | None) -> uvicorn.Config:
    certificate, key = tls or (None, None)
    config = uvicorn.Config(
        guard,
        loop="asyncio",
        http=PatientProtocol,
        ws=PatientSocket,
        ws_max_size=LARGEST_BYTES,
        ws_ping_interval=PING_S,
        ws_ping_timeout=GONE_S - PING_S,
        ws_per_message_deflate=False,  # pictures are already compressed, and the tick needs the processor
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",
        access_log=False,  # the address holds the token
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"The certificate {certificate} with the key {key} cannot be used: {error}.") from None
    return config


def _page_files() -> dict[str, bytes]:
    """The files of a page, by name: read once, so no request reaches the disk."""
    folder = resources.files("devmind.live") / "page"
    return {item.name: item.read_bytes() for item in folder.iterdir() if Path(item.name).suffix in TYPES}


def _file(data: bytes, name: str) -> Callable[[Request], Awaitable[Response]]:
    async def give(_: Request) -> Response:
        return Response(data, media_type=TYPES[Path(name).suffix])

    return give
