"""Rerun as one more viewer of a life: a server of its own on this machine, fed by a thread that never delays the loop.

The SDK's own servers listen on every network interface, and its client waits without end for a server that does not
answer. So Rerun's program runs as a process that listens on loopback and reads from a pipe. If it is slow, the Hub
drops views. The end of a life ends that process, whatever it is doing.

The page that Rerun serves reports its use to Rerun.io whatever has been switched off, and asks Google for a font and
GitHub for news. So devmind forwards it under a Content-Security-Policy that allows connections to this machine only:
the browser refuses everything else. Links to other sites are left out, because browsers open connections for them
before any policy applies.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import ProxyHandler, build_opener

from devmind.errors import ConfigError
from devmind.live.rerun.views import RerunViews
from devmind.live.serving.hub import Hub

MEMORY = "256MiB"
"""Memory of the server for viewers that come late; some minutes."""
LOOK_S = 0.02
STOP_S = 2.0
PROGRAMS = ("rerun", "rerun.exe", "Rerun.app/Contents/MacOS/Rerun")
_GUARDIAN = "import os, sys; sys.stdin.read(); os.kill(int(sys.argv[1]), 9)"
"""Rerun's program outlives its pipe, so this guardian waits for the end of its own pipe, however devmind ended."""

LOOPBACK = "127.0.0.1"
START_S = 15.0
KEPT_HEADERS = ("Content-Type", "Content-Length", "Content-Encoding")
_LINKS_OUT = re.compile(rb"<link\b[^>]*\bhref=\"https?://[^>]*>")
_DIRECT = build_opener(ProxyHandler({}))

log = logging.getLogger(__name__)


@contextmanager
def page(from_port: int, data_port: int) -> Iterator[str]:
    """Serve Rerun's page from `from_port` with the policy; gives the address to open.

    Args:
        data_port: port of Rerun's gRPC server, the only other address that the page may ask.
    """
    policy = (
        "default-src 'none'; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; "
        f"frame-ancestors 'none'; connect-src 'self' http://{LOOPBACK}:{data_port}"
    )

    class Passing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                given = _DIRECT.open(f"http://{LOOPBACK}:{from_port}{self.path.partition('?')[0]}", timeout=START_S)
            except (URLError, OSError) as error:
                self.send_error(getattr(error, "code", 502))
                return
            with given:
                html = given.headers.get_content_type() == "text/html"
                body = io.BytesIO(_LINKS_OUT.sub(b"", given.read())) if html else given
                headers = {name: given.headers[name] for name in KEPT_HEADERS if name in given.headers}
                if isinstance(body, io.BytesIO):
                    headers["Content-Length"] = str(len(body.getbuffer()))
                self.send_response(200)
                for name, value in {**headers, "Content-Security-Policy": policy}.items():
                    self.send_header(name, value)
                self.end_headers()
                shutil.copyfileobj(body, self.wfile)

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing: the terminal belongs to the life."""

    with ThreadingHTTPServer((LOOPBACK, 0), Passing) as server:
        server.daemon_threads, server.block_on_close = True, False
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="rerun-page", daemon=True)
        thread.start()
        try:
            stream = quote(f"rerun+http://{LOOPBACK}:{data_port}/proxy", safe="")
            yield f"http://{LOOPBACK}:{server.server_address[1]}/?url={stream}&hide_welcome_screen=1"
        finally:
            server.shutdown()
            thread.join()


class RerunViewer:
    """Shows a life in Rerun while a `watch` block lasts.

    Attributes:
        address: of the page to open; stream: the address for Rerun's own program. Both exist from the start of the
            block.

    Raises:
        ConfigError: Rerun is not installed.
    """

    def __init__(self) -> None:
        self._program = program()
        self.address = self.stream = ""

    @contextmanager
    def watch(self, hub: Hub) -> Iterator[None]:
        """Show everything published to `hub`.

        Raises:
            ConfigError: Rerun's server did not start.
        """
        import rerun

        stream: Any = rerun.RecordingStream("devmind")
        pipe, views = stream.binary_stream(), RerunViews(stream)
        stopped = threading.Event()
        with ExitStack() as stack:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="devmind-rerun-")))
            log_file, ports = home / "said.txt", _free_ports(2)
            process = stack.enter_context(_serving(self._program, ports, home, log_file))
            self.address = stack.enter_context(page(ports[1], ports[0]))
            self.stream = f"rerun+http://{LOOPBACK}:{ports[0]}/proxy"
            assert process.stdin
            thread = threading.Thread(
                target=_feed, args=(hub, views, pipe, process.stdin, stopped), name="rerun", daemon=True
            )
            thread.start()
            try:
                for port in ports:
                    _wait_for(process, port, log_file)
                yield
            finally:
                stopped.set()
                process.kill()  # before joining the thread, which may wait for the process
                thread.join(STOP_S)


def program() -> Path:
    """Rerun's program from the SDK's wheel.

    Raises:
        ConfigError: it is not installed.
    """
    found = find_spec("rerun_cli")
    folder = Path(found.origin).parent if found and found.origin else None
    if folder and find_spec("rerun_bindings"):
        for path in (folder / name for name in PROGRAMS):
            if path.is_file():
                return path
    raise ConfigError("The viewer needs the Rerun SDK: pip install 'devmind[viewer]' (it takes 500 MB).")


def _feed(hub: Hub, views: RerunViews, pipe: Any, into: IO[bytes], stopped: threading.Event) -> None:
    with hub.viewer() as viewer:
        try:
            while not stopped.is_set():
                # The first data is the layout: the server listens only after something came.
                into.write(pipe.read(flush=True, flush_timeout_sec=STOP_S) or b"")
                into.flush()
                while (published := viewer.take()) is None and not stopped.wait(LOOK_S):
                    pass
                if published is not None:
                    views.show(published)
        except OSError:
            if not stopped.is_set():
                log.warning("Rerun's server has ended; the life goes on without that viewer.")
        finally:
            pipe.read(flush=True, flush_timeout_sec=STOP_S)  # the SDK complains about unread data


@contextmanager
def _serving(program: Path, ports: Sequence[int], home: Path, log_file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Rerun's server, on loopback only; it shows what is written to its stdin. It ends with the block or devmind."""
    env = _without_analytics(program, home)
    data_port, web_port = map(str, ports)
    command = [
        str(program), "--serve-web", "--bind", LOOPBACK, "--port", data_port, "--web-viewer-port", web_port,
        "--server-memory-limit", MEMORY, "-",
    ]  # fmt: skip
    with log_file.open("wb") as out:
        # A session of its own: a Ctrl-C in the terminal is for devmind, which ends the server in order.
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=out, stderr=out, env=env, start_new_session=True
        )
    guardian = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _GUARDIAN, str(process.pid)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield process
    finally:
        guardian.kill()
        process.kill()
        for ended in (guardian, process):
            ended.wait()
            with contextlib.suppress(OSError):
                ended.stdin.close() if ended.stdin else None


def _without_analytics(program: Path, home: Path) -> dict[str, str]:
    """An environment with its settings in `home`, where Rerun's analytics, on by default, are switched off."""
    places = {"HOME": home, "XDG_CONFIG_HOME": home / "config", "XDG_DATA_HOME": home / "data"}
    env = {**os.environ, **{name: str(path) for name, path in places.items()}}
    env.pop("FORCE_RERUN_ANALYTICS", None)
    try:
        switch = [str(program), "analytics", "disable"]
        subprocess.run(switch, env=env, check=True, timeout=START_S, capture_output=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigError(f"Rerun's analytics could not be turned off, so it is not started: {error}.") from None
    return env


def _wait_for(process: subprocess.Popen[bytes], port: int, log_file: Path) -> None:
    give_up_s = time.monotonic() + START_S
    while time.monotonic() < give_up_s and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), 1.0):
            return
        time.sleep(0.02)
    why = log_file.read_text(encoding="utf-8", errors="replace").strip()[-300:]
    raise ConfigError(f"Rerun's server did not start on {LOOPBACK}:{port}; it said: {why or 'nothing'}.")


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind((LOOPBACK, 0))
        return [int(listener.getsockname()[1]) for listener in listeners]
