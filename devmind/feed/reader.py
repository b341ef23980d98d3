"""Reading a spool while it grows: here by its folder, or from another machine through its server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import flight

from devmind.bounds import damage
from devmind.errors import FeedError
from devmind.feed import spool
from devmind.feed.client import Connection, reason
from devmind.feed.schema import EFFECTOR, PLAIN, SENSE, decode, numbers, present, world_of
from devmind.feed.spool import Frame
from devmind.moment import Moment

LOOK_S = 0.1
"""Pause between two looks for what has come."""
PATIENCE_S = 600.0
"""A reader that waits longer than this gives up with a sentence."""
NOTE_S = 10.0
AGAIN = 64
"""Episodes after which they come again, if each is to be had more than once."""
PIECE = 512
"""Moments after which an episode without an end is cut."""
TOLD_S = 1.0


class Source:
    """The frames of one spool.

    Args:
        place: its folder, or "HOST:PORT" of its server.
        token, cert: as for `Connection`, for a server.
        reader: under which name the server is told how far is read.
    """

    def __init__(self, place: str, token: Path | None = None, cert: Path | None = None, reader: str = "lesson") -> None:
        self.place, self.reader = place, reader
        self.connection: Connection | None = None
        if not Path(place).is_dir():
            host, _, port = place.rpartition(":")
            if not host or not port.isdecimal():
                raise FeedError(f"A feed is the folder of a spool, or HOST:PORT of its server; got '{place}'.")
            if token is None:
                raise FeedError(f"The feed at '{place}' needs its token: --set feed.token=FILE.")
            self.connection = Connection(place, token, cert)

    def frames(self, position: int) -> Iterator[tuple[int, Frame]]:
        """What is stored from a position on, each frame with the position behind it; ends where the spool now ends."""
        if self.connection is None:
            yield from spool.read(Path(self.place), position)
            return
        client = self.connection.open()
        try:
            for chunk in client.do_get(flight.Ticket(str(position).encode()), self.connection.options(None)):
                for after, content in zip(*(column.to_pylist() for column in chunk.data.columns), strict=True):
                    found = spool.frame_of(memoryview(content))
                    if found is None:
                        raise FeedError(f"The feed at '{self.place}' has sent a damaged frame.")
                    yield after, found[0]
        except (pa.ArrowException, OSError) as error:
            raise FeedError(f"The feed at '{self.place}' cannot be read: {reason(error)}") from error
        finally:
            client.close()

    def report(self, position: int) -> None:
        """Say how far was read, so that producers can be made to wait."""
        if self.connection is None:
            spool.report_position(Path(self.place), self.reader, position)
        else:
            self.connection.ask("position", reader=self.reader, position=position)


def world_in(source: Source) -> str:
    """The world that the first batch of a spool names; "" if there is none, or it names none."""
    for _, frame in source.frames(0):
        return world_of(decode(frame.body))
    return ""


@dataclass(frozen=True)
class Episode:
    """T Moments of one environment, with what was done in each but the last.

    Attributes:
        senses: arrays [T, ...] by sense; effectors: arrays [T, ...] by effector; only those that all T Moments, or the
            T - 1 in which something was done, have.
        reward: float64 [T]; terminal: whether it ended by its own rules.
    """

    senses: Mapping[str, np.ndarray]
    effectors: Mapping[str, np.ndarray]
    reward: np.ndarray
    terminal: bool

    def __len__(self) -> int:
        return len(self.reward)

    def window(self, start: int, count: int) -> list[tuple[Moment, None]]:
        """Moments `start` to `start + count`, as a session gives them; their times are not kept."""
        ticks = range(start, min(start + count, len(self)))
        return [
            (Moment(0.0, {name: x[at] for name, x in self.senses.items()}, float(self.reward[at])), None)
            for at in ticks
        ]


class Episodes:
    """The finished episodes of one world in a spool, numbered from 0 in the order in which they ended.

    The numbers are a function of the spool alone, so whoever stores a number can go on from it. An episode that an
    environment breaks off to begin another, and every `PIECE` Moments of one that has no end, counts as cut.

    Args:
        source: of the spool.
        world: only the Moments of producers that named it.
        note: is told why nothing goes on.
        samples: how often each episode is to be had, under as many numbers: 64 of them, the same again, the next.
    """

    def __init__(self, source: Source, world: str, note: Callable[[str], None] | None = None, samples: int = 1) -> None:
        self.source, self.world, self.note, self.samples = source, world, note, samples
        self._group = AGAIN if samples > 1 else 1
        self.patience_s = PATIENCE_S
        self._position, self._count, self._needed = 0, 0, 0
        self._finished: dict[int, Episode] = {}
        self._open: dict[tuple[str, int], list[tuple[Any, int]]] = {}
        self._told_s = 0.0

    def get(self, number: int) -> Episode:
        """An episode; waits until it has ended.

        Raises:
            FeedError: it did not come within `patience_s`, was let go of, or the spool cannot be read.
        """
        group, at = divmod(number, self._group * self.samples)
        number = group * self._group + at % self._group
        if number < self._needed:
            raise FeedError(f"Episode {number:,} of the feed was let go of: read from a new `Episodes`.")
        began_s, noted = time.monotonic(), False
        while number not in self._finished:
            if self._read(number):
                continue
            waited_s = time.monotonic() - began_s
            if waited_s > self.patience_s:
                raise FeedError(
                    f"The feed '{self.source.place}' has brought {self._count:,} episodes of '{self.world}', and none "
                    f"in {waited_s:.0f} s. Let a simulator push (world={self.world!r}); the same command goes on."
                )
            if waited_s > NOTE_S and not noted and self.note:
                noted = True
                self.note(f"Waiting for episode {number:,} of '{self.world}' from the feed '{self.source.place}'.")
            time.sleep(LOOK_S)
        return self._finished[number]

    def let_go(self, before: int) -> None:
        """Free the episodes before this number."""
        before = before // (self._group * self.samples) * self._group
        for number in range(self._needed, before):
            self._finished.pop(number, None)
        self._needed = max(self._needed, before)

    def _read(self, until: int) -> bool:
        """Read frames until episode `until` is finished, or there are no more; gives whether anything was read."""
        before = self._position
        for after, frame in self.source.frames(self._position):
            self._position = after
            batch = decode(frame.body)
            if world_of(batch) == self.world:
                self._take(frame.producer, batch)
            if self._count > until:
                break
        if self._position > before and time.monotonic() - self._told_s > TOLD_S:
            self._told_s = time.monotonic()
            self.source.report(self._position)
        return self._position > before

    def _take(self, producer: str, batch: Any) -> None:
        env, first, last = (numbers(batch, name) for name in ("env", "first", "last"))
        for number in np.unique(env):
            lane = self._open.setdefault((producer, int(number)), [])
            for at in np.flatnonzero(env == number).tolist():
                if first[at] and lane:
                    self._finish(lane)
                lane.append((batch, at))
                if last[at] or len(lane) > PIECE:
                    self._finish(lane)
                    if not last[at]:
                        lane.append((batch, at))

    def _finish(self, lane: list[tuple[Any, int]]) -> None:
        ticks = list(lane)
        lane.clear()
        if len(ticks) < 2:
            return
        if self._count >= self._needed:
            self._finished[self._count] = _episode(ticks)
        self._count += 1


def _episode(ticks: list[tuple[Any, int]]) -> Episode:
    columns = {name: [] for name in ("reward",)} | {name: [] for name in ticks[0][0].schema.names if name not in PLAIN}
    runs: list[tuple[Any, list[int]]] = []
    for batch, at in ticks:
        if runs and runs[-1][0] is batch:
            runs[-1][1].append(at)
        else:
            runs.append((batch, [at]))
    parts: dict[str, list[np.ndarray]] = {}
    lacking = set[str]()
    for name in columns:
        done = name.startswith(EFFECTOR)
        for number, (batch, index) in enumerate(runs):
            if name not in batch.schema.names:
                lacking.add(name)
                continue
            rows = index[:-1] if done and number == len(runs) - 1 else index
            if not present(batch, name)[rows].all():
                lacking.add(name)
            parts.setdefault(name, []).append(numbers(batch, name)[index])
    with damage(FeedError, "An episode of the feed cannot be put together ({})."):
        whole = {name: np.concatenate(arrays) for name, arrays in parts.items() if name not in lacking}
    batch, at = ticks[-1]
    return Episode(
        {name.removeprefix(SENSE): x for name, x in whole.items() if name.startswith(SENSE)},
        {name.removeprefix(EFFECTOR): x for name, x in whole.items() if name.startswith(EFFECTOR)},
        whole["reward"],
        bool(numbers(batch, "terminal")[at]),
    )
