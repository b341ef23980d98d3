"""Prefetching: a thread makes the next batch while the agent learns from the current one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Prefetch:
    """`make(update)` that begins the next update in a thread, for callers that ask for updates in order.

    A result depends on `make` and `update` alone, also after a jump. An exception of `make` is raised when its batch is
    asked for, with the thread's traceback. The thread uses half of the caller's intra-op threads, at least one.

    Args:
        steps: the number of updates; no later one is begun.
    """

    def __init__(self, make: Callable[[int], Any], steps: int) -> None:
        from devmind.agent.threads import for_a_helper

        self.make, self.steps = make, steps
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="batches", initializer=for_a_helper())
        self._begun: dict[int, Future[Any]] = {}

    def __call__(self, update: int) -> Any:
        begun = self._begun.pop(update, None) or self._pool.submit(self.make, update)
        self._begun.clear()  # after a jump, nobody asks for the batch that was begun
        batch = begun.result()
        if update + 1 < self.steps:
            self._begun[update + 1] = self._pool.submit(self.make, update + 1)
        return batch

    def close(self) -> None:
        """Begin no more batches. The thread ends after its current batch, for which nobody waits."""
        self._pool.shutdown(wait=False, cancel_futures=True)
