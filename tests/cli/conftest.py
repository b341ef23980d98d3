"""Shared by these tests: a runner of commands, stand-ins for heavy modules, a file server on loopback."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from devmind.cli import app
from devmind.memory import open_store
from devmind.testing import tiny_agent
from devmind.testing.stores import example

Devmind = Callable[..., Result]


@pytest.fixture
def devmind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Devmind:
    """Run one command in process, in an empty folder: `devmind("stage", "show")`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def mind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A memory of nine entries in ./memory."""
    monkeypatch.chdir(tmp_path)
    with open_store(tmp_path / "memory") as store:
        store.add([example(number) for number in range(9)])
    return tmp_path / "memory"


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replace a heavy module by one with the given names: `stand_in("a.b", function=f)`."""

    def place(name: str, **names: Any) -> None:
        module = ModuleType(name)
        vars(module).update(names)
        monkeypatch.setitem(sys.modules, name, module)

    return place


@pytest.fixture(scope="session")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved newborn with sight and sound."""
    folder = tmp_path_factory.mktemp("agent")
    born = tiny_agent()
    for sense in ("sight", "sound"):
        born.add_encoder(sense)
    born.save_pretrained(folder)
    return folder


class FileServer(ThreadingHTTPServer):
    """Serves `files` (path to bytes).

    Attributes:
        cuts: bytes that each of the next answers sends before the connection is closed.
        ranges: whether Range requests are honoured.
        lengths: whether a Content-Length is sent (an archive packed on request has none).
        errors: status codes of the next answers, one per request, before any file is served.
        asked: the Range header (or None) of every request, in order.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.cuts: list[int] = []
        self.errors: list[int] = []
        self.ranges = self.lengths = True
        self.asked: list[str | None] = []

    def __enter__(self) -> FileServer:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *args: object) -> None:
        self.shutdown()
        self.server_close()

    def url(self, path: str) -> str:
        """The address of a file."""
        return f"http://127.0.0.1:{self.server_address[1]}/{path}"


class _Handler(BaseHTTPRequestHandler):
    server: FileServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        content = self.server.files.get(self.path[1:])
        self.close_connection = True
        if self.server.errors:
            return self._end(self.server.errors.pop(0))
        if content is None:
            return self._end(404)
        start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted and self.server.ranges else 0  # type: ignore[index]
        if start and start >= len(content):
            return self._end(416, {"Content-Range": f"bytes */{len(content)}"})
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if self.server.lengths:
            self.send_header("Content-Length", str(len(content) - start))
        self.send_header("Connection", "close")
        self.end_headers()
        cut = self.server.cuts.pop(0) if self.server.cuts else len(content)
        self.wfile.write(content[start : start + cut])

    def _end(self, code: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": "0", **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """A file server on loopback that no proxy of the environment intercepts."""
    monkeypatch.setenv("no_proxy", "*")
    with FileServer() as server:
        yield server
