"""Worker: one thread beside a loop, for work that the loop must not wait for."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType
from typing import ClassVar, Generic, Self, TypeVar

from devmind.errors import DevmindError

T = TypeVar("T")


class Worker(Generic[T]):
    """Does one item after another, in a thread of its own; a context manager.

    At its end the item in work is finished and what waits is dropped. It also ends when the main thread does. No
    daemon: it must not be inside torch or numpy when the interpreter exits.

    Args:
        name: of the thread.
        most: items that wait at most.
        idle_s: so long after the last item `idle` is called, again and again.

    Attributes:
        failed: the sentence on an unexpected error, of a `kind` and with an `error`'s words.
        fault: what does not work now, a sentence; '' when all is well.
        working: the item in work; None between two.
    """

    failed: ClassVar[str] = "{error}"

    def __init__(self, name: str, most: int = 1, idle_s: float = 1.0) -> None:
        self.fault, self.idle_s = "", idle_s
        self.working: T | None = None
        self._waiting: deque[T] = deque(maxlen=most)
        self._wake, self._ended = threading.Condition(), False
        self._thread = threading.Thread(target=self._run, name=name)

    def work(self, item: T) -> None:
        """Do an item; an exception becomes the fault."""
        raise NotImplementedError

    def idle(self) -> None:
        """Nothing came for a while; as `work`."""

    def complaint(self, error: Exception) -> str:
        """The fault after an exception: devmind's own are sentences, others stand in that of the class."""
        kind = type(error).__name__
        said = str(error) or kind
        return said if isinstance(error, DevmindError) else self.failed.format(kind=kind, error=said)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._wake:
            self._ended = True
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def put(self, item: T, *, if_room: bool = False) -> bool:
        """Let an item wait, and return at once. Among too many the oldest is dropped, or with `if_room` this one; then
        it is False.
        """
        with self._wake:
            has_room = len(self._waiting) < (self._waiting.maxlen or 0)
            if has_room or not if_room:
                self._waiting.append(item)
                self._wake.notify_all()
        return has_room or not if_room

    @property
    def is_over(self) -> bool:
        """Whether it shall end; long work looks at it."""
        return self._ended or not threading.main_thread().is_alive()

    def _run(self) -> None:
        while self._take():
            try:
                if self.working is None:
                    self.idle()
                else:
                    self.work(self.working)
            except Exception as error:  # catch everything: a dead thread could not report it
                self.fault = self.complaint(error)

    def _take(self) -> bool:
        """Wait for the next item, or until it is time to be idle; False at the end."""
        with self._wake:
            self.working = None
            self._wake.wait_for(lambda: self._waiting or self._ended, self.idle_s)
            if self.is_over:
                return False
            self.working = self._waiting.popleft() if self._waiting else None
        return True
