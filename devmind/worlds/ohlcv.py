"""Files of prices: one bar a line, of open, high, low, close and volume, as exchanges give them."""

from __future__ import annotations

import csv
import io
import math
import re
from array import array
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from devmind import bounds
from devmind.errors import WorldError

TIMES = ("time", "timestamp", "date", "datetime", "open time", "open_time")
"""Accepted names of the time column, in upper or lower case."""
PRICES = ("open", "high", "low", "close")


FILE_BYTES, LINE_LETTERS = 200_000_000, 100_000
"""The largest table, and its longest line."""
LARGEST_STEP = 1000.0
"""The largest factor between the closes of two bars: more is another currency, a split, or a slip."""


def read_closes(path: str | Path) -> np.ndarray:
    """The closing prices float64 [bars] of a file with the columns time, open, high, low, close and volume.

    Times are seconds or milliseconds since 1970, ISO 8601, or dates as 20260131; bars are equally far apart, day and
    night, seven days a week. Gaps are not filled, as an agent would trade on made-up prices. It is read line by line.

    Raises:
        WorldError: there is no such file or it is no such table; a column is missing; a cell is no number, or a price
            is not positive; the others are not between high and low; a close is over a thousand times the one before,
            or less than a thousandth; or bars are missing, repeated, or out of order.
    """
    if not Path(path).exists():
        raise WorldError(f"There is no file '{path}'; give a table of prices (CSV).")
    times, closes = array("d"), array("d")
    with (
        bounds.open_file(Path(path), WorldError, FILE_BYTES) as file,
        bounds.damage(WorldError, f"'{path}' cannot be read as a table of prices: {{}}."),
    ):
        lines = csv.reader(_lines(path, io.TextIOWrapper(file, encoding="utf-8-sig", newline="")))
        names = next(lines, [])
        columns = {name.strip().lower(): number for number, name in enumerate(names)}
        when = next((columns[name] for name in TIMES if name in columns), None)
        missing = [name for name in (*PRICES, "volume") if name not in columns] + ["time"] * (when is None)
        if names and (when is None or missing):
            first = bounds.printable(", ".join(names))[:200]
            raise WorldError(f"'{path}' lacks {', '.join(missing)}; its first line names {first}.")
        for number, line in _without_end(lines):
            if len(line) != len(names):
                raise WorldError(f"'{path}', line {number}: {len(names)} cells are expected; it has {len(line)}.")
            times.append(_time(path, number, line[when or 0]))
            opened, high, low, close, _ = (_number(path, number, n, line[columns[n]]) for n in (*PRICES, "volume"))
            if not low <= min(opened, close) <= max(opened, close) <= high:
                raise WorldError(f"'{path}', line {number}: low {low:g} to high {high:g} does not hold open and close.")
            if closes and abs(math.log(close) - math.log(closes[-1])) > math.log(LARGEST_STEP):
                raise WorldError(
                    f"'{path}', line {number}: the close {close:g} follows {closes[-1]:g}, and a bar changes it by a "
                    f"factor of {LARGEST_STEP:g} at most; correct the line, or cut the file there."
                )
            closes.append(close)
    if len(closes) < 2:
        raise WorldError(f"'{path}' needs a line of names and two bars at least; it has {len(closes)} bars.")
    _check_gaps(path, np.frombuffer(times))
    return np.array(closes)


def _lines(path: str | Path, text: io.TextIOWrapper) -> Iterator[str]:
    while line := text.readline(LINE_LETTERS):
        if len(line) == LINE_LETTERS and not line.endswith("\n"):
            raise WorldError(f"'{path}' has a line of over {LINE_LETTERS:,} letters, so it is no table of prices.")
        yield line


def _without_end(lines: Iterable[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """Lines by their number from 2 on, without empty ones at the end."""
    empty: list[tuple[int, list[str]]] = []
    for number, line in enumerate(lines, 2):
        if line:
            yield from empty
            empty = []
            yield number, line
        elif not empty:  # the first is enough, as it is refused if a bar follows
            empty = [(number, line)]


def _time(path: str | Path, number: int, cell: str) -> float:
    """Seconds since 1970."""
    try:
        if _DATE.fullmatch(cell.strip()):
            return datetime.strptime(cell.strip(), "%Y%m%d").replace(tzinfo=UTC).timestamp()
        value = float(cell)
    except ValueError:
        try:
            time = datetime.fromisoformat(cell.strip())
        except ValueError:
            raise WorldError(
                f"'{path}', line {number}: {cell!r:.40} is no time; seconds since 1970, 20260131 or "
                "2026-01-31T12:00:00 are."
            ) from None
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    if not np.isfinite(value):
        raise WorldError(f"'{path}', line {number}: {cell!r:.40} is no time.")
    return value / 1000 if value > 1e11 else value


_DATE = re.compile(r"(?:19|20)[0-9]{6}")
"""A date without marks. As seconds it would be a day of summer 1970, of which nobody has prices by the second."""


def _number(path: str | Path, number: int, name: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        raise WorldError(f"'{path}', line {number}: {name} is a number; got {cell!r:.40}.") from None
    if not np.isfinite(value) or value < 0 or (value == 0 and name in PRICES):
        raise WorldError(f"'{path}', line {number}: {name} is a positive number; got {cell!r:.40}.")
    return value


def _check_gaps(path: str | Path, times: np.ndarray) -> None:
    """Raise WorldError unless bars are equally far apart, in order of time."""
    steps = np.diff(times)
    apart = float(np.median(steps))
    for row in np.flatnonzero((steps <= 0) | (abs(steps - apart) > 0.01 * apart))[:1]:
        number, step = row + 3, steps[row]
        if step <= 0:
            raise WorldError(f"'{path}', line {number}: this bar is not later than the one before it; sort the file.")
        raise WorldError(
            f"'{path}', line {number}: bars are {apart:g} s apart, this one {step:g} s behind the last; "
            "fill the gap from the source, or cut the file there."
        )
