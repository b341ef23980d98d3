"""Measures learning time, as waiting for batches and forward passes of encoders, trunk and heads; and peak memory."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from devmind.agent.agent import Agent
    from devmind.curriculum.stage import Batches

PARTS = ("data", "encoders", "trunk", "heads")
REST = "backward and the rest"
"""The backward pass, the optimizer, and all that has no other name: losses, the worlds of rollouts, checkpoints."""


class Stopwatch:
    """Wall seconds by part. Of nested parts the outermost counts: a head that calls a head is one part, and a batch for
    which an agent acts is data.

    On an accelerator a forward pass only launches operations. Then the seconds are the host's, and the wait for the
    device counts as the rest.
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._depth, self._part, self._since = 0, "", 0.0

    def begin(self, part: str) -> None:
        """Enter a part."""
        if self._depth == 0:
            self._part, self._since = part, time.perf_counter()
        self._depth += 1

    def end(self) -> None:
        """Leave the part entered last."""
        self._depth -= 1
        if self._depth == 0:
            self.seconds[self._part] += time.perf_counter() - self._since

    @contextmanager
    def during(self, part: str) -> Iterator[None]:
        """Count the block as `part`."""
        self.begin(part)
        try:
            yield
        finally:
            self.end()

    def counted(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` with its time counted as `part`."""

        def call(*arguments: Any) -> Any:
            with self.during(part):
                return function(*arguments)

        return call

    @contextmanager
    def watching(self, agent: Agent) -> Iterator[None]:
        """Count the agent's forward passes within the block, wherever they are called from."""
        parts: dict[str, Iterable[nn.Module]] = {
            "encoders": agent.encoders.values(),
            "trunk": (agent.trunk, agent.trunk.decoder),  # stepping does not call the trunk's own `forward`
            "heads": agent.heads.values(),
        }
        handles = []
        for part, modules in parts.items():
            for module in modules:
                handles.append(module.register_forward_pre_hook(lambda *_, part=part: self.begin(part)))
                handles.append(module.register_forward_hook(lambda *_: self.end(), always_call=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


class TimedBatches:
    """The lesson's batches; waiting for one counts as data."""

    def __init__(self, batches: Batches, watch: Stopwatch) -> None:
        self.batches, self.watch = batches, watch
        self._stream: Generator[Any, None, None] | None = None

    def __iter__(self) -> Iterator[Any]:
        self._stream = iter(self.batches)
        while True:
            with self.watch.during("data"):
                batch = next(self._stream, None)
            if batch is None:
                return
            yield batch

    def close(self) -> None:
        """End prefetching, even if Lightning still holds this object."""
        if self._stream is not None:
            self._stream.close()

    def __len__(self) -> int:
        return len(self.batches) - self.batches.update


def shares(seconds: Mapping[str, float], whole_s: float) -> dict[str, float]:
    """Each part's share of `whole_s`, to four decimals; the remainder to 1 is the rest."""
    return {part: round(spent / max(whole_s, 1e-9), 4) for part, spent in seconds.items()}


def with_rest(share: Mapping[str, float]) -> dict[str, float]:
    """The shares and the rest, which sum to 1."""
    return {**share, REST: max(0.0, round(1 - sum(share.values()), 4))}


def peak_memory_mb() -> float:
    """The peak RAM of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024)
