"""One page's WebSocket: views go out, commands and the page's camera and microphone come in.

To the page: text is JSON (`welcome`, `tick`, `answer`, `told`), binary is one byte for the kind and a JPEG. From the
page: text is `{"id": n, "do": command, "with": {...}}`; binary is the length of the kind (one byte), the kind in ASCII,
the page's time in seconds (float64, little-endian) and the data. Malformed messages are counted and answered with a
sentence.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from devmind.bounds import parse_json
from devmind.errors import ConfigError, DevmindError
from devmind.live.serving.hub import Hub, Viewer, as_json
from devmind.live.serving.patience import LET_GO_S

WIDE_VIEW = b"\x01"
LOOK_S = 0.02
"""Seconds between a viewer's looks for a new view."""
LARGEST_BYTES = 4_000_000
"""A larger message ends the connection; the browser's mailboxes have the same limit."""
LARGEST_TEXT = 10_000
GONE_S = 10.0
"""A page that takes nothing for so long has gone without a word, as behind a broken tunnel."""
GOING_AWAY = 1001
"""The WebSocket's code for the end of a server."""
AT_ONCE, ALTOGETHER, WORKERS = 8, 24, 6
"""Commands that may wait for their answers, of one page and of all, and how many are done at a time."""

log = logging.getLogger(__name__)


class PageLife(Protocol):
    """What a page needs of a life; everything may be called from any thread."""

    @property
    def mailboxes(self) -> Sequence[Any]:
        """Sensors with `accept(kind, data, device_time_s) -> bool`: the page's camera and microphone, or none."""

    def welcome(self) -> dict[str, Any]:
        """The first message to a page."""

    def do(self, command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a command between two ticks; DevmindError with a sentence when it fails."""


@dataclass
class ServerState:
    """What all conversations of a server share.

    Attributes:
        malformed: number of messages in another form than above; refused: device messages from a second page.
        ended: nothing more is shown; every conversation says so and closes.
        giver: the conversation whose camera and microphone are used. Two clocks in one mailbox would mix.
        commands: threads for the pages' commands; waiting: the number of those without an answer yet.
        welcomes: threads for what must not wait behind commands: a page's welcome, and the release of its button.
    """

    life: PageLife
    hub: Hub
    malformed: int = 0
    refused: int = 0
    ended: bool = False
    giver: Conversation | None = field(default=None, repr=False)
    waiting: int = 0
    commands: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(WORKERS, "page-command"), repr=False
    )
    welcomes: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2, "page-welcome"), repr=False)

    def end(self) -> None:
        """End the threads, and wait for those that are at work."""
        for pool in (self.commands, self.welcomes):
            pool.shutdown(cancel_futures=True)


class MalformedError(ValueError):
    """A message in another form than the page's; its text is the answer."""


class Conversation:
    """The WebSocket of one page, from its key to its end."""

    def __init__(self, socket: WebSocket, shared: ServerState) -> None:
        self._socket, self._shared = socket, shared
        self._running: set[asyncio.Task[None]] = set()
        self._presses = False

    async def run(self) -> None:
        """Run until the page leaves; its WebSocket is already accepted."""
        with contextlib.suppress(WebSocketDisconnect), self._shared.hub.viewer() as viewer:
            # In a thread: it may wait for the loop between two ticks.
            welcome = asyncio.get_running_loop().run_in_executor(self._shared.welcomes, self._shared.life.welcome)
            await self._send_message(await welcome)
            both = [asyncio.create_task(self._show(viewer)), asyncio.create_task(self._listen())]
            try:
                ended, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    task.result()
            finally:
                if self._shared.giver is self:
                    self._shared.giver = None
                for task in (*both, *self._running):
                    task.cancel()
                if self._presses:  # a page that left releases the button
                    with contextlib.suppress(DevmindError):
                        await self._do(self._shared.welcomes, "press", {"on": False})

    async def _do(self, pool: ThreadPoolExecutor, command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return await asyncio.get_running_loop().run_in_executor(pool, self._shared.life.do, command, arguments)

    async def _send_message(self, message: Mapping[str, Any]) -> None:
        await self._send(as_json(message))

    async def _send(self, message: str | bytes) -> None:
        """Send one message; WebSocketDisconnect when the page has gone, or `_show` has closed the conversation."""
        try:
            async with asyncio.timeout(GONE_S):
                if isinstance(message, str):
                    await self._socket.send_text(message)
                else:
                    await self._socket.send_bytes(message)
        except (TimeoutError, RuntimeError):
            raise WebSocketDisconnect from None

    async def _show(self, viewer: Viewer) -> None:
        with contextlib.suppress(WebSocketDisconnect):
            while not self._shared.ended:
                published = viewer.take()
                if published is None:
                    await asyncio.sleep(LOOK_S)
                    continue
                if published.jpeg is not None:
                    await self._send(WIDE_VIEW + published.jpeg)
                await self._send(published.text)
            # Closed by us: a server that only stops resets the connection while the page still sends frames, and then
            # the page cannot tell an end from a broken line.
            await say_farewell(self._socket, GOING_AWAY)

    async def _listen(self) -> None:
        with contextlib.suppress(WebSocketDisconnect):
            while (message := await self._socket.receive())["type"] == "websocket.receive":
                await self._take(message)

    async def _take(self, message: Mapping[str, Any]) -> None:
        try:
            if message.get("text") is not None:
                self._ask(message["text"])
            else:
                self._give(message["bytes"])
        except MalformedError as error:
            self._shared.malformed += 1
            await self._send_message({"type": "told", "sentence": str(error)})
        except _SecondGiver:
            self._shared.refused += 1
            sentence = "Another page already gives its camera and microphone; close that one to use these."
            await self._send_message({"type": "told", "about": "devices", "sentence": sentence})

    def _give(self, message: bytes) -> None:
        kind, device_time_s, data = read_device_message(message)
        if self._shared.giver not in (None, self):
            raise _SecondGiver
        if not any([mailbox.accept(kind, data, device_time_s) for mailbox in self._shared.life.mailboxes]):
            raise MalformedError(f"Nothing here takes '{kind[:40]}' from a page.")
        self._shared.giver = self

    def _ask(self, text: str) -> None:
        number, command, arguments = read_command(text)
        if len(self._running) >= AT_ONCE:
            raise MalformedError(f"{AT_ONCE} commands are waiting already; wait for an answer.")
        if self._shared.waiting >= ALTOGETHER:
            raise MalformedError(f"{ALTOGETHER} commands of all pages are waiting already; wait for an answer.")
        if command in ("press", "teach"):  # teaching ends a press
            self._presses = command == "press" and arguments.get("on") is True
        # Counted until it is done, not until its page has gone: its thread is busy all the same.
        self._shared.waiting += 1
        doing = asyncio.ensure_future(self._do(self._shared.commands, command, arguments))
        doing.add_done_callback(self._is_done)
        task = asyncio.create_task(self._answer(number, command, doing))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _is_done(self, doing: asyncio.Future[dict[str, Any]]) -> None:
        self._shared.waiting -= 1
        if not doing.cancelled():
            doing.exception()  # its page may have gone, and then nobody else asks

    async def _answer(self, number: int, command: str, doing: asyncio.Future[dict[str, Any]]) -> None:
        answer: dict[str, Any] = {"type": "answer", "id": number, "ok": False}
        try:
            answer |= {"ok": True, "answer": await asyncio.shield(doing)}
        except DevmindError as error:
            answer["sentence"] = str(error)
        except Exception:
            log.exception("The command %.40r of a page failed", command)
            answer["sentence"] = f"'{command[:40]}' failed; the terminal says why."
        with contextlib.suppress(WebSocketDisconnect):
            await self._send_message(answer)


async def say_farewell(socket: WebSocket, code: int) -> None:
    """End a WebSocket with a code; one that takes nothing any more is not waited for."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
        async with asyncio.timeout(LET_GO_S):
            await socket.close(code)


class _SecondGiver(Exception):  # noqa: N818 - a case, not a fault
    """A page sends device data while another page's devices are used."""


def read_command(text: str) -> tuple[int, str, dict[str, Any]]:
    """(id, command, arguments) of a text message; MalformedError for anything else."""
    if len(text) > LARGEST_TEXT:
        raise MalformedError(f"A command has up to {LARGEST_TEXT:,} characters; {len(text):,} came.")
    try:
        asked = parse_json(text, ConfigError, "A command is JSON ({}).")
    except ConfigError:
        asked = None
    if isinstance(asked, dict):
        number, command, arguments = asked.get("id"), asked.get("do"), asked.get("with", {})
        if type(number) is int and isinstance(command, str) and isinstance(arguments, dict):
            return number, command, arguments
    raise MalformedError('A command is {"id": number, "do": text, "with": {...}}; something else came.')


def read_device_message(message: bytes) -> tuple[str, float, bytes]:
    """(kind, seconds on the page's clock, data) of a binary message; MalformedError for anything else."""
    length = message[0] if message else 0
    kind, rest = message[1 : 1 + length], message[1 + length :]
    if not length or len(rest) <= 8 or not kind.isascii():
        raise MalformedError("A device message is the kind's length, the kind, a time and data; something else came.")
    (device_time_s,) = struct.unpack_from("<d", rest)
    if not abs(device_time_s) < 1e12:
        raise MalformedError(f"A device message's time is a number of seconds; {device_time_s} came.")
    return kind.decode("ascii"), device_time_s, rest[8:]
