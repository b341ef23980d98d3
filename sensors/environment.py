"""Numbers from outside (temperature, light, a motion sensor), as `body` or as a sense of its own.

Sources: `serial:///dev/ttyUSB0?baud=9600`, `mqtt://user:password@host:1883/topic` (`mqtts` for TLS), `http://host/path`.
Names of wanted numbers may stand behind a `#`: `http://host/path#temperature,hall.humidity`.
A message is JSON (a number, a list, an object of numbers) or text like `21.5, 40` or `t=21.5 h=40`. A JSON text that is
a number counts as one.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
from gymnasium import spaces

from devmind.bounds import parse_json
from devmind.errors import SensorError
from sensors.device import Device
from sensors.frames import NewestFrame
from sensors.links import RETAINED, HttpLink, Link, MqttLink, SerialLink

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
NEEDS = {"serial": "serial", "mqtt": "paho.mqtt.client", "mqtts": "paho.mqtt.client", "http": "", "https": ""}


class Environment(Device):
    """float32 [K]: the K numbers of the newest message.

    Args:
        source: where the messages come from, see above.
        names: which numbers of an object, in this order; dots select inner values (`inside.temperature`). Without
            names, objects give all their numbers sorted by name, and objects without numbers those of objects in them.
        size: K, without names; without either, the first message decides. Messages of another size are dropped.
        sense: `body`, or a name of its own, which needs `names` or `size`.
        low, high: the range of a sense of its own; numbers outside are dropped.
        period_s: seconds between requests to an HTTP address.

    Raises:
        SensorError: the address or the settings are wrong; on opening, when the library of a source is missing.
    """

    def __init__(
        self,
        source: str,
        names: Sequence[str] = (),
        size: int | None = None,
        sense: str = "body",
        low: float = -np.inf,
        high: float = np.inf,
        period_s: float = 1.0,
    ) -> None:
        super().__init__("environment")
        self._address = urlsplit(source)
        if self._address.scheme not in NEEDS:
            raise SensorError(f"'{source}' must begin with serial://, mqtt://, mqtts://, http:// or https://.")
        if self._address.scheme.startswith("mqtt") and source.endswith("#"):
            raise SensorError("Write MQTT's wildcard # as %23: names of wanted numbers stand behind a #.")
        wanted = tuple(name.strip() for name in unquote(self._address.fragment).split(",") if name.strip())
        self.names, self.sense, self.period_s = tuple(names) or wanted, sense, period_s
        self._size = len(self.names) or size
        if sense != "body":
            if not self._size:
                raise SensorError(
                    f"The sense '{sense}' needs names=[...] or size=K: its space must be known in advance."
                )
            self.space = spaces.Box(low, high, (self._size,), np.float32)
        self._range = (low, high)
        self._newest = NewestFrame(self.name, self.health)

    def read_latest(self, max_age_s: float) -> tuple[np.ndarray, float]:
        """The newest numbers float32 [K] and their time of arrival; StaleReading when they are `max_age_s` old."""
        return self._newest.read_latest(max_age_s)

    def _prepare(self) -> None:
        import importlib

        if module := NEEDS[self._address.scheme]:
            try:
                importlib.import_module(module)
            except ImportError:
                raise SensorError(f"{self._address.scheme} needs a library: pip install 'devmind[sensors]'.") from None

    def _open(self) -> Link:
        kind = self._address.scheme
        if kind == "serial":
            return SerialLink(self._address)
        return MqttLink(self._address) if kind.startswith("mqtt") else HttpLink(self._address, self.period_s)

    def _read(self, handle: Link, stop: threading.Event) -> tuple[str | None, float]:
        return handle.read(stop), time.monotonic()

    def _keep(self, capture: tuple[str | None, float]) -> None:
        message, at_s = capture
        if message is None:
            return
        if message is RETAINED:
            self.health.dropped(
                why="The broker's retained message is left out, as its age is unknown; the next one counts."
            )
            return
        try:
            numbers = parse_numbers(message, self.names)
        except ValueError as error:
            self.health.dropped(why=str(error))
            return
        self._size = self._size or len(numbers)
        low, high = self._range
        if len(numbers) != self._size or not np.all((numbers >= low) & (numbers <= high)):
            wanted = f"{self._size} numbers in {low:g}..{high:g}"
            self.health.dropped(why=f"{wanted} were expected; '{message[:60]}' came.")
            return
        self._newest.put(numbers, at_s)

    def _close(self, handle: Link) -> None:
        handle.close()

    def _forget(self) -> None:
        self._newest.clear()


def parse_numbers(message: str, names: Sequence[str] = ()) -> np.ndarray:
    """The finite numbers of one message, float32 [K]; ValueError says what is wrong with it."""
    shown = message.strip()[:60]
    try:
        value = parse_json(message, SensorError, "It is not JSON ({}).")
    except SensorError:
        value = _plain(message)
    if names:
        found = [_number(_inner(value, name)) for name in names]
    elif isinstance(value, Mapping):
        found = _numbers_in(value)
    else:
        found = [_number(one) for one in (value if isinstance(value, list) else [value])]
    try:
        with np.errstate(over="ignore"):  # too large for float32: it becomes infinite, and is refused
            numbers = np.array([] if None in found else found, np.float64).astype(np.float32)
    except OverflowError:
        numbers = np.full(1, np.inf, np.float32)
    if not numbers.size or not np.isfinite(numbers).all():
        raise ValueError(f"Numbers were expected{' named ' + ', '.join(names) if names else ''}; '{shown}' came.")
    return numbers


def _plain(message: str) -> Any:
    """`t=21.5 h=40` as an object, `21.5, 40` as a list."""
    words = [word for word in re.split(r"[,;\s]+", message.strip()) if word]
    pairs = [re.split(r"[=:]", word, maxsplit=1) for word in words]
    try:
        if words and all(len(pair) == 2 for pair in pairs):
            return {name: float(text) for name, text in pairs}
        return [float(word) for word in words]
    except ValueError:
        return None


def _inner(value: Any, name: str) -> Any:
    if isinstance(value, Mapping) and name in value:
        return value[name]
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _numbers_in(value: Mapping[str, Any]) -> list[float | None]:
    """An object's own numbers, sorted by name; if it has none, those of the objects in it."""
    own: list[float | None] = [number for name in sorted(value) if (number := _number(value[name])) is not None]
    inner: list[float | None] = [
        one for name in sorted(value) if isinstance(value[name], Mapping) for one in _numbers_in(value[name])
    ]
    return own or inner


def _number(value: Any) -> float | None:
    """A number, also one that is written as text, as many home sensors do; None for everything else."""
    if isinstance(value, str) and NUMBER.fullmatch(value.strip()):
        return float(value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
