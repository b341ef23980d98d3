"""Where learning time goes: waiting for batches, and the forward passes of encoders, trunk and heads; and memory."""

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
"""The backward pass, the optimizer, and what has no name here: losses, the worlds of rollouts, checkpoints."""


class Stopwatch:
    """Wall seconds by part. Parts nest, and the outermost counts: a head that asks a head is one, a batch that an agent
    acts for is data.

    On an accelerator operations are only begun in a forward pass; the seconds are the host's then, and what the device
    still has to do is waited for in the rest.
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
            "trunk": (agent.trunk, agent.trunk.decoder),  # stepping goes round the trunk's own `forward`
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
        """No more batches: what makes them ahead may go, even where Lightning still holds on to this."""
        if self._stream is not None:
            self._stream.close()

    def __len__(self) -> int:
        return len(self.batches) - self.batches.update


def shares(seconds: Mapping[str, float], whole_s: float) -> dict[str, float]:
    """Each part's share of `whole_s`, to four decimals; what is left to 1 is the rest."""
    return {part: round(spent / max(whole_s, 1e-9), 4) for part, spent in seconds.items()}


def with_rest(share: Mapping[str, float]) -> dict[str, float]:
    """The shares and the rest; together 1."""
    return {**share, REST: max(0.0, round(1 - sum(share.values()), 4))}


def peak_memory_mb() -> float:
    """The most that this process has held in RAM so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024)
