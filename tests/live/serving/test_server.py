"""The page's server over real sockets: admission, the WebSocket's messages, and no blocking."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from devmind.errors import ConfigError, StoreError
from devmind.live.serving.conversation import ALTOGETHER, AT_ONCE
from devmind.live.serving.guard import host_name
from devmind.live.serving.hosts import check_host
from devmind.live.serving.hub import Hub, as_json
from devmind.live.serving.patience import CONNECTIONS, PatientSocket, Refusals
from devmind.live.serving.server import NO_KEY, PageServer

if TYPE_CHECKING:
    from tests.live.conftest import FakeLife

JPEG = b"image/jpeg"
ROOT = Path(__file__).parents[3]
Opened = tuple[PageServer, str]


class QuietLife:
    """Publishes nothing itself, and fails at its commands."""

    def __init__(self) -> None:
        self.hub, self.mailboxes = Hub(), ()
        self.done: list[tuple[str, Any]] = []
        self.released = threading.Event()

    def welcome(self) -> dict[str, Any]:
        return {"type": "welcome", "version": "0.1.0"}

    def do(self, command: str, arguments: Any) -> dict[str, Any]:
        self.done.append((command, arguments))
        if command == "wait":
            self.released.wait(20)
        if command == "refuse":
            raise StoreError("There is nothing to teach.")
        if command == "break":
            raise RuntimeError("This is a fault of the program, and no sentence for a user.")
        return {"done": command, **arguments}


@pytest.fixture
def server() -> Iterator[PageServer]:
    """A server whose address was not opened."""
    life = QuietLife()
    with PageServer(life, life.hub) as server:
        yield server


@pytest.fixture(scope="module")
def opened() -> Iterator[Opened]:
    """A server with the cookie of its opened address, for many tests: stopping one takes a fifth of a second."""
    life = QuietLife()
    with PageServer(life, life.hub) as server:
        yield server, let_in(server)


def get(server: Any, path: str = "/", method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    """(status, headers in small letters, body) of one request."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        names = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, names, answer.read().decode()


def token_path(server: Any) -> str:
    parts = urlsplit(server.address)
    return f"{parts.path}?{parts.query}"


def let_in(server: Any) -> str:
    """The cookie of the address."""
    return get(server, token_path(server))[1]["set-cookie"].partition(";")[0]


def talk(server: Any, cookie: str, **headers: str) -> ClientConnection:
    sent = {"Cookie": cookie, "Origin": f"http://127.0.0.1:{server.port}"} | headers
    socket = connect(f"ws://127.0.0.1:{server.port}/ws", additional_headers=sent, proxy=None, compression=None)
    socket.send(json.dumps({"key": server.guard.key}))
    assert next_of(socket, "welcome")["version"]
    return socket


def next_of(socket: ClientConnection, kind: str) -> dict[str, Any]:
    """The next JSON message of a type; others are skipped."""
    give_up_s = time.monotonic() + 10
    while time.monotonic() < give_up_s:
        message = socket.recv(timeout=5)
        if isinstance(message, str) and (found := json.loads(message))["type"] == kind:
            return found
    raise AssertionError(f"no message of type {kind} came")


def drain(socket: ClientConnection) -> None:
    """Read until the server ends the conversation; TimeoutError if it falls silent."""
    with suppress(ConnectionClosed):
        while True:
            socket.recv(timeout=5)


def device_message(kind: bytes, time_s: float, data: bytes) -> bytes:
    return bytes([len(kind)]) + kind + struct.pack("<d", time_s) + data


def soon(is_so: Callable[[], bool]) -> bool:
    """Whether something becomes true within a few seconds."""
    give_up_s = time.monotonic() + 10
    while not is_so() and time.monotonic() < give_up_s:
        time.sleep(0.01)
    return is_so()


def test_token_works_once_and_becomes_a_cookie_that_no_script_reads(server: PageServer) -> None:
    status, headers, _ = get(server, token_path(server))
    assert (status, headers["location"]) == (303, f"/#key={server.guard.key}")
    cookie, *attributes = headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(attributes)
    assert server.guard.token not in cookie
    assert get(server, Cookie=cookie)[0] == 200
    status, headers, body = get(server, token_path(server))
    assert status == 403
    assert "set-cookie" not in headers
    assert "used before" in body
    assert get(server, token_path(server), Cookie=cookie)[0] == 303, "who is in may click the address again"


def test_other_requests_do_not_use_up_the_token(server: PageServer) -> None:
    assert get(server, token_path(server), method="HEAD")[0] == 403
    assert get(server, token_path(server).replace("/?", "/main.js?"))[0] == 403
    assert get(server, token_path(server) + "x")[0] == 403
    assert get(server, token_path(server))[0] == 303


@pytest.mark.parametrize("path", ["/", "/main.js", "/page.css", "/ws", "/nothing", "/..%2fserver.py"])
def test_nothing_is_served_without_the_cookie(opened: Opened, path: str) -> None:
    server, _ = opened
    status, _, body = get(server, path)
    assert status == 403
    assert "address that devmind printed" in body
    assert get(server, path, Cookie=f"{server.guard.cookie}=guessed")[0] == 403


def test_every_file_of_the_page_has_safe_headers_and_no_foreign_address(opened: Opened) -> None:
    server, cookie = opened
    _, _, page = get(server, Cookie=cookie)
    seen, queue = set(), ["/", *(f"/{name}" for name in re.findall(r'(?:src|href)="([^"#]+)"', page))]
    while queue:
        path = queue.pop()
        if path in seen:
            continue
        seen.add(path)
        status, headers, text = get(server, path, Cookie=cookie)
        assert status == 200, path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "default-src 'self'" in headers["content-security-policy"]
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), f"{path} names another place"
        assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|style=", text), f"{path} has inline code"
        queue += [f"/{name}" for name in re.findall(r'(?:from|addModule\() ?"(?:\./)?([\w.]+)"', text)]
    assert {"/worklet.js", "/link.js", "/large.css", "/lines.js"} <= seen
    assert get(server, "/server.py", Cookie=cookie)[0] == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "", "[::1", "a:b:1"]
)
def test_another_host_name_is_refused(opened: Opened, host: str) -> None:
    server, cookie = opened
    assert get(server, Cookie=cookie, Host=host)[0] in (400, 421)
    assert get(server, token_path(server), Host=host)[0] in (400, 421)


@pytest.mark.parametrize("host", ["localhost:9999", "127.0.0.1:80", "[::1]:1234", "LOCALHOST"])
def test_forwarded_port_is_accepted(opened: Opened, host: str) -> None:
    server, cookie = opened
    assert get(server, Cookie=cookie, Host=host)[0] == 200


def test_host_names_are_compared_without_their_port() -> None:
    assert [host_name(h) for h in ("A.b:1", "[::1]:8", "[::1]", "x")] == ["a.b", "[::1]", "[::1]", "x"]
    assert [host_name(h) for h in ("a:b", "::1", "a:1:2", "u@a", "a/b", ":80", "")] == [""] * 7


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "http://127.0.0.1:1", "null", "https://127.0.0.1:{port}", "http://localhost:{port}"],
)
def test_another_origin_is_refused(opened: Opened, origin: str) -> None:
    server, cookie = opened
    origin = origin.format(port=server.port)
    assert get(server, Cookie=cookie, Origin=origin)[0] == 403
    with pytest.raises(InvalidStatus, match="403"):
        talk(server, cookie, Origin=origin)


def test_websocket_needs_cookie_and_origin(opened: Opened) -> None:
    server, cookie = opened
    with pytest.raises(InvalidStatus, match="403"):
        talk(server, "other=1")
    with pytest.raises(InvalidStatus, match="403"):
        connect(f"ws://127.0.0.1:{server.port}/ws", additional_headers={"Cookie": cookie}, proxy=None)
    assert server.guard.refused >= 2


def test_views_are_sent_as_they_happen(life: FakeLife) -> None:
    with PageServer(life, life.hub) as server:
        with talk(server, let_in(server)) as socket:
            first, second = next_of(socket, "tick"), next_of(socket, "tick")
        assert second["tick"] > first["tick"]
        assert soon(lambda: not life.hub.watched), "who has gone no longer looks"


def test_command_is_answered_by_its_number(opened: Opened) -> None:
    server, cookie = opened
    with talk(server, cookie) as socket:
        socket.send(json.dumps({"id": 7, "do": "record", "with": {"on": True}}))
        done = {"done": "record", "on": True}
        assert next_of(socket, "answer") == {"type": "answer", "id": 7, "ok": True, "answer": done}
        socket.send(json.dumps({"id": 8, "do": "refuse"}))
        refused = {"type": "answer", "id": 8, "ok": False, "sentence": "There is nothing to teach."}
        assert next_of(socket, "answer") == refused
        socket.send(json.dumps({"id": 9, "do": "break"}))
        assert next_of(socket, "answer")["sentence"] == "'break' failed; the terminal says why."


def test_slow_command_blocks_nothing() -> None:
    life = QuietLife()
    with PageServer(life, life.hub) as server, talk(server, let_in(server)) as socket:
        socket.send(json.dumps({"id": 1, "do": "wait"}))
        socket.send(json.dumps({"id": 2, "do": "quick"}))
        assert next_of(socket, "answer")["id"] == 2
        life.released.set()
        assert next_of(socket, "answer")["id"] == 1
        life.released.clear()
        for number in range(9):
            socket.send(json.dumps({"id": number, "do": "wait"}))
        assert "commands are waiting already" in next_of(socket, "told")["sentence"]
        life.released.set()
        assert {next_of(socket, "answer")["id"] for _ in range(8)} == set(range(8))


@pytest.mark.parametrize("ending", [[], [("press", {"on": False})], [("teach", {"name": "cup"})]])
def test_a_page_that_leaves_releases_the_button_that_it_holds(ending: list[tuple[str, Any]]) -> None:
    """Else a life would go on gathering looks for a press that nobody can end."""
    life = QuietLife()
    with PageServer(life, life.hub) as server:
        with talk(server, let_in(server)) as socket:
            for number, (command, told) in enumerate([("press", {"on": True}), *ending]):
                socket.send(json.dumps({"id": number, "do": command, "with": told}))
                assert next_of(socket, "answer")["id"] == number
        assert soon(lambda: not life.hub.watched)
    assert life.done == [("press", {"on": True}), *(ending or [("press", {"on": False})])]


@pytest.mark.parametrize(
    "message",
    ["no json", "[1]", '{"id": "1", "do": "teach"}', '{"id": 1}', '{"id": 1, "do": "a", "with": 3}', "[" * 9000,
     "x" * 20_000, b"", b"\x0aimage", device_message(b"image/jpeg", float("nan"), b"1"),
     device_message(b"text/plain", 1.0, b"1"), device_message("bäh".encode(), 1.0, b"1")],
)  # fmt: skip
def test_malformed_message_is_counted_and_answered(opened: Opened, message: str | bytes) -> None:
    server, cookie = opened
    before = server.shared.malformed
    with talk(server, cookie) as socket:
        socket.send(message)
        assert next_of(socket, "told")["sentence"].endswith(".")
        assert server.shared.malformed == before + 1
        assert server.shared.giver is None
        socket.send(json.dumps({"id": 1, "do": "memories"}))
        assert next_of(socket, "answer")["ok"], "the conversation goes on"


def test_too_large_message_ends_only_its_conversation(opened: Opened) -> None:
    server, cookie = opened
    with talk(server, cookie) as socket:
        with suppress(ConnectionClosed):
            socket.send(b"0" * 4_100_000)
        drain(socket)
    talk(server, cookie).close()


def test_device_messages_reach_the_mailboxes_from_one_page_at_a_time(life: FakeLife) -> None:
    import cv2
    import numpy as np

    frame = np.full((48, 64, 3), (0, 0, 200), np.uint8)  # red, in OpenCV's order of channels
    jpeg = cv2.imencode(".jpg", frame)[1].tobytes()
    with PageServer(life, life.hub) as server:
        cookie = let_in(server)
        first, second = talk(server, cookie), talk(server, cookie)
        first.send(device_message(JPEG, 1.0, jpeg))
        assert soon(lambda: bool(life.frames))
        red, green, _ = life.camera.read_latest(5.0)[0].reshape(-1, 3).mean(axis=0)
        assert red > 150
        assert green < 50
        second.send(device_message(JPEG, 50.0, jpeg))
        assert next_of(second, "told")["about"] == "devices"
        assert server.shared.refused == 1
        first.close()
        assert soon(lambda: server.shared.giver is None)
        second.send(device_message(b"audio/s16;rate=16000", 50.0, bytes(640)))
        assert soon(lambda: server.shared.giver is not None)
        second.close()
    assert life.camera.drops == 0


def test_page_that_reads_no_more_gives_its_camera_free(life: FakeLife, monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a tunnel that broke: its socket stays open, and the server's messages pile up."""
    import cv2
    import numpy as np

    monkeypatch.setattr("devmind.live.serving.conversation.GONE_S", 0.5)
    jpeg = cv2.imencode(".jpg", np.zeros((48, 64, 3), np.uint8))[1].tobytes()
    with PageServer(life, life.hub) as server:
        cookie = let_in(server)
        gone = talk(server, cookie)
        gone.send(device_message(JPEG, 1.0, jpeg))
        assert soon(lambda: server.shared.giver is not None)
        life.extra["filler"] = "x" * 2_000_000  # its queue is full after some of these, and nobody takes them
        assert soon(lambda: server.shared.giver is None)
        life.extra.clear()
        second = talk(server, cookie)
        second.send(device_message(JPEG, 1.0, jpeg))
        assert soon(lambda: server.shared.giver is not None)
        assert server.shared.refused == 0
        second.close()
        gone.socket.close()


def test_picture_of_the_machine_camera_is_sent_before_its_view() -> None:
    life = QuietLife()
    with PageServer(life, life.hub) as server, talk(server, let_in(server)) as socket:
        life.hub.publish({"type": "tick", "tick": 1}, b"a jpeg")
        assert socket.recv(timeout=5) == b"\x01a jpeg"
        assert json.loads(socket.recv(timeout=5))["tick"] == 1


def test_slow_viewer_does_not_block_the_publisher_and_gets_the_newest_view() -> None:
    life = QuietLife()
    jpeg = bytes(1_000_000)
    with PageServer(life, life.hub) as server, talk(server, let_in(server)) as socket:
        took_s = []
        for tick in range(300):
            begun_s = time.perf_counter()
            life.hub.publish({"type": "tick", "tick": tick}, jpeg)
            took_s.append(time.perf_counter() - begun_s)
            time.sleep(0.002)
        assert sorted(took_s)[150] < 0.02, "one that waits for the viewer waits until that one reads"
        assert life.hub.drops > 50
        seen = [next_of(socket, "tick")["tick"]]
        while seen[-1] < 299:
            seen.append(next_of(socket, "tick")["tick"])
    assert seen == sorted(seen)
    assert len(seen) + life.hub.drops == 300


def test_stop_takes_bounded_time_and_tells_the_viewers(life: FakeLife) -> None:
    before = set(threading.enumerate())
    with PageServer(life, life.hub) as server:
        socket = talk(server, let_in(server))
        begun_s = time.monotonic()
    assert time.monotonic() - begun_s < 10
    drain(socket)
    assert not life.hub.watched
    assert set(threading.enumerate()) <= before


def test_taken_port_is_reported(opened: Opened) -> None:
    with pytest.raises(ConfigError, match="Leave the port out"):
        PageServer(QuietLife(), Hub(), port=opened[0].port).__enter__()


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::"])
def test_listening_everywhere_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="one name or address"):
        check_host(host, has_tls=True)


def test_host_beyond_loopback_needs_tls() -> None:
    with pytest.raises(ConfigError, match="certificate"):
        PageServer(QuietLife(), Hub(), host="192.0.2.1")
    check_host("192.0.2.1", has_tls=True)
    for host in ("localhost", "127.0.0.1", "127.1.2.3", "::1"):
        check_host(host, has_tls=False)


INSIDE = """
import sys
from tests.live.serving.test_server import QuietLife
from devmind.live.serving.server import PageServer
life = QuietLife()
bind = {"bind": sys.argv[1]} if sys.argv[1] else {}
with PageServer(life, life.hub, port=8790, **bind) as server:
    print(server.address, server.guard.key, flush=True)
    sys.stdin.read()
"""


PUBLISH = """
import ctypes, os, socket, sys, threading
def copy(one, other):
    try:
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
listener = socket.create_server(("127.0.0.1", 0))
NET = 0x40000000
assert ctypes.CDLL(None).setns(os.open("/run/netns/" + sys.argv[1], os.O_RDONLY), NET) == 0
print(listener.getsockname()[1], flush=True)
while True:
    outside, _ = listener.accept()
    try:
        inside = socket.create_connection(("10.213.0.2", 8790))
    except OSError:
        outside.close()
        continue
    for pair in ((outside, inside), (inside, outside)):
        threading.Thread(target=copy, args=pair, daemon=True).start()
"""
"""Forwards a port of 127.0.0.1 to the container, as `docker run -p` does; it connects from the namespace beside it."""


@pytest.fixture
def container() -> Iterator[str]:
    """The name of a network namespace, reached at 10.213.0.2 as a container is."""
    if shutil.which("ip") is None or os.geteuid():
        pytest.skip("no iproute2, or not root: make test-system")
    name = f"devmind-{os.getpid()}"
    # Both ends of the cable lie in namespaces of their own: Chromium breaks off the connections of all its pages, those
    # of 127.0.0.1 too, when an interface appears beside it, and tests of pages run at the same time.
    words = (
        f"netns add {name}", f"netns add {name}-host",
        f"-n {name}-host link add outer type veth peer name inner netns {name}",
        f"-n {name}-host addr add 10.213.0.1/30 dev outer", f"-n {name}-host link set outer up",
        f"-n {name} addr add 10.213.0.2/30 dev inner", f"-n {name} link set inner up", f"-n {name} link set lo up",
    )  # fmt: skip
    try:
        for line in words:
            subprocess.run(["ip", *line.split()], check=True, capture_output=True)
        yield name
    finally:
        for each in (name, f"{name}-host"):
            subprocess.run(["ip", "netns", "del", each], check=False, capture_output=True)


@pytest.mark.parametrize("bind", ["0.0.0.0", ""])
def test_page_in_a_container_is_opened_by_its_published_port(container: str, bind: str) -> None:
    """`docker run -p 9000:8790` did not reach the container's own 127.0.0.1, and 0.0.0.0 was refused."""
    words = ["ip", "netns", "exec", container, sys.executable, "-c", INSIDE, bind]
    inside = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    published = subprocess.Popen(
        [sys.executable, "-c", PUBLISH, f"{container}-host"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert inside.stdout is not None
        assert published.stdout is not None
        address, key = inside.stdout.readline().split()
        assert address.startswith("http://127.0.0.1:8790/?token=")
        outside = SimpleNamespace(port=int(published.stdout.readline()), address=address)
        if not bind:
            with pytest.raises((ConnectionError, http.client.HTTPException)):
                get(outside, token_path(outside))
            return
        strange = get(outside, token_path(outside), Host="10.213.0.2:8790")
        assert strange[0] == 421, "the container's own address is no name of the page"
        outside.guard = SimpleNamespace(key=key)
        cookie = let_in(outside)
        assert get(outside, Cookie=cookie)[0] == 200
        assert get(outside)[0] == 403
        assert get(outside, token_path(outside))[0] == 403, "the token works once"
        talk(outside, cookie).close()
        sent = {"Cookie": cookie, "Origin": "http://127.0.0.1:8790"}
        with pytest.raises(InvalidStatus, match="403"):
            connect(f"ws://127.0.0.1:{outside.port}/ws", additional_headers=sent, proxy=None)
    finally:
        published.kill()
        published.communicate()
        inside.communicate("", timeout=20)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate: make test-system")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=127.0.0.1"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", *words.split(), *names], check=True, capture_output=True)
    return certificate, key


def test_cookie_is_secure_under_tls(certificate: tuple[Path, Path]) -> None:
    trusted = ssl.create_default_context(cafile=certificate[0])
    with PageServer(QuietLife(), Hub(), tls=certificate) as server:
        assert server.address.startswith(f"https://127.0.0.1:{server.port}/?token=")
        with closing(http.client.HTTPSConnection("127.0.0.1", server.port, timeout=5, context=trusted)) as connection:
            connection.request("GET", token_path(server))
            cookie = connection.getresponse().headers["Set-Cookie"]
        assert "Secure" in cookie
        sent = {"Cookie": cookie.partition(";")[0], "Origin": f"https://127.0.0.1:{server.port}"}
        address = f"wss://127.0.0.1:{server.port}/ws"
        with connect(address, additional_headers=sent, proxy=None, ssl=trusted) as socket:
            socket.send(json.dumps({"key": server.guard.key}))
            assert next_of(socket, "welcome")
        sent["Origin"] = f"http://127.0.0.1:{server.port}"
        with pytest.raises(InvalidStatus, match="403"):
            connect(address, additional_headers=sent, proxy=None, ssl=trusted)


def test_unreadable_certificate_is_reported(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("nothing\n")
    for pair in ((nothing, nothing), (tmp_path / "missing.pem", certificate[1])):
        with pytest.raises(ConfigError, match="cannot be used"):
            PageServer(QuietLife(), Hub(), tls=pair)


def test_json_for_browsers_has_no_nan() -> None:
    import numpy as np

    view = {"a": float("nan"), "b": [1.5, float("inf")], "c": np.float32(0.5), "d": np.arange(3), "e": None, "f": True}
    assert json.loads(as_json({(1, 2): 0.5})) == {"(1, 2)": 0.5}
    assert json.loads(as_json(view)) == {"a": None, "b": [1.5, None], "c": 0.5, "d": [0, 1, 2], "e": None, "f": True}


@pytest.mark.parametrize(
    "first",
    [None, "", "{}", '{"key": ""}', '{"key": 5}', '{"key": "wrong"}', '["key"]', b"key", "[" * 400, "x" * 5000,
     '{"key": "\\ud800"}', '{"id": 1, "do": "name", "with": {}}'],
)  # fmt: skip
def test_cookie_alone_opens_no_conversation(opened: Opened, first: str | bytes | None) -> None:
    """Chromium sends the cookie to every server on 127.0.0.1, because cookies ignore ports."""
    server, cookie = opened
    sent = {"Cookie": cookie, "Origin": f"http://127.0.0.1:{server.port}"}
    refused = server.guard.refused
    with connect(f"ws://127.0.0.1:{server.port}/ws", additional_headers=sent, proxy=None) as socket:
        if first is None:
            socket.close()
        else:
            socket.send(first)
            with pytest.raises(ConnectionClosed) as told:
                socket.recv(timeout=10)
            assert told.value.rcvd is not None
            assert told.value.rcvd.code == NO_KEY
    assert soon(lambda: server.guard.refused == refused + 1)
    assert server.shared.hub.watched is False


def test_no_served_file_holds_the_key(opened: Opened) -> None:
    server, cookie = opened
    for path in ("/", "/main.js", "/link.js", "/key.js", "/?token=x", token_path(server)):
        status, headers, body = get(server, path, Cookie=cookie)
        assert status in (200, 303, 403)
        assert server.guard.key not in body + str(headers)


def test_incomplete_requests_are_closed_and_many_connections_lock_nobody_out(
    server: PageServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("devmind.live.serving.patience.HEAD_S", 1.0)
    cookie = let_in(server)
    crowd = []
    for _ in range(100):
        one = socket.create_connection(("127.0.0.1", server.port), timeout=5)
        one.sendall(b"GET / HTTP/1.1\r\nHost: 127")
        crowd.append(one)
    assert get(server, Cookie=cookie)[0] == 200  # while all of them are open
    for one in crowd:
        with suppress(ConnectionError):
            assert one.recv(1) == b""
        one.close()
    assert get(server, Cookie=cookie)[0] == 200
    assert len([record for record in caplog.records if "was closed, because" in record.getMessage()]) <= 2


def silent_socket(server: PageServer, cookie: str, key: str | None) -> socket.socket:
    """A WebSocket that says its key and nothing after, not even an answer to a close; its buffer is small."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.settimeout(5)
    one.connect(("127.0.0.1", server.port))
    asked = (
        f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nOrigin: http://127.0.0.1:{server.port}\r\n"
        f"Cookie: {cookie}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    one.sendall(asked.encode())
    with suppress(ConnectionError):
        assert one.recv(12).endswith(b"101")
        if key is not None:
            said = json.dumps({"key": key}).encode()
            one.sendall(bytes([0x81, 0x80 | len(said), 0, 0, 0, 0]) + said)
    return one


@pytest.mark.parametrize("kind", ["without a key", "with a wrong key", "with the key", "with the key, and views come"])
def test_websockets_that_never_answer_lock_nobody_out(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stayed after their end until TCP gave up, and the cookie alone took a place."""
    for place in ("server.HEAD_S", "patience.HEAD_S", "conversation.GONE_S"):
        monkeypatch.setattr(f"devmind.live.serving.{place}", 1.0)
    monkeypatch.setattr("devmind.live.serving.server.PING_S", 0.5)
    monkeypatch.setattr("devmind.live.serving.server.GONE_S", 60.0 if "views" in kind else 3.0)
    monkeypatch.setattr("devmind.live.serving.patience.LET_GO_S", 0.2)
    life = QuietLife()
    with PageServer(life, life.hub) as server:
        cookie, connections = let_in(server), server._server.server_state.connections
        key = {"without a key": None, "with a wrong key": "wrong"}.get(kind, server.guard.key)
        sockets = lambda: [one for one in tuple(connections) if isinstance(one, PatientSocket)]  # noqa: E731
        crowd = [silent_socket(server, cookie, key) for _ in range(70)]
        assert len(connections) <= CONNECTIONS + 1
        watched, give_up_s = False, time.monotonic() + 30
        while sockets() and time.monotonic() < give_up_s:
            assert get(server, Cookie=cookie)[0] == 200
            watched |= life.hub.watched
            if "views" in kind:
                life.hub.publish({"type": "tick", "filler": "x" * 3_000_000})
            time.sleep(0.1)
        assert not sockets()
        assert watched == (key == server.guard.key)
        assert not life.hub.watched
        for one in crowd:
            one.close()
        talk(server, cookie).close()


def test_commands_of_other_pages_let_a_new_page_in_and_are_limited_together() -> None:
    """A welcome waited 14 s behind the commands of twelve pages, because all shared the same threads."""
    life = QuietLife()
    with PageServer(life, life.hub) as server:
        cookie, pages = let_in(server), list[ClientConnection]()
        for _ in range(ALTOGETHER // AT_ONCE):
            pages.append(talk(server, cookie))
            for number in range(AT_ONCE):
                pages[-1].send(json.dumps({"id": number, "do": "wait"}))
        assert soon(lambda: server.shared.waiting == ALTOGETHER)
        one_more = talk(server, cookie)
        one_more.send(json.dumps({"id": 1, "do": "name"}))
        assert "of all pages are waiting" in next_of(one_more, "told")["sentence"]
        pages.pop(0).close()
        assert server.shared.waiting == ALTOGETHER, "a page that left keeps its threads busy all the same"
        life.released.set()
        assert soon(lambda: server.shared.waiting == 0)
        one_more.send(json.dumps({"id": 2, "do": "name"}))
        assert next_of(one_more, "answer")["ok"]
        for page in (*pages, one_more):
            page.close()


def test_spare_connection_of_a_browser_is_closed_without_a_warning(
    server: PageServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("devmind.live.serving.patience.HEAD_S", 0.3)
    monkeypatch.setattr("devmind.live.serving.patience.refusals", Refusals())
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as spare:
        assert spare.recv(1) == b"", "it was closed"
    assert not [record for record in caplog.records if "was closed" in record.getMessage()]
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as begun, suppress(ConnectionError):
        begun.sendall(b"GET / HTTP/1.1\r\nHost: 127")
        begun.recv(1)
    assert soon(lambda: any("its request did not end" in record.getMessage() for record in caplog.records))


def test_refusals_are_logged_once_a_minute(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    server, cookie = opened
    for _ in range(20):
        with pytest.raises(InvalidStatus):
            connect(f"ws://127.0.0.1:{server.port}/ws", additional_headers={"Cookie": cookie}, proxy=None)
        get(server, "/?token=wrong")
    assert len(caplog.records) <= 2, [record.getMessage() for record in caplog.records]
    assert not any(record.exc_info for record in caplog.records)
