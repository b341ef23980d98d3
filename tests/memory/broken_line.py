"""A loopback proxy to a server that breaks the connection where a test says."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from types import TracebackType
from typing import Self


class BrokenLine:
    """Passes bytes between a client and the server, and breaks the connection when the client sends `mark`.

    Args:
        port: the server's port.
        mark: the bytes at which the connection breaks, the first `times` times.
        passed_on: whether the mark still reaches the server, so that only its answer is lost.
    """

    def __init__(self, port: int, mark: bytes, passed_on: bool, times: int = 1) -> None:
        self._server, self._mark, self._passed_on, self.left = port, mark, passed_on, times
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._door.getsockname()[1])
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        for thread in self._threads:
            thread.join(timeout=10)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server = socket.create_connection(("127.0.0.1", self._server))
                broken = threading.Event()
                for each in (self._send, self._answer):
                    self._threads.append(threading.Thread(target=each, args=(client, server, broken)))
                    self._threads[-1].start()

    def _send(self, client: socket.socket, server: socket.socket, broken: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self.left and self._mark in data:
                    self.left -= 1
                    broken.set()
                    if self._passed_on:
                        server.sendall(data)
                        time.sleep(0.3)  # the server carries it out
                    break
                server.sendall(data)
        _hang_up(client, server)

    def _answer(self, client: socket.socket, server: socket.socket, broken: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while (data := server.recv(65536)) and not broken.is_set():
                client.sendall(data)
        _hang_up(client, server)


def _hang_up(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
