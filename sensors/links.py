"""The sources of `environment`: an HTTP address, a serial port, an MQTT broker.

Creating a link opens it; pyserial and paho-mqtt (extra `sensors`) are imported then.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any, Protocol
from urllib.parse import SplitResult, parse_qs, unquote

WAIT_S = 0.2
TIMEOUT_S = 3.0
LONGEST_MESSAGE = 65_536
RETAINED = "\0retained"
"""In place of an MQTT message that was retained."""


class Link(Protocol):
    """An open source: `read` waits a moment for one message and gives None without one."""

    def read(self, stop: threading.Event) -> str | None:
        """One message; OSError when the source is gone."""
        ...

    def close(self) -> None:
        """Close the source."""
        ...


class HttpLink:
    """A JSON address, requested every `period_s`."""

    def __init__(self, address: SplitResult, period_s: float) -> None:
        self.url, self.period_s, self._due_s = address.geturl(), period_s, time.monotonic()

    def read(self, stop: threading.Event) -> str | None:
        """Wait until it is time, then request; urllib's errors are OSErrors."""
        import http.client
        import urllib.request

        if stop.wait(max(0.0, self._due_s - time.monotonic())):
            return None
        self._due_s = time.monotonic() + self.period_s
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # sensors are in the local network
        try:
            with direct.open(self.url, timeout=TIMEOUT_S) as answer:
                return answer.read(LONGEST_MESSAGE).decode("utf-8", "replace")
        except http.client.HTTPException as error:
            raise OSError(f"The address did not answer in HTTP: {error!r}.") from error

    def close(self) -> None:
        """Nothing stays open between two requests."""


class SerialLink:
    """Lines from a serial port."""

    def __init__(self, address: SplitResult) -> None:
        import serial

        baud = int(parse_qs(address.query).get("baud", ["9600"])[0])
        self._port = serial.Serial(address.path or address.netloc, baud, timeout=WAIT_S)
        self._held = b""

    def read(self, stop: threading.Event) -> str | None:
        """The next whole line; an incomplete line is kept for the next call. pyserial's errors are OSErrors."""
        self._held += self._port.read_until(b"\n", LONGEST_MESSAGE)
        if not self._held.endswith(b"\n"):
            self._held = self._held[-LONGEST_MESSAGE:]
            return None
        line, self._held = self._held.strip(), b""
        return line.decode("utf-8", "replace") or None

    def close(self) -> None:
        """Close the port."""
        self._port.close()


class MqttLink:
    """Messages of one topic of an MQTT broker; a lost broker is an OSError, and is opened again."""

    def __init__(self, address: SplitResult) -> None:
        from paho.mqtt.client import CallbackAPIVersion, Client

        self._messages: deque[str] = deque(maxlen=16)
        self._gone: str | None = None
        self._arrived = threading.Event()
        self._topic = unquote(address.path.lstrip("/"))
        self._client = Client(CallbackAPIVersion.VERSION2, reconnect_on_failure=False)
        if address.username:
            self._client.username_pw_set(unquote(address.username), unquote(address.password or ""))
        if address.scheme == "mqtts":
            self._client.tls_set()
        self._client.connect_timeout = TIMEOUT_S
        self._client.on_connect = self._connected
        self._client.on_subscribe = self._subscribed
        self._client.on_message = self._message
        self._client.on_disconnect = self._disconnected
        self._client.connect(
            address.hostname or "localhost", address.port or (8883 if address.scheme == "mqtts" else 1883)
        )
        self._client.loop_start()

    def _connected(self, client: Any, user: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            return self._end(f"The MQTT broker refuses: {reason}.")
        try:
            client.subscribe(self._topic)
        except ValueError as error:  # it would end paho's thread, and nothing would ever come
            self._end(f"The address must end with a topic, /home/hall; '{self._topic}' is none ({error}).")

    def _subscribed(self, client: Any, user: Any, number: int, reasons: list[Any], properties: Any) -> None:
        if any(reason.is_failure for reason in reasons):
            self._end(f"The MQTT broker refuses the topic '{self._topic}'.")

    def _end(self, why: str) -> None:
        self._gone = self._gone or why
        self._arrived.set()

    def _message(self, client: Any, user: Any, message: Any) -> None:
        if message.retain:  # the broker kept it for whoever comes: nobody knows how old it is
            self._messages.append(RETAINED)
        else:
            self._messages.append(message.payload[:LONGEST_MESSAGE].decode("utf-8", "replace"))
        self._arrived.set()

    def _disconnected(self, client: Any, user: Any, flags: Any, reason: Any, properties: Any) -> None:
        self._end(f"The connection to the MQTT broker was lost: {reason}.")

    def read(self, stop: threading.Event) -> str | None:
        """The next message, or None after a moment."""
        if not self._messages:
            self._arrived.wait(WAIT_S)
            self._arrived.clear()
        if self._messages:
            return self._messages.popleft()
        if self._gone:
            raise OSError(self._gone)
        return None

    def close(self) -> None:
        """Disconnect from the broker."""
        self._client.on_disconnect = None
        self._client.disconnect()
        self._client.loop_stop()
