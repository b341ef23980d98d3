"""Batches made ahead: a thread makes the next batch while the current one is learned."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Prefetch:
    """`make(update)`, where asking for one update begins the next: for callers that go through them in order.

    What is given is decided by `make` and `update` alone, also after a jump. What `make` raises comes when the batch it
    belongs to is asked for, with the traceback of the thread. Half of the caller's threads, at least one, make batches.

    Args:
        steps: nothing is begun at or behind this update.
    """

    def __init__(self, make: Callable[[int], Any], steps: int) -> None:
        from devmind.agent.threads import for_a_helper

        self.make, self.steps = make, steps
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="batches", initializer=for_a_helper())
        self._begun: dict[int, Future[Any]] = {}

    def __call__(self, update: int) -> Any:
        begun = self._begun.pop(update, None) or self._pool.submit(self.make, update)
        self._begun.clear()  # after a jump nobody will ask for what was begun
        batch = begun.result()
        if update + 1 < self.steps:
            self._begun[update + 1] = self._pool.submit(self.make, update + 1)
        return batch

    def close(self) -> None:
        """Begin nothing more. A batch that is being made is not waited for; its thread ends with it."""
        self._pool.shutdown(wait=False, cancel_futures=True)
