"""The laws of a sensor: callers read a device without waiting for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.errors import MomentError, StaleReading
from devmind.moment import STANDARD_SENSES, check_sense
from devmind.testing.laws import BrokenLawError, require

ANSWER_S = 5.0
"""A read that takes longer than this counts as waiting."""
READS = 20


def check_sensor(make: Callable[[], Any], *, patience_s: float = 10.0) -> None:
    """Check the laws of a sensor on the device that `make()` stands for (or on a stand-in for it).

    A sensor is a context manager with the attributes `sense` (the name of its arrays), `drops` (captures lost so
    far) and, for a sense of its own, `space` (a gymnasium Box); and with at least one of two functions.
    `read_latest(max_age_s) -> (array, captured_at_s)` is for frames. `read_window(start_s, end_s) -> array [C, S]`,
    with the attribute `rate_hz`, is for series. Both raise StaleReading and never wait. Times are `time.monotonic()`
    seconds of the capture, not of the reading.

    Args:
        make: makes a new sensor; it must open nothing yet.
        patience_s: how long the device may take to deliver the first capture.

    Raises:
        BrokenLawError: the first law that does not hold, with what was found.
    """
    sensor = make()
    _check_members(sensor)
    _stale(sensor, "a sensor that is not open has nothing to read")
    with sensor as opened:
        require(opened is sensor, "'with sensor' gives the sensor itself", repr(opened))
        if hasattr(sensor, "read_latest"):
            _check_frames(sensor, patience_s)
        if hasattr(sensor, "read_window"):
            _check_series(sensor, patience_s)
        _check_drops(sensor)
    _stale(sensor, "a closed sensor has nothing to read")
    sensor.__exit__(None, None, None)  # closing twice must do no harm
    with make() as other:
        _first_reading(other, patience_s)


def _check_members(sensor: Any) -> None:
    law = "a sensor is a context manager with 'sense', 'drops' and read_latest or read_window"
    for member in ("__enter__", "__exit__", "sense", "drops"):
        require(hasattr(sensor, member), law, f"{type(sensor).__name__} has no '{member}'")
    readers = [name for name in ("read_latest", "read_window") if callable(getattr(sensor, name, None))]
    require(bool(readers), law, f"{type(sensor).__name__} has neither reader")
    if "read_window" in readers:
        require(hasattr(sensor, "rate_hz"), "a series says its rate_hz", f"{type(sensor).__name__} has no 'rate_hz'")


def _stale(sensor: Any, law: str) -> None:
    now = time.monotonic()
    for name, arguments in (("read_latest", (60.0,)), ("read_window", (now - 0.1, now))):
        if hasattr(sensor, name):
            require(_answer(sensor, name, *arguments) is None, f"{law}: {name} raises StaleReading", "a reading")


def _answer(sensor: Any, name: str, *arguments: float) -> Any:
    """The result of a read, None for StaleReading; a read that waits breaks the law instead of hanging the test."""
    found: list[Any] = []

    def read() -> None:
        try:
            found.append(getattr(sensor, name)(*arguments))
        except StaleReading:
            found.append(None)
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(ANSWER_S)
    require(bool(found), f"{name} never blocks", f"no answer within {ANSWER_S:g} s")
    if isinstance(found[0], Exception):
        raise BrokenLawError(f"Law: {name} gives a reading or raises StaleReading. Found: {found[0]!r}.") from found[0]
    return found[0]


def _first_reading(sensor: Any, patience_s: float) -> Any:
    """Wait for the device (the sensor itself never does): the first reading of either kind."""
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        if hasattr(sensor, "read_latest"):
            reading = _answer(sensor, "read_latest", patience_s)
        else:
            reading = _answer(sensor, "read_window", time.monotonic() - 0.2, time.monotonic() - 0.1)
        if reading is not None:
            return reading
        time.sleep(0.01)
    raise BrokenLawError(f"Law: an open sensor captures by itself. Found: nothing to read after {patience_s:g} s.")


def _check_frames(sensor: Any, patience_s: float) -> None:
    reading = _first_reading(sensor, patience_s)
    law = "read_latest gives (array, captured_at_s)"
    require(isinstance(reading, tuple) and len(reading) == 2, law, repr(type(reading)))
    value, captured_at_s = reading
    _keeps_sense(sensor, value)
    now = time.monotonic()
    require(
        now - 10 * patience_s < captured_at_s <= now,
        "captured_at_s is time.monotonic() at the capture",
        f"{captured_at_s} at {now}",
    )
    require(
        _answer(sensor, "read_latest", 0.0) is None, "older than max_age_s raises StaleReading", "a reading of age 0"
    )
    times = []
    for _ in range(READS):
        reading = _answer(sensor, "read_latest", patience_s)
        if reading is not None:
            times.append(reading[1])
    require(times == sorted(times), "captures come in order of time", f"{times}")
    waits = len(times) == READS and len(set(times)) == READS
    require(not waits, "read_latest gives what is there and never waits", f"{READS} reads in a row, {READS} captures")
    _check_copies(sensor, patience_s)


def _check_copies(sensor: Any, patience_s: float) -> None:
    first = _answer(sensor, "read_latest", patience_s)
    if first is None:
        return
    kept, captured_at_s = first[0].copy(), first[1]
    time.sleep(0.1)  # time for some captures: none of them may write into arrays given before
    require(np.array_equal(first[0], kept), "a capture never changes what was read before", "an array that changed")
    second = _answer(sensor, "read_latest", patience_s)
    if second is not None and second[1] == captured_at_s:
        same = np.array_equal(second[0], kept)
        require(same, "one capture reads the same twice", "two arrays with one captured_at_s")


def _check_series(sensor: Any, patience_s: float) -> None:
    rate_hz, law = sensor.rate_hz, "read_window gives [C, S] with S = (end - start) * rate_hz"
    until = time.monotonic() + patience_s
    value: np.ndarray | None = None
    while value is None and time.monotonic() < until:
        end_s = time.monotonic() - 0.1
        start_s = end_s - 0.1
        value = _answer(sensor, "read_window", start_s, end_s)
        time.sleep(0.01)
    if value is None:
        raise BrokenLawError(f"Law: an open sensor captures by itself. Found: no window after {patience_s:g} s.")
    _keeps_sense(sensor, value)
    samples = round((end_s - start_s) * rate_hz)
    require(value.ndim == 2 and value.shape[1] == samples, law, f"{list(value.shape)} for {samples} samples")
    again = _answer(sensor, "read_window", start_s, end_s)
    kept = again is not None and np.array_equal(again, value)
    require(kept, "reading takes nothing away: a window reads the same twice", "another array")
    now = time.monotonic()
    for name, window in (("still to come", (now + 60, now + 60.1)), ("before it opened", (now - 1e4, now - 1e4 + 0.1))):
        stale = _answer(sensor, "read_window", *window) is None
        require(stale, f"a window {name} raises StaleReading", "a reading")


def _keeps_sense(sensor: Any, value: Any) -> None:
    law = f"a sensor gives arrays of its sense '{sensor.sense}'"
    try:
        check_sense(sensor.sense, value)
    except MomentError as error:
        raise BrokenLawError(f"Law: {law}. Found: {error}") from None
    if sensor.sense not in STANDARD_SENSES:
        space = getattr(sensor, "space", None)
        require(isinstance(space, spaces.Box), "an own sense says its space, a gymnasium Box", repr(space))
        inside = bool(space.contains(value))  # type: ignore[union-attr]
        require(inside, law, f"{value.dtype} {list(value.shape)} outside {space}")


def _check_drops(sensor: Any) -> None:
    drops = sensor.drops
    counted = isinstance(drops, int) and drops >= 0
    require(counted, "drops counts captures that were lost", f"drops = {drops!r}")
