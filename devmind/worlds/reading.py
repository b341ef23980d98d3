"""Asks a sensor for a reading, and refuses what it may not give: another error than StaleReading, another array."""

from __future__ import annotations

from typing import Any

import numpy as np

from devmind.errors import DevmindError, MomentError, SensorError, without_library
from devmind.moment import check_sense


def read_latest(sensor: Any, max_age_s: float) -> tuple[np.ndarray, float]:
    """The newest capture of a sensor of frames, and its time.

    Raises:
        StaleReading: there is none of the last `max_age_s`.
        SensorError: the sensor fails, or its reading is not what it promises.
    """
    reading = _call_sensor(sensor, "read_latest", max_age_s)
    if not (isinstance(reading, tuple) and len(reading) == 2):
        came = f"a {type(reading).__name__}"
        raise SensorError(f"The sensor of '{sensor.sense}' gave {came}; read_latest gives (array, captured_at_s).")
    _check(sensor, reading[0])
    return reading


def read_window(sensor: Any, start_s: float, end_s: float) -> np.ndarray:
    """The samples [C, S] of a sensor of series between two times.

    Raises:
        StaleReading: they are not all there.
        SensorError: the sensor fails, or its reading is not what it promises.
    """
    value: np.ndarray = _call_sensor(sensor, "read_window", start_s, end_s)
    _check(sensor, value)
    return value


def _call_sensor(sensor: Any, function: str, *arguments: float) -> Any:
    try:
        return getattr(sensor, function)(*arguments)
    except DevmindError:
        raise
    except Exception as error:  # a sensor is a plugin, so it may be any
        if sentence := without_library(error):
            raise SensorError(sentence) from error
        raise SensorError(
            f"The sensor of '{sensor.sense}' failed: {type(error).__name__}: {error}. A sensor whose device cannot be "
            "read raises StaleReading, and goes on trying."
        ) from error


def _check(sensor: Any, value: Any) -> None:
    """Check the array against the standard of its sense, or against the sensor's own `space`."""
    try:
        check_sense(sensor.sense, value)
    except MomentError as error:
        raise SensorError(f"The sensor of '{sensor.sense}' gave a wrong reading: {error}") from None
    space = getattr(sensor, "space", None)
    if isinstance(value, np.ndarray) and space is not None and (value.shape, value.dtype) != (space.shape, space.dtype):
        raise SensorError(
            f"The sensor of '{sensor.sense}' promises {space.dtype} {list(space.shape)} by its space, and gave "
            f"{value.dtype} {list(value.shape)}."
        )
