"""Files of prices: one bar a line, of open, high, low, close and volume, as exchanges give them."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np

from devmind.errors import WorldError

TIMES = ("time", "timestamp", "date", "datetime", "open time", "open_time")
"""Accepted names of the time column, in upper or lower case."""
PRICES = ("open", "high", "low", "close")


def read_closes(path: str | Path) -> np.ndarray:
    """The closing prices float64 [bars] of a file with the columns time, open, high, low, close and volume.

    Times are seconds or milliseconds since 1970, or ISO 8601; bars are equally far apart, day and night, seven days a
    week. Gaps are not filled, as an agent would trade on made-up prices.

    Raises:
        WorldError: there is no such file or it is no such table; a column is missing; a cell is no number, or a price
            is not positive; the others are not between high and low; or bars are missing, repeated, or out of order.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = list(csv.reader(file))
    except FileNotFoundError as error:
        raise WorldError(f"There is no file '{path}'; give a table of prices (CSV).") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise WorldError(f"'{path}' cannot be read as a table of prices: {error}") from error
    while lines and not lines[-1]:  # empty lines at the end
        lines.pop()
    if len(lines) < 3:
        raise WorldError(f"'{path}' needs a line of names and two bars at least; it has {len(lines)} lines.")
    columns = {name.strip().lower(): number for number, name in enumerate(lines[0])}
    when = next((columns[name] for name in TIMES if name in columns), None)
    missing = [name for name in (*PRICES, "volume") if name not in columns] + ["time"] * (when is None)
    if when is None or missing:
        raise WorldError(f"'{path}' lacks {', '.join(missing)}; its first line names {', '.join(lines[0])}.")
    times, bars = [], []
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(lines[0]):
            raise WorldError(f"'{path}', line {number}: {len(lines[0])} cells are expected; it has {len(line)}.")
        times.append(_time(path, number, line[when]))
        bars.append([_number(path, number, name, line[columns[name]]) for name in (*PRICES, "volume")])
        opened, high, low, close, _ = bars[-1]
        if not low <= min(opened, close) <= max(opened, close) <= high:
            raise WorldError(f"'{path}', line {number}: low {low:g} to high {high:g} does not hold open and close.")
    _check_gaps(path, times)
    return np.array(bars)[:, PRICES.index("close")]


def _time(path: str | Path, number: int, cell: str) -> float:
    """Seconds since 1970."""
    try:
        value = float(cell)
    except ValueError:
        try:
            time = datetime.fromisoformat(cell.strip())
        except ValueError:
            raise WorldError(
                f"'{path}', line {number}: '{cell}' is no time; seconds since 1970 or 2026-01-31T12:00:00 are."
            ) from None
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    if not np.isfinite(value):
        raise WorldError(f"'{path}', line {number}: '{cell}' is no time.")
    return value / 1000 if value > 1e11 else value


def _number(path: str | Path, number: int, name: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        raise WorldError(f"'{path}', line {number}: {name} is a number; got '{cell}'.") from None
    if not np.isfinite(value) or value < 0 or (value == 0 and name in PRICES):
        raise WorldError(f"'{path}', line {number}: {name} is a positive number; got '{cell}'.")
    return value


def _check_gaps(path: str | Path, times: list[float]) -> None:
    """Raise WorldError unless bars are equally far apart, in order of time."""
    apart = float(np.median(np.diff(times)))
    for number, (one, other) in enumerate(pairwise(times), 3):
        if other <= one:
            raise WorldError(f"'{path}', line {number}: this bar is not later than the one before it; sort the file.")
        if abs(other - one - apart) > 0.01 * apart:
            raise WorldError(
                f"'{path}', line {number}: bars are {apart:g} s apart, this one {other - one:g} s behind the last; "
                "fill the gap from the source, or cut the file there."
            )
