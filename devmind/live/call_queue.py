"""CallQueue: work from other threads for the loop's thread, the only one that changes agent, room and memory."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from devmind.errors import DevmindError

T = TypeVar("T")
PATIENCE_S = 5.0


class CallQueue:
    """A queue that one thread works through between two ticks, and that any other thread adds work to."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._open = True

    def ask(self, do: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
        """Let the loop call `do()` and return its result; an exception of `do` is raised here.

        Raises:
            DevmindError: the loop has ended, or does not call it within `patience_s`.
        """
        done: Future[T] = Future()
        with self._lock:
            if not self._open:
                raise DevmindError("The agent is not living any more; start it again with 'devmind live'.")
            self._waiting.put((do, done))
        try:
            return done.result(patience_s)
        except TimeoutError:
            if done.cancel():
                raise DevmindError(
                    f"The agent was too busy to answer within {patience_s:g} s; nothing was changed, try again."
                ) from None
            return done.result()

    def run(self) -> int:
        """Call everything that waits now, and return how many calls that was. Each caller gets its result or error."""
        count = 0
        while True:
            try:
                do, done = self._waiting.get_nowait()
            except queue.Empty:
                return count
            if done.set_running_or_notify_cancel():
                count += 1
                try:
                    done.set_result(do())
                except BaseException as error:
                    done.set_exception(error)
                    if not isinstance(error, Exception):
                        raise

    def close(self) -> None:
        """Call everything that still waits; nothing more is accepted."""
        with self._lock:
            self._open = False
        self.run()
