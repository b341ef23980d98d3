"""The confidence of overlays on this stream: what was measured of the agent, over the last seconds, from zero."""

from __future__ import annotations

import math

import numpy as np

from devmind.acting.confidence import SENSE, Confidence, Overlays
from devmind.agent.agent import Agent
from devmind.live.loop import Tick

EVERY_TICKS = 3
MEMORY_S = 2.0
LONGEST_PAUSE_S = 1.0


class OverlayConfidence:
    """Confidence by kind of overlay, for one head on one stream; a stream begins unsure.

    Args:
        head: one that taps `sight`.
        measured: what is kept with the agent; without it nothing is ever sure.
    """

    def __init__(self, agent: Agent, head: str, measured: Confidence | None) -> None:
        self.agent, self.head, self.measured = agent, head, measured
        self._now: dict[str, float] = {}
        self._ticks, self._last_s = 0, math.inf

    def see(self, tick: Tick, seen: Overlays) -> dict[str, float]:
        """The confidences, 0..1, after one more tick; every third tick is compared with its mirror image.

        Args:
            seen: the head's overlays on that tick.
        """
        self._ticks += 1
        if self.measured is not None and self._ticks % EVERY_TICKS == 0:
            time_s = tick.moment.time_s
            passed_s = min(max(0.0, time_s - self._last_s), LONGEST_PAUSE_S)
            self._last_s = time_s
            weight = 1 - math.exp(-passed_s / MEMORY_S)
            picture = np.asarray(tick.moment.senses[SENSE])
            shares = self.measured.of(self.agent, self.head, tick.percepts, picture, seen)
            for kind, share in shares.items():
                before = self._now.get(kind, 0.0)
                self._now[kind] = before + weight * (share - before)
        return {kind: self._now.get(kind, 0.0) for kind in seen}
