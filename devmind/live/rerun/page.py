"""Rerun's own viewer as a page of this machine that may talk to this machine only.

The page that Rerun serves reports its use to Rerun.io whatever has been switched off, and asks Google for a font and
GitHub for news. A Content-Security-Policy on the same page lets the browser refuse all of that; links to elsewhere,
which browsers open a connection for ahead of any policy, are left out.
"""

from __future__ import annotations

import io
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import ProxyHandler, build_opener

LOOPBACK = "127.0.0.1"
START_S = 15.0
KEPT_HEADERS = ("Content-Type", "Content-Length", "Content-Encoding")
_LINKS_OUT = re.compile(rb"<link\b[^>]*\bhref=\"https?://[^>]*>")
_DIRECT = build_opener(ProxyHandler({}))


@contextmanager
def page(from_port: int, data_port: int) -> Iterator[str]:
    """Serve what Rerun serves on `from_port`, with the policy; gives the address to open.

    Args:
        data_port: that of Rerun's gRPC server, the one address besides its own that the page may ask.
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
            """Nothing: the terminal belongs to the life."""

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
