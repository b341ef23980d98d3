"""From the loop to whoever looks: the newest view for each viewer, and never a wait.

The loop publishes and goes on. Each viewer has a slot for one view; what it has not taken when the next one comes is
dropped and counted. A view becomes JSON in the viewers' thread, once for all of them.
"""

from __future__ import annotations

import functools
import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class Published:
    """One view as it was published; whoever published it changes nothing in it afterwards.

    Args:
        view: what there is to show of one tick.
        jpeg: the wide view as the camera of this machine saw it, or None.
    """

    def __init__(self, view: Mapping[str, Any], jpeg: bytes | None = None) -> None:
        self.view, self.jpeg = view, jpeg

    @functools.cached_property
    def text(self) -> str:
        """The view as JSON. Numbers that JSON lacks (NaN, infinities) become null."""
        return as_json(self.view)


class Viewer:
    """One who looks, with room for one view; `drops` counts those it did not take in time."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.drops = 0
        self._wake, self._lock = wake, threading.Lock()
        self._newest: Published | None = None

    def put(self, published: Published) -> bool:
        """Replace what is in the slot; True when something in it was never seen."""
        with self._lock:
            unseen = self._newest is not None
            self.drops += unseen
            self._newest = published
        if not unseen:
            self._wake()
        return unseen

    def take(self) -> Published | None:
        """The newest view, once; None when there is nothing new."""
        with self._lock:
            newest, self._newest = self._newest, None
        return newest


class Hub:
    """Where the loop leaves its views, and viewers find them.

    Attributes:
        drops: views that some viewer did not take in time, over all viewers there ever were.
    """

    def __init__(self) -> None:
        self.drops = 0
        self._lock = threading.Lock()
        self._viewers: tuple[Viewer, ...] = ()

    @property
    def watched(self) -> bool:
        """Whether somebody looks: what only viewers need is not computed without them."""
        return bool(self._viewers)

    def publish(self, view: Mapping[str, Any], jpeg: bytes | None = None) -> None:
        """Give every viewer the newest view; takes microseconds and waits for nobody."""
        if viewers := self._viewers:
            published = Published(view, jpeg)
            self.drops += sum(viewer.put(published) for viewer in viewers)

    @contextmanager
    def viewer(self, wake: Callable[[], None]) -> Iterator[Viewer]:
        """Somebody looks. `wake` is called in the publisher's thread when an empty slot fills; it must not wait."""
        viewer = Viewer(wake)
        with self._lock:
            self._viewers = (*self._viewers, viewer)
        try:
            yield viewer
        finally:
            with self._lock:
                self._viewers = tuple(other for other in self._viewers if other is not viewer)


def as_json(value: Any) -> str:
    """JSON that a browser reads: arrays as lists, NaN and infinities as null."""
    try:
        return json.dumps(value, allow_nan=False, default=_plain)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False)


def _plain(value: Any) -> Any:
    """A list or a number of what has `tolist` (numpy's and torch's arrays and scalars), else its text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else _finite(_plain(value))
