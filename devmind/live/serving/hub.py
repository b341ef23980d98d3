"""From the loop to the viewers: the newest view for each, without ever waiting.

The loop publishes and goes on. Each viewer has a slot for one view; a view that was not taken when the next one comes
is dropped and counted. A view becomes JSON in the viewers' thread, once for all viewers.
"""

from __future__ import annotations

import functools
import json
import math
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np


class Published:
    """One view as published; its publisher changes nothing in it afterwards.

    Args:
        view: the data of one tick.
        jpeg: the wide view of this machine's camera, or None.
        frame: the wide view of any camera, RGB uint8 [H, W, 3], or None: for viewers outside the page, which already
            has its own camera's picture.
    """

    def __init__(self, view: Mapping[str, Any], jpeg: bytes | None = None, frame: np.ndarray | None = None) -> None:
        self.view, self.jpeg, self.frame = view, jpeg, frame

    @functools.cached_property
    def text(self) -> str:
        """The view as JSON. Numbers that JSON lacks (NaN, infinities) become null."""
        return as_json(self.view)


class Viewer:
    """One viewer, with room for one view. One thread puts, another takes, and neither ever waits for the other."""

    def __init__(self) -> None:
        self._slot: deque[Published] = deque(maxlen=1)
        self._put = self._taken = 0

    @property
    def drops(self) -> int:
        """Views that were replaced before they were taken."""
        return max(0, self._put - self._taken - len(self._slot))

    def put(self, published: Published) -> None:
        """Replace the view in the slot."""
        self._slot.append(published)
        self._put += 1

    def take(self) -> Published | None:
        """The newest view, once; None when there is nothing new."""
        try:
            newest = self._slot.popleft()
        except IndexError:
            return None
        self._taken += 1
        return newest


class Hub:
    """The loop publishes its views here, and viewers poll for them. Nobody is notified: a system call in `publish` lets
    other threads run in between, which cost the loop up to 10 ms on a busy machine.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._viewers: tuple[Viewer, ...] = ()
        self._drops_of_gone = 0

    @property
    def watched(self) -> bool:
        """Whether there is a viewer: data for viewers only is not computed without one."""
        return bool(self._viewers)

    @property
    def drops(self) -> int:
        """Views that were not taken in time, over all viewers so far."""
        return self._drops_of_gone + sum(viewer.drops for viewer in self._viewers)

    def publish(self, view: Mapping[str, Any], jpeg: bytes | None = None, frame: np.ndarray | None = None) -> None:
        """Give every viewer the newest view; takes microseconds and waits for nobody. Called by one thread."""
        if viewers := self._viewers:
            published = Published(view, jpeg, frame)
            for viewer in viewers:
                viewer.put(published)

    @contextmanager
    def viewer(self) -> Iterator[Viewer]:
        """A viewer, until the end of the block."""
        viewer = Viewer()
        with self._lock:
            self._viewers = (*self._viewers, viewer)
        try:
            yield viewer
        finally:
            with self._lock:
                self._viewers = tuple(other for other in self._viewers if other is not viewer)
                self._drops_of_gone += viewer.drops


def as_json(value: Any) -> str:
    """JSON that a browser reads: arrays as lists, NaN and infinities as null."""
    try:
        return json.dumps(value, allow_nan=False, default=_plain)
    except (TypeError, ValueError):
        return json.dumps(_finite(value), allow_nan=False)


def _plain(value: Any) -> Any:
    """`tolist()` of numpy's and torch's arrays and scalars, else the text of the value."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else _finite(_plain(value))
