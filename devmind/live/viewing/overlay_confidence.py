"""The confidence of overlays on this stream: calibrated, over the last seconds, starting at zero."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from functools import cache

import torch

from devmind.agent.agent import Agent
from devmind.agent.taps import Percepts
from devmind.agent.threads import for_a_helper
from devmind.live.viewing.agreement import SENSE, Overlays
from devmind.live.viewing.confidence import Calibration, Evidence, calibration_rooms, gather, learn
from devmind.live.viewing.corruptions import Rooms

EVERY_TICKS = 3
MEMORY_S = 2.0
LONGEST_PAUSE_S = 1.0


@cache
def _rooms() -> Rooms:
    return calibration_rooms()


class OverlayConfidence:
    """Confidence by kind of overlay, for one head on one stream.

    A thread beside the living agent draws rooms (once for each process) and calibrates the head on them. Before that,
    and for the first seconds of a stream, nothing is sure.

    Args:
        head: one that taps `sight`.
    """

    def __init__(self, agent: Agent, head: str) -> None:
        self.agent, self.head = agent, head
        self.now: dict[str, float] = {}
        self._calibration: Calibration | None = None
        self._ticks, self._last_s = 0, math.inf
        self._closed = False
        # No daemon: a thread inside torch at the interpreter's exit aborts the process.
        self._thread = threading.Thread(target=self._calibrate, args=(for_a_helper(),), name="calibrating")
        self._thread.start()

    def _calibrate(self, settle: Callable[[], None]) -> None:
        settle()
        rooms = _rooms()
        parts, begun_s = [], time.perf_counter()
        for part in gather(self.agent, self.head, rooms):
            if self._closed or not threading.main_thread().is_alive():
                return
            parts.append(part)
            # Sleep as long as it worked: the living agent gets the other half of the time.
            time.sleep(time.perf_counter() - begun_s)
            begun_s = time.perf_counter()
        self._calibration = learn(self.head, Evidence.joined(parts), rooms)

    def close(self) -> None:
        """Stop a calibration that nobody waits for."""
        self._closed = True

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the calibration; returns whether it is done."""
        self._thread.join(timeout_s)
        return self._calibration is not None

    def fits(self, agent: Agent, head: str) -> bool:
        """Whether another agent sees with the same weights, so that this calibration holds for it too."""
        if head != self.head or SENSE not in agent.encoders:
            return False
        pairs = ((agent.encoder(SENSE), self.agent.encoder(SENSE)), (agent.head(head), self.agent.head(head)))
        return all(_same(mine, theirs) for mine, theirs in pairs)

    def see(self, percepts: Percepts, seen: Overlays, time_s: float) -> dict[str, float]:
        """The confidences, 0..1, after one more tick; every third tick is compared with its mirror image.

        Args:
            seen: the head's overlays on that tick; time_s: the Moment's.
        """
        self._ticks += 1
        if self._calibration is None or self._ticks % EVERY_TICKS:
            return {kind: self.now.get(kind, 0.0) for kind in seen}
        passed_s = min(max(0.0, time_s - self._last_s), LONGEST_PAUSE_S)
        self._last_s = time_s
        weight = 1 - math.exp(-passed_s / MEMORY_S)
        for kind, share in self._calibration.confidences(self.agent, percepts, seen).items():
            before = self.now.get(kind, 0.0)
            self.now[kind] = before + weight * (share - before)
        return {kind: self.now.get(kind, 0.0) for kind in seen}


def _same(mine: torch.nn.Module, theirs: torch.nn.Module) -> bool:
    a, b = mine.state_dict(), theirs.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
