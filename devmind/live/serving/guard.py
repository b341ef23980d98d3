"""Who may see the page: whoever has the address with its token, in one browser, under the host's own name.

Other programs and users of the machine can reach a port on loopback, and any page in the browser can send requests to
it. Three checks protect it: a token that works once and becomes a cookie that no script can read; a Host header with
our name, against names pointed at 127.0.0.1 later (DNS rebinding); an Origin header of the page itself, against other
pages.

Cookies have no port: a browser sends them to everything that listens on 127.0.0.1. So the cookie opens only the page's
files. The WebSocket, where everything happens, needs a key that only the page has. The key comes once, behind the `#`
of the address that the token leads to, a part that no browser sends anywhere. The page keeps it in its tab's
sessionStorage, which is separate for each port.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import secrets
import threading

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from devmind.bounds import parse_json
from devmind.errors import ConfigError
from devmind.live.serving.patience import refusals

LONGEST_KEY = 500
LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
REFUSAL_STYLE = (
    "body{margin:15vh auto;max-width:36em;padding:0 1.5em;background:#0f1318;color:#e9eef4;font:17px/1.5 system-ui,"
    "sans-serif}a{color:#ffc857}"
)
POLICY = (
    "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    f"style-src 'self' 'sha256-{base64.b64encode(hashlib.sha256(REFUSAL_STYLE.encode()).digest()).decode()}'"
)
SAFE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(self)",
}
NEEDS_TOKEN = "This page needs the address that devmind printed when it started, with the token at its end."
USED_TOKEN = (
    "The token in this address is wrong, or was used before: it opens the page once, in one browser. Take the browser "
    "in which it was opened, or start devmind again for a new address."
)


def host_name(header: str) -> str:
    """The host in a Host header without its port, in small letters; '' for an invalid header."""
    name, port = header.strip().lower(), ""
    if not name.endswith("]"):
        head, colon, tail = name.rpartition(":")
        if colon:
            name, port = head, tail
    plain = name and not set(name) & set("/@\\ ,#?") and (name[0] == "[" or ":" not in name)
    return name if plain and (not port or port.isdecimal()) else ""


class Guard:
    """Wraps an app: nobody reaches it without the cookie, from another origin or under another name.

    Args:
        app: the guarded app.
        host: the name or address to listen on; it is allowed besides those of loopback.
        secure: the page is served with TLS, so the cookie is for TLS only.

    Host may have any port, because `ssh -L` forwards another one.
    """

    def __init__(self, app: ASGIApp, host: str, secure: bool) -> None:
        self.token = secrets.token_urlsafe(24)
        self.refused = 0
        # Cookies have no port: two pages on one machine must not overwrite each other's.
        self.cookie = f"devmind-{secrets.token_hex(4)}"
        self._app, self._secure = app, secure
        self._names = LOOPBACK_NAMES | {host.lower() if ":" not in host else f"[{host.strip('[]').lower()}]"}
        self._session, self.key = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._unused, self._lock = True, threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the app answer; every answer has the security headers."""
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        return await (self._answer(HTTPConnection(scope)) or self._app)(scope, receive, _with_safe_headers(send))

    def _answer(self, connection: HTTPConnection) -> Response | None:
        """The answer in place of the app's; None lets the app answer."""
        host = connection.headers.getlist("host")
        name = host_name(host[0]) if len(host) == 1 else ""
        if name not in self._names:
            return self._refusal(421, f"This page is not for the host name {name or 'in this request'!r}.")
        fault = self._origin_fault(connection, host[0])
        if fault:
            return self._refusal(403, fault)
        if self._known(connection):
            asked = "token" in connection.query_params and connection.url.path == "/"
            return RedirectResponse("/", 303) if asked else None
        token = connection.query_params.get("token", "")
        if not token:
            return self._refusal(403, NEEDS_TOKEN)
        takes = connection.scope["type"] == "http" and Request(connection.scope).method == "GET"
        if not (takes and connection.url.path == "/" and self._take(token)):
            return self._refusal(403, USED_TOKEN)
        answer = RedirectResponse(f"/#key={self.key}", 303)
        answer.set_cookie(self.cookie, self._session, httponly=True, samesite="strict", secure=self._secure)
        return answer

    def _origin_fault(self, connection: HTTPConnection, host: str) -> str:
        origin = connection.headers.get("origin")
        if origin is None:
            is_socket = connection.scope["type"] == "websocket"
            return "A WebSocket is opened by the page itself, which says its Origin." if is_socket else ""
        own = f"{'https' if self._secure else 'http'}://{host.strip().lower()}"
        return "" if origin.lower() == own else "This request comes from another page; only devmind's own may ask."

    def is_key(self, text: object) -> bool:
        """Whether a page's first message is `{"key": ...}` with the right key."""
        if not isinstance(text, str) or len(text) >= LONGEST_KEY:
            return False
        try:
            said = parse_json(text, ConfigError, "A page's first message is its key ({}).")
        except ConfigError:
            return False
        key = said.get("key") if isinstance(said, dict) else None
        return isinstance(key, str) and _same(key, self.key)

    def _known(self, connection: HTTPConnection) -> bool:
        return _same(connection.cookies.get(self.cookie, ""), self._session)

    def _take(self, token: str) -> bool:
        with self._lock:
            right = self._unused and _same(token, self.token)
            self._unused = self._unused and not right
        return right

    def _refusal(self, status: int, sentence: str) -> Response:
        self.refused += 1
        refusals.log("a request was refused")
        page = (
            '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>devmind: not open</title><style>{REFUSAL_STYLE}</style>"
            # After a link from another site the browser holds the cookie back; after a link from here it sends it.
            f'<h1>Not open</h1><p>{html.escape(sentence)}</p><p><a href="/">Try again</a></p>'
        )
        return HTMLResponse(page, status)


def _same(key: str, right: str) -> bool:
    return hmac.compare_digest(key.encode("utf-8", "surrogatepass"), right.encode())


def _with_safe_headers(send: Send) -> Send:
    async def safe(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            MutableHeaders(scope=message).update(SAFE_HEADERS)
        await send(message)

    return safe
